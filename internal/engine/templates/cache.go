package templates

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/privatefs"
	"service-adapter/internal/redact"
)

// Options configure a Cache: its directories, the backend for which it prepares templates, and the runner of "tofu
// init". CacheDir, Backend, Runner and Logger are required; a zero value of any other field means none, or not
// encrypted.
type Options struct {
	// CacheDir is a private directory. The cache creates the subdirectory "prepared" in it.
	CacheDir string
	// ReadOnlyDir is the CacheDir of another cache, which is searched first and never written. "" means that there is
	// none.
	ReadOnlyDir string
	// Backend stores the states of all runs.
	Backend backend.Backend
	// Store is checked before a directory is initialised: its connections must keep their sessions. It may be nil.
	Store statestore.Store
	// Encrypted states whether the states are encrypted, which old versions of OpenTofu do not support.
	Encrypted bool
	// Runner runs "tofu init".
	Runner opentofu.Runner
	// Secrets are masked in the errors of these runs. It may be nil.
	Secrets *redact.Secrets
	// Logger receives a warning about each damaged prepared directory.
	Logger *slog.Logger
}

// Cache builds prepared directories, which contain a template after "tofu init", in the directory "prepared" of a cache
// directory, and returns those that exist. New returns one; the zero value is not usable. It is safe for concurrent
// use, also by several processes.
type Cache struct {
	options Options
	dir     string // contains the prepared directories
}

// preparedName is the name of the directory with the prepared directories in a CacheDir.
const preparedName = "prepared"

// New returns a new cache and creates its directory, "prepared" in CacheDir, with missing parents. It returns nil and
// an error if that directory cannot be created. A ReadOnlyDir of "" means that there is none. Otherwise it is also an
// error if another user owns, may write or could replace ReadOnlyDir or its subdirectory "prepared", because the
// adapter executes programs there, or if they cannot be checked. A ReadOnlyDir that does not exist is not an error. New
// does not check the other options.
func New(o Options) (*Cache, error) {
	if o.ReadOnlyDir != "" {
		var err error
		if o.ReadOnlyDir, err = filepath.Abs(o.ReadOnlyDir); err != nil {
			return nil, fmt.Errorf("checking prepared_dir: %w", err)
		}
		for _, dir := range []string{o.ReadOnlyDir, filepath.Join(o.ReadOnlyDir, preparedName)} {
			// A missing directory contains nothing to execute.
			if err := privatefs.CheckDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("checking prepared_dir %q: %w", dir, err)
			}
		}
	}
	c := &Cache{options: o, dir: filepath.Join(o.CacheDir, preparedName)}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating cache directory: %w", err)
	}
	return c, nil
}

// Prepare returns the prepared directory of the template t for the OpenTofu and the providers of i. It uses the
// directory in ReadOnlyDir if that is intact, otherwise the one in CacheDir, which it builds if it is missing or
// damaged. Building one runs "tofu init" without network access, and waits for other builds until the context ends. It
// also removes directories in CacheDir that have not been used for 30 days. A damaged directory is logged as a warning.
// A directory in CacheDir that is used is marked as used, so that it is not removed soon.
//
// With an error the result is nil or must not be used. Errors in the template are diag.Errors, and a failure of
// OpenTofu, also because the context ended, is an *opentofu.Error. It is also an error if the OpenTofu does not support
// the encryption or the locks of the backend, if OpenTofu or a provider is missing or cannot be executed, if a provider
// has an invalid name or version, if an OpenTofu that builds a directory has another version than the pak says, if the
// sessions of the backend's database are shared, if a file cannot be read or written, or if the context ends while
// another build is running or before OpenTofu is started.
func (c *Cache) Prepare(ctx context.Context, i opentofu.Installation, t Template) (*Prepared, error) {
	key, err := c.key(i, t)
	if err != nil {
		return nil, err
	}
	cacheDir := filepath.Join(c.dir, key)
	if c.options.ReadOnlyDir != "" {
		dir := filepath.Join(c.options.ReadOnlyDir, preparedName, key)
		p, err := load(dir, i)
		switch {
		case errors.Is(err, errDamaged):
			c.options.Logger.Warn("leaving out a damaged prepared directory; repair it with service-adapter prepare",
				"directory", dir, "error", err)
		case !errors.Is(err, fs.ErrNotExist):
			return p, err
		}
	}
	p, err := load(cacheDir, i)
	if err == nil {
		err = os.Chtimes(cacheDir, time.Time{}, time.Now()) // the time of the last use
	}
	if errors.Is(err, errDamaged) {
		c.options.Logger.Warn("rebuilding a damaged prepared directory", "directory", cacheDir, "error", err)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	if err := c.build(ctx, i, cacheDir, t); err != nil {
		return nil, fmt.Errorf("preparing OpenTofu: %w", err)
	}
	return load(cacheDir, i)
}

// PrepareBase returns the prepared directory of the empty template, which declares only the guard, the resource that
// reserves a workspace, and has no providers. Like Prepare, it uses an intact directory in ReadOnlyDir or CacheDir,
// even if the context has ended, and otherwise builds the one in CacheDir. Of i, it uses only the OpenTofu.
//
// With an error the result is nil or must not be used. A failure of OpenTofu, also because the context ended, is an
// *opentofu.Error. It is also an error if the OpenTofu does not support the encryption or the locks of the backend, is
// missing, or cannot be executed, if an OpenTofu that builds the directory has another version than the pak says, if
// the sessions of the backend's database are shared, if a file cannot be read or written, or if the context ends while
// another build is running or before OpenTofu is started.
func (c *Cache) PrepareBase(ctx context.Context, i opentofu.Installation) (*Prepared, error) {
	i.Providers = nil
	return c.Prepare(ctx, i, Template{})
}

// key returns the name of the prepared directory of the template t: a SHA-256 in 64 hexadecimal digits of the template,
// the backend, the version of the generated files, the version of OpenTofu, the names and versions of the providers of
// i, and the paths, sizes and modification times of their files and of OpenTofu. The order of the template's inputs
// does not matter. It returns "" and an error if the path of an executable is not absolute, or if an executable is
// missing or cannot be executed, and if the OpenTofu does not support the encryption or the locks of the backend. It
// creates no directory.
func (c *Cache) key(i opentofu.Installation, t Template) (string, error) {
	if err := c.CheckSupport(i); err != nil {
		return "", err
	}
	program, err := opentofu.InspectExecutable("OpenTofu", i.Binary)
	if err != nil {
		return "", err
	}
	parts := []any{
		layout, t.Files, slices.Sorted(slices.Values(t.Inputs)), c.options.Backend, i.Version, i.Providers, program,
	}
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

// CheckSupport returns an error if the version of the OpenTofu of i is older than 1.10 or not valid and the cache's
// options require more: the encryption of states, or the locks of an s3 backend with use_lockfile. Otherwise it returns
// nil. It does not read the files of the installation.
func (c *Cache) CheckSupport(i opentofu.Installation) error {
	switch {
	case i.AtLeast(1, 10):
		return nil
	case c.options.Encrypted:
		return fmt.Errorf("state.encryption needs OpenTofu 1.10 or newer, and this is %s", i.Version)
	case c.options.Backend.UsesLockfile():
		return fmt.Errorf("state.type s3 needs OpenTofu 1.10 or newer, "+
			"or a dynamodb_table for the locks, and this is %s", i.Version)
	default:
		return nil
	}
}
