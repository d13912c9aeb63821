// Package scratch manages the scratch directories of workspaces, and runs OpenTofu in them.
//
// A scratch directory belongs to one workspace and exists while a process works on that workspace, under the lease of
// the workspace. OpenTofu runs in its subdirectories, the working directories, which consist of links to a prepared
// directory. The runs of a scratch directory share the lease, the secrets to mask, the encryption keys and the
// providers that were started for them.
//
// OpenTofu leaves a state that it cannot save in the backend in its working directory. Such a state stays when the
// directory is closed or swept, but a run in the same working directory would remove it, so the callers save it before
// that. All other files are removed when the directory is closed, or by a later process if the adapter was killed.
package scratch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/lease"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statelock"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/redact"
)

// Options configure a Root, which contains the scratch directories of all workspaces. All fields are required except
// Encryption and Secrets, which may be nil.
type Options struct {
	// CacheDir is a private directory. The root creates the subdirectory "runs" in it.
	CacheDir string
	// TempDir is the directory for sockets if the path of a scratch directory is too long for them.
	TempDir string
	// Backend stores the states.
	Backend backend.Backend
	// Encryption encrypts the states. A nil Encryption stores them in clear text.
	Encryption *statestore.Encryption
	// Runner runs OpenTofu. Its Grace is also the time between the interrupt and the kill of an OpenTofu that hangs.
	Runner opentofu.Runner
	// Templates contains the prepared directory that declares only the guard.
	Templates *templates.Cache
	// StaleLock returns the age at which the lock of a workspace's state is considered stale, and at which an OpenTofu
	// whose adapter is dead is considered hung. The result 0 means never.
	StaleLock func(workspace string) time.Duration
	// Secrets are masked in errors and log entries.
	Secrets *redact.Secrets
	Logger  *slog.Logger
}

// Root contains the scratch directories of all workspaces. It is safe for concurrent use, also by several processes.
type Root struct {
	options Options
	dir     string
}

// New returns a new Root and creates its directory. It returns an error if that fails, and does not check the options.
func New(o Options) (*Root, error) {
	r := &Root{options: o, dir: filepath.Join(o.CacheDir, "runs")}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating cache directory: %w", err)
	}
	return r, nil
}

// A Directory is an open scratch directory. Only this process uses it until Close. It is not safe for concurrent use.
type Directory struct {
	// Secrets are masked in the errors and log entries of runs. The user of the directory adds the secrets of the
	// workspace.
	Secrets *redact.Secrets
	// Lock waits for the lock of the workspace's state.
	Lock *statelock.Waiter

	root      *Root
	workspace string
	path      string
	sockets   string // a directory outside of path that holds sockets, "" when there is none
	// lease is the lease of the directory. All runs inherit its file, so it lasts until the last of them has ended.
	lease *lease.Lease
	// recordsRuns states whether the lease is that of the workspace, in which runs are recorded.
	recordsRuns bool
	providers   *startedProviders // the providers that are running, nil when there are none
	// ephemeral holds the values of ephemeral variables, as a file in memory, by the working directory whose last run
	// with variables had such values. outputs are files in memory that receive the output of runs, by path.
	ephemeral map[WorkingDir]*os.File
	outputs   map[string]*os.File
}

// Open takes the lease of a workspace and opens its scratch directory. It waits for a run that is under way until the
// context ends; a run that hangs is ended, see Options.StaleLock. Files that an earlier run left in the directory are
// removed, except a state that OpenTofu could not save. The name of the workspace must be a plain file name. The caller
// must call Close. Open returns an error, which names the holder of the lease and wraps the context's error, if the
// context ends first, and a plain error if the lease or the directory cannot be created.
func (r *Root) Open(ctx context.Context, workspace string) (*Directory, error) {
	d, err := r.open(ctx, workspace, workspace)
	if err != nil {
		return nil, err
	}
	d.recordsRuns = true
	return d, nil
}

// OpenTemporary opens a new scratch directory for runs that only read the state of a workspace. It does not take the
// lease of the workspace, so it does not wait for other runs. The caller must call Close. If the adapter is killed, the
// directory contains the state in clear text and the encryption keys; the next Sweep removes it. With the workspace "",
// the runs must not select a workspace. OpenTemporary returns an error if the context has ended or the directory cannot
// be created.
func (r *Root) OpenTemporary(ctx context.Context, workspace string) (*Directory, error) {
	return r.open(ctx, workspace, temporaryPrefix+rand.Text())
}

// temporaryPrefix is the beginning of the names of temporary scratch directories.
const temporaryPrefix = "look-"

// open takes the lease of the scratch directory of this name and creates the directory, without the files that an
// earlier run left in it, except a state that could not be saved. Runs in it select the workspace. It waits for the
// lease until the context ends; see lease.Take for the errors. It returns another error if a file cannot be removed or
// created. After an error it holds no lease.
func (r *Root) open(ctx context.Context, workspace, name string) (*Directory, error) {
	path := filepath.Join(r.dir, name)
	l, err := lease.Take(ctx, path, lease.Options{
		HungAfter: r.options.StaleLock(name), Grace: r.options.Runner.Grace, Logger: r.options.Logger,
	})
	if err != nil {
		return nil, err
	}
	d := &Directory{
		Secrets: redact.NewChild(r.options.Secrets), Lock: r.Waiter(workspace),
		root: r, workspace: workspace, path: path, lease: l,
		ephemeral: map[WorkingDir]*os.File{}, outputs: map[string]*os.File{},
	}
	if err := errors.Join(clearDir(path), os.MkdirAll(filepath.Join(path, "tmp"), 0o700), d.writeKeys()); err != nil {
		return nil, errors.Join(err, clearDir(path), l.Release())
	}
	return d, nil
}

// Waiter returns a new Waiter for the lock of a workspace's state, for work that needs no scratch directory.
func (r *Root) Waiter(workspace string) *statelock.Waiter {
	return statelock.NewWaiter(workspace, r.options.Backend, r.options.Logger)
}

// Close stops the providers, removes the directory, except a state in it that could not be saved, and releases the
// lease. It returns an error if a file cannot be removed. The directory must not be used afterwards.
func (d *Directory) Close() error {
	d.stopProviders()
	return errors.Join(d.closeMemory(), clearDir(d.path), d.lease.Release())
}

// Path returns the path of a file of this name in the directory. Close removes the file.
func (d *Directory) Path(name string) string { return filepath.Join(d.path, name) }

// longestSocketDir is the length in bytes of the longest directory path that leaves enough room for the sockets that
// providers create in the directory.
const longestSocketDir = 80

// socketDir returns the directory for the sockets of OpenTofu and its providers. The kernel limits the path of a socket
// to about 100 bytes, so a directory below TempDir is created by the first call if the path of the scratch directory is
// too long. A link in the scratch directory names it, so that clearDir removes it. socketDir returns an error if the
// directory or the link cannot be created.
func (d *Directory) socketDir() (string, error) {
	if own := d.Path("tmp"); len(own) <= longestSocketDir {
		return own, nil
	}
	if d.sockets == "" {
		dir, err := os.MkdirTemp(d.root.options.TempDir, "tofu-")
		if err != nil {
			return "", err
		}
		if err := os.Symlink(dir, d.Path(socketsLink)); err != nil {
			return "", errors.Join(err, os.Remove(dir))
		}
		d.sockets = dir
	}
	return d.sockets, nil
}
