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

// build builds the prepared directory of the template t for the OpenTofu and the providers of i. dir is its path, a
// subdirectory of the directory of the cache. build works in a temporary directory next to dir and then renames it. A
// damaged dir is exchanged for the new one in one step if the file system supports that, because the working
// directories of other runs link to its files. Only one process builds at a time; build waits for another one, at most
// until the context ends. It builds nothing, and returns nil, if dir is intact by then. Before it builds, build removes
// the temporary directories of interrupted builds, and the prepared directories, also dir, that have not been used for
// maxUnused.
//
// Errors in the template, among them variables that are neither declared nor inputs, are diag.Errors, and a failure of
// OpenTofu, also because the context ended, is an *opentofu.Error. It is another error if the context ends while build
// waits or before OpenTofu is started, if the OpenTofu has another version than the pak says, if a provider has an
// invalid name or version, if the sessions of the backend's database are shared (see checkSessions), or if a file
// cannot be read, written or removed.
//
// An error before the rename leaves dir as it was, unless it has been removed because it was not used. After an error
// of the rename, dir may be missing or new; see durable.Replace.
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

// writeVariants writes the files of the variants into the new directory dir, one subdirectory per variant, creates the
// mirror of the providers of i in it, and runs "tofu init" in the apply variant. variants contains the files of each
// variant by name; a file is either a text or an object to encode in JSON. The destroy variant links to the plugins and
// the lock file of the apply variant. lock is the locked file of the build, which runs of OpenTofu inherit.
//
// The error is an *opentofu.Error if OpenTofu fails, also because ctx ended. It is another error if the backend's
// database does not keep sessions, if the OpenTofu has another version than the pak says, if a provider has an invalid
// name or version, if a file or a link cannot be written, or if ctx ended before OpenTofu was started. After an error
// dir is incomplete and may contain the credentials of the backend.
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
