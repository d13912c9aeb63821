package templates

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"service-adapter/internal/durable"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/provider"
	"service-adapter/internal/filelock"
	"service-adapter/internal/hclfile"
)

// Names of files that are in the same directory as the prepared directories: the lock that a build holds, and the
// prefix of the temporary directories of builds.
const (
	buildLock = ".lock"
	newPrefix = ".new-"
)

// build builds the prepared directory dir of a template. It does so in a temporary directory, which it then renames. A
// damaged dir is exchanged atomically for the new one, because the working directories of other runs link to its files.
// Only one process builds at a time; the others wait until the context ends, and do nothing if dir is intact then.
// build also removes the temporary directories of interrupted builds, and the prepared directories that have not been
// used for maxUnused.
//
// Errors in the template are diag.Errors, and a failure of "tofu init" is an *opentofu.Error. It is another error if
// the context ends while build waits, if the OpenTofu has another version than the pak says, if a provider has an
// invalid name or version, if the sessions of the backend's database are shared (see checkSessions), or if a file
// cannot be read or written. After an error dir is as before.
func (c *Cache) build(ctx context.Context, i opentofu.Installation, dir string, t Template) (err error) {
	parent := filepath.Dir(dir)
	lock, err := filelock.Lock(ctx, filepath.Join(parent, buildLock), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err := load(dir, i); err == nil {
		return nil // another process has built it meanwhile
	}
	// This process holds the build lock.
	if err := removeAbandoned(parent); err != nil {
		return err
	}
	module, diags := hclfile.Inspect(t.Files)
	for name, pos := range module.Undeclared {
		if !slices.Contains(t.Inputs, name) {
			diags.Errorf(pos, "undeclared-variable",
				"var.%s is neither declared by a variable block nor an input of the action", name)
		}
	}
	if err := diags.Err(); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(parent, newPrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	if err := c.writeVariants(ctx, i, temp, variants(module, t, c.options.Backend, i.Version), lock); err != nil {
		return err
	}
	for name := range module.Undeclared {
		module.Variables[name] = hclfile.Variable{}
	}
	info := templateInfo{Module: module}
	if info.Shared, err = provider.FindShared(i, module, filepath.Join(temp, string(Apply), lockName)); err != nil {
		return err
	}
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temp, templateInfoFile), text, 0o600); err != nil {
		return err
	}
	if err := writeDigest(temp); err != nil {
		return err
	}
	return durable.Replace(temp, dir)
}

// writeVariants writes the files of the variants into the new directory dir, creates the mirror of the providers in it,
// and runs "tofu init" in the apply variant. The destroy variant links to the plugins and the lock file of the apply
// variant. A file is either a text or an object to encode in JSON. lock is the locked file of the build, which runs of
// OpenTofu inherit. The errors are those of initialise and opentofu.Installation.Mirror, and those of writing files;
// after an error dir is incomplete.
func (c *Cache) writeVariants(
	ctx context.Context, i opentofu.Installation, dir string, variants map[Variant]object, lock *os.File,
) error {
	for variant, files := range variants {
		if err := os.Mkdir(filepath.Join(dir, string(variant)), 0o700); err != nil {
			return err
		}
		for name, content := range files {
			text, isText := content.(string)
			if !isText {
				encoded, err := json.MarshalIndent(content, "", "  ")
				if err != nil {
					return err
				}
				text = string(encoded)
			}
			if err := os.WriteFile(filepath.Join(dir, string(variant), name), []byte(text), 0o600); err != nil {
				return err
			}
		}
	}
	if err := i.Mirror(filepath.Join(dir, "mirror")); err != nil {
		return err
	}
	if err := c.initialise(ctx, i, dir, lock); err != nil {
		return err
	}
	var err error
	for _, name := range []string{DataDir, lockName} {
		target := filepath.Join("..", string(Apply), name)
		err = errors.Join(err, os.Symlink(target, filepath.Join(dir, string(Destroy), name)))
	}
	return err
}
