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

// Options configure a Cache. CacheDir, Backend, Runner and Logger are required.
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

// Cache builds prepared directories and finds those that exist. It is safe for concurrent use, also by several
// processes.
type Cache struct {
	options Options
	dir     string // contains the prepared directories
}

// preparedName is the name of the directory with the prepared directories in a CacheDir.
const preparedName = "prepared"

// New returns a new cache and creates its directory. It returns an error if another user may write ReadOnlyDir or the
// prepared directories in it, because the adapter executes programs in them, if these cannot be checked, or if the
// directory cannot be created. A ReadOnlyDir that does not exist is not an error.
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

// Prepare returns the prepared directory of a template. It uses the one in ReadOnlyDir if that is intact, otherwise the
// one in CacheDir, which it builds if it is missing or damaged. Building one runs "tofu init" without network access,
// and waits for other builds until the context ends. A damaged directory is logged. The directory in CacheDir is marked
// as used, so that it is not removed soon; see Sweep.
//
// Errors in the template are diag.Errors, and a failure of "tofu init" is an *opentofu.Error. It is also an error if
// OpenTofu or a provider is missing or cannot be executed, if an OpenTofu that builds a directory has another version
// than the pak says, if the sessions of the backend's database are shared, if a file cannot be read or written, if the
// context ends while another build is running, and if CheckSupport returns one.
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

// PrepareBase returns the prepared directory that declares only the guard and has no providers. The errors are those of
// Prepare.
func (c *Cache) PrepareBase(ctx context.Context, i opentofu.Installation) (*Prepared, error) {
	i.Providers = nil
	return c.Prepare(ctx, i, Template{})
}

// key returns the name of the prepared directory of a template: a hash of the template, the backend, and the paths,
// sizes and modification times of OpenTofu and the providers. It returns an error if one of these executables is
// missing or cannot be executed, or if CheckSupport returns one.
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

// CheckSupport returns an error if the OpenTofu is too old for the encryption of states, or for the locks of the
// backend. It does not look at the files of the installation.
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
