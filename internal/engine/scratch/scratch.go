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

// Options configure a Root, which contains the scratch directories of all workspaces: the cache directory, the backend,
// the encryption, the runner of OpenTofu and the age of stale locks. All fields are required except Encryption and
// Secrets, which may be nil.
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
	// whose adapter is dead is considered hung. The result 0 means never. The workspace may also be "" or the name of a
	// temporary scratch directory.
	StaleLock func(workspace string) time.Duration
	// Secrets are masked in errors and log entries.
	Secrets *redact.Secrets
	Logger  *slog.Logger
}

// Root contains the scratch directories of all workspaces, in the directory "runs" of the cache directory, and opens
// and sweeps them. New returns one; the zero value is not usable. It is safe for concurrent use, also by several
// processes.
type Root struct {
	options Options
	dir     string
}

// New returns a new Root and creates the directory "runs" in CacheDir, with missing parents, for this user only. It
// returns nil and an error if that fails. It does not check the options.
func New(o Options) (*Root, error) {
	r := &Root{options: o, dir: filepath.Join(o.CacheDir, "runs")}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating cache directory: %w", err)
	}
	return r, nil
}

// A Directory is an open scratch directory: the directory of one workspace in which OpenTofu runs, with its lease, the
// secrets to mask, the running providers and the files in memory. Root.Open and Root.OpenTemporary return one; the zero
// value is not usable. Only this process uses it until Close, which must be called. It is not safe for concurrent use.
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

// Open takes the lease of a workspace, the exclusive right to work on it on this machine, and opens its scratch
// directory, which it creates if it is missing. It waits for a run that is under way until the context ends; a run
// that hangs is ended, see Options.StaleLock. If no run is under way, Open succeeds even if the context has ended.
// Files that an earlier run left in the directory are removed, except a state that OpenTofu could not save. The name
// of the workspace must be a plain file name, which Open does not check. The caller must call Close.
//
// With an error the result is nil and no lease is held. If the context ends first, the error names the holder of the
// lease, as far as that is known, and wraps the context's error. It is a plain error if the lease cannot be locked or
// written, or if a file in the directory cannot be removed or created.
func (r *Root) Open(ctx context.Context, workspace string) (*Directory, error) {
	d, err := r.open(ctx, workspace, workspace)
	if err != nil {
		return nil, err
	}
	d.recordsRuns = true
	return d, nil
}

// OpenTemporary creates a new scratch directory for runs that only read the state of a workspace or delete an empty
// workspace. It does not take the lease of the workspace, so it does not wait for other runs to end, and runs in it are
// not recorded in that lease. With the workspace "", the runs must not select a workspace. The caller must call Close,
// which removes the directory, except a state in it that could not be saved. If the adapter is killed, the directory,
// which may contain the state in clear text and the encryption keys, stays until the next Sweep. OpenTemporary returns
// nil and an error if the directory, a file in it or its own lease cannot be created. It waits for nothing, so a
// context that has ended does not cause an error.
func (r *Root) OpenTemporary(ctx context.Context, workspace string) (*Directory, error) {
	return r.open(ctx, workspace, temporaryPrefix+rand.Text())
}

// temporaryPrefix is the beginning of the names of temporary scratch directories.
const temporaryPrefix = "look-"

// open takes the lease of the scratch directory called name, a file name below the directory of the Root, and
// creates the directory, without the files that an earlier run left in it, except a state that could not be saved.
// Runs in it select the workspace, whose name may differ from that of the directory. They are recorded in the lease
// only if the caller sets recordsRuns. open waits for the lease until the context ends, and ends a run that hangs;
// see Options.StaleLock. With encryption it also writes the script with the keys. The caller must call Close.
//
// With an error the result is nil and no lease is held. The error wraps that of the context and names the holder, if it
// is known, if the context ends first. It is another error if the lease cannot be locked or written, or if a file
// cannot be removed or created.
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

// Waiter returns a new Waiter for the lock of the state of the workspace with this name, for work that needs no scratch
// directory. The Waiter logs one warning, the first time that one of its operations has to wait.
func (r *Root) Waiter(workspace string) *statelock.Waiter {
	return statelock.NewWaiter(workspace, r.options.Backend, r.options.Logger)
}

// Close stops the providers, closes the files in memory, removes the directory and the directory of its sockets, except
// a state in it that could not be saved, and releases the lease. It continues after an error and returns an error if a
// file cannot be removed or closed. The Directory must not be used afterwards.
func (d *Directory) Close() error {
	d.stopProviders()
	return errors.Join(d.closeMemory(), clearDir(d.path), d.lease.Release())
}

// Path returns the absolute path of the file or directory of this name in the scratch directory. The name may be a
// relative path. Path creates no file; Close removes the file.
func (d *Directory) Path(name string) string { return filepath.Join(d.path, name) }

// longestSocketDir is the length in bytes of the longest directory path that leaves enough room for the sockets that
// providers create in the directory.
const longestSocketDir = 80

// socketDir returns the path of the directory for the sockets of OpenTofu and its providers. That is usually "tmp" in
// the scratch directory. The kernel limits the path of a socket to about 100 bytes, so if that path has more than 80
// bytes, the first call creates a directory below TempDir, which later calls return. A symbolic link in the scratch
// directory leads to it, so that clearDir removes it. socketDir returns an error if the directory or the link cannot be
// created; the directory is removed in the second case.
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
