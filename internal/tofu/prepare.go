package tofu

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"service-adapter/internal/hclfile"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/opentofu/provider"
)

// layout is the version of the prepared directories' layout and generated files. Raise it with every change of either, so
// that directories made by an older adapter are not used.
const layout = 5

// Template is the OpenTofu configuration of an action.
type Template struct {
	// Files are the files in native syntax, name ("main.tf") → text.
	Files map[string]string
	// Inputs are the names that are declared where the files use var.NAME without a variable block.
	Inputs []string
}

// known is what is kept of a prepared template, so that it need not be read again.
type known struct {
	*hclfile.Module
	// Shared are the providers that are started once for several runs.
	Shared []provider.Shared
}

// Prepared is an initialised directory of one template for one installation. Nothing in it changes any more, and any number
// of runs use it at the same time.
type Prepared struct {
	known        // Variables are all that the template has, whether it declares them or not
	dir          string
	installation opentofu.Installation
}

// Tofu is the version of the installation's OpenTofu.
func (p *Prepared) Tofu() string { return p.installation.Version }

// sensitive are the variables that the template declares sensitive.
func (p *Prepared) sensitive() []string {
	var names []string
	for name, variable := range p.Variables {
		if variable.Sensitive {
			names = append(names, name)
		}
	}
	return names
}

// Prepare returns the prepared directory of a template, and makes it when there is none. Errors in the template are
// diag.Errors; what "tofu init" finds wrong is a *opentofu.Error. It looks in the read-only place first.
func (e *Engine) Prepare(ctx context.Context, i opentofu.Installation, t Template) (*Prepared, error) {
	key, err := e.key(i, t)
	if err != nil {
		return nil, err
	}
	for _, root := range []string{e.options.PreparedDir, e.options.CacheDir} {
		if root == "" {
			continue
		}
		p, err := load(filepath.Join(root, preparedName, key), i)
		if err == nil && root == e.options.CacheDir {
			err = os.Chtimes(p.dir, time.Time{}, time.Now()) // of its last use
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return p, err
		}
	}
	dir := filepath.Join(e.options.CacheDir, preparedName, key)
	if err := e.build(ctx, i, dir, t); err != nil {
		return nil, fmt.Errorf("preparing OpenTofu: %w", err)
	}
	return load(dir, i)
}

// base returns the prepared directory of no template, which holds the guard.
func (e *Engine) base(ctx context.Context, i opentofu.Installation) (*Prepared, error) {
	i.Providers = nil
	return e.Prepare(ctx, i, Template{})
}

// key is the name of the prepared directory of a template: a sum of everything that it depends on.
func (e *Engine) key(i opentofu.Installation, t Template) (string, error) {
	if err := e.supports(i); err != nil {
		return "", err
	}
	program, err := opentofu.InspectExecutable("OpenTofu", i.Binary)
	if err != nil {
		return "", err
	}
	parts := []any{layout, t.Files, slices.Sorted(slices.Values(t.Inputs)), e.options.Backend, i.Version, i.Providers, program}
	for _, p := range i.Providers {
		if program, err = opentofu.InspectExecutable("provider "+p.FQN, p.File); err != nil {
			return "", err
		}
		parts = append(parts, program)
	}
	text, err := json.Marshal(parts)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// supports refuses an OpenTofu that lacks what the backend needs, or cannot ask another program for keys.
func (e *Engine) supports(i opentofu.Installation) error {
	switch b := e.options.Backend; {
	case i.AtLeast(1, 10):
		return nil
	case e.options.Encryption != nil:
		return fmt.Errorf("state.encryption needs OpenTofu 1.10 or newer, and this is %s", i.Version)
	case b.Type == s3Type && b.Config[s3Lockfile] == true:
		return fmt.Errorf("state.type s3 needs OpenTofu 1.10 or newer, or a dynamodb_table for the locks, and this is %s", i.Version)
	default:
		return nil
	}
}

// knownFile keeps what is known of a template.
const knownFile = "template.json"

func load(dir string, i opentofu.Installation) (*Prepared, error) {
	text, err := os.ReadFile(filepath.Join(dir, knownFile))
	if err != nil {
		return nil, err
	}
	p := &Prepared{dir: dir, installation: i}
	if err := json.Unmarshal(text, &p.known); err != nil {
		return nil, fmt.Errorf("reading prepared directory %s: %w", dir, err)
	}
	return p, nil
}

// What is beside prepared directories: the lock of builds, and what is being built.
const (
	buildLock = ".lock"
	newPrefix = ".new-"
)

// build makes a prepared directory in a temporary one beside it and renames it, one at a time.
func (e *Engine) build(ctx context.Context, i opentofu.Installation, dir string, t Template) (err error) {
	parent := filepath.Dir(dir)
	lock, err := lockFile(ctx, filepath.Join(parent, buildLock), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err := os.Stat(dir); err == nil {
		return nil // Another run built it while we waited.
	}
	// Nobody else builds now.
	if err := removeAbandoned(parent); err != nil {
		return err
	}
	module, diags := hclfile.Inspect(t.Files)
	for name, pos := range module.Undeclared {
		if !slices.Contains(t.Inputs, name) {
			diags.Errorf(pos, "undeclared-variable", "var.%s is neither declared by a variable block nor an input of the action", name)
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
	if err := e.fill(ctx, i, temp, variants(module, t, e.options.Backend, i.Version), lock); err != nil {
		return err
	}
	for name := range module.Undeclared {
		module.Variables[name] = hclfile.Variable{}
	}
	known := known{Module: module}
	if known.Shared, err = provider.FindShared(i, module, filepath.Join(temp, applyVariant, lockName)); err != nil {
		return err
	}
	text, err := json.Marshal(known)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temp, knownFile), text, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, dir)
}

// fill writes the variants and initialises one of them; the other one uses the same plugins and lock file.
func (e *Engine) fill(ctx context.Context, i opentofu.Installation, dir string, variants map[string]object, lock *os.File) error {
	for variant, files := range variants {
		if err := os.Mkdir(filepath.Join(dir, variant), 0o700); err != nil {
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
			if err := os.WriteFile(filepath.Join(dir, variant, name), []byte(text), 0o600); err != nil {
				return err
			}
		}
	}
	if err := i.Mirror(filepath.Join(dir, "mirror")); err != nil {
		return err
	}
	if err := e.initialise(ctx, i, dir, lock); err != nil {
		return err
	}
	var err error
	for _, name := range []string{dataDir, lockName} {
		err = errors.Join(err, os.Symlink(filepath.Join("..", applyVariant, name), filepath.Join(dir, destroyVariant, name)))
	}
	return err
}
