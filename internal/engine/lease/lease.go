// Package lease gives a process the exclusive right to work on a workspace on this machine.
//
// A lease is a locked file. OpenTofu and its providers inherit the descriptor of the file, so the lease lasts until the
// last process of a run has ended, even if the adapter that started it is dead. The holder describes itself and its
// runs in a second file. With that description, a process that waits for the lease ends orphaned processes, and the
// next holder learns whether an earlier run may have left a lock of the state behind.
package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"service-adapter/internal/filelock"
	"service-adapter/internal/privatefs"
)

// Options configure how a process waits for a lease. They contain the age at which an OpenTofu without its adapter is
// interrupted, the time after which it is then killed, and the logger for these events, which must not be nil. With the
// zero age, no OpenTofu is interrupted. With the zero time, the kill follows the interrupt almost at once.
type Options struct {
	// HungAfter is the age at which an OpenTofu whose adapter is dead is considered hung. If another process waits for
	// the lease, such an OpenTofu is interrupted. 0 means that it is never interrupted.
	HungAfter time.Duration
	// Grace is the time after the interrupt at which the processes of the run are killed. With 0 they have almost no
	// time to save the state.
	Grace time.Duration
	// Logger receives a warning about each process that is ended and each lock that is ignored. It must not be nil.
	Logger *slog.Logger
}

// A Lease is the exclusive right to work on a workspace on this machine, as a locked file. Take and Try return one that
// this process, and the processes that inherit the file, hold until Release. The zero value cannot be used. A Lease is
// not safe for concurrent use.
type Lease struct {
	options    Options
	file       *os.File
	path       string // path of the lock file
	holderPath string // path of the file that describes the holder
	holder     holder
}

// lockSuffix is the end of the names of lock files.
const lockSuffix = ".lock"

// newLease returns a lease that is not taken yet. name is the path of the lease without a suffix: the lock file is
// name+".lock", and the file that describes the holder is name+".json". newLease creates no file.
func newLease(name string, o Options) *Lease {
	return &Lease{options: o, path: name + lockSuffix, holderPath: name + ".json"}
}

// Take waits for a lease until the context ends, and returns the lease. name is the path of the lease without a suffix:
// Take creates and locks the file name+".lock" and describes this process in the file name+".json". All processes that
// exclude each other must use the same name, and its directory must exist. The caller must call Release.
//
// Take returns nil and an error if the context ends before the lease is free, or if a file of the lease cannot be
// locked, written or removed. The error names the process that holds the lease, as far as that is known. If the context
// ended, the error satisfies errors.Is with the context's error. A lease that is free is taken even if the context has
// already ended.
//
// While it waits, Take acts on the processes of a holder whose adapter is dead. It kills providers and other processes
// of a run that outlived the OpenTofu of the run, and it interrupts, and after the grace period kills, an OpenTofu that
// hangs; see Options. If only processes that a template started still hold the lease, Take removes the lock file, logs
// a warning and takes the lease.
func Take(ctx context.Context, name string, o Options) (*Lease, error) {
	l := newLease(name, o)
	err := filelock.Repeat(ctx, l.take, func() {
		l.killOrphans()
		l.discardAbandonedLock()
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for other runs%s: %w", describeHolder(l.holderPath), err)
	}
	return l, nil
}

// Try takes a lease without waiting for its holder. If the only processes that hold the lease were started by a
// template, Try logs a warning, removes the lock file and takes the lease as well. It returns nil and no error if
// another run holds the lease, and nil and an error if a file of the lease cannot be locked, written or removed. name
// is the path of the lease without a suffix, as for Take. Try ends no processes, so it uses only the Logger of the
// options. The caller must call Release on a lease that is not nil.
func Try(name string, o Options) (*Lease, error) {
	l := newLease(name, o)
	taken, err := l.take()
	if !taken && err == nil {
		l.discardAbandonedLock()
		taken, err = l.take()
	}
	if !taken {
		return nil, err
	}
	return l, nil
}

// take makes one attempt to take the lease, and reports whether it succeeded. It returns false and nil if another
// process holds the lock file, and false and an error if a file of the lease cannot be locked, written or removed.
//
// Meanwhile it holds a shared lock on the directory of the lease, so that discardAbandonedLock of another process does
// not mistake this process, which has the lock file open and is not described as the holder yet, for one that a
// template started. A directory that cannot be locked is no error, because discardAbandonedLock does nothing then.
func (l *Lease) take() (bool, error) {
	if runs, err := lockDir(filepath.Dir(l.path), syscall.LOCK_SH); err == nil {
		defer runs.Close() //nolint:errcheck // nothing was written
	}
	file, err := filelock.Try(l.path)
	if file == nil {
		return false, err
	}
	err = l.claim(file)
	return err == nil, err
}

// lockDir opens and locks the directory at a path, and returns it; closing it releases the lock. how is the kind of the
// lock, LOCK_SH or LOCK_EX of flock(2), for which lockDir waits without a limit. lockDir returns nil and an error if
// the directory cannot be opened or locked.
func lockDir(path string, how int) (*os.File, error) {
	dir, err := os.Open(path) //nolint:gosec // in the cache directory
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(dir.Fd()), how); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// File returns the open and locked lock file, for processes that must keep the lease. The lease lasts until every
// process that inherits the file has ended or closed it. The result is nil for a lease of newLease that claim has not
// taken, and is closed after Release.
func (l *Lease) File() *os.File { return l.file }

// claim makes this process the holder of the lease. file must be the locked lock file of the lease, which the lease
// closes from then on. claim records the process in the file that describes the holder, for the processes that wait,
// and removes the files with which interruptHung marked runs of former holders. It returns an error if one of these
// files cannot be written or removed; it has then called Release.
func (l *Lease) claim(file *os.File) error {
	l.file = file
	if err := errors.Join(l.replaceHolder(), l.removeMarks()); err != nil {
		return errors.Join(err, l.Release())
	}
	return nil
}

// Release removes the files of the lease and closes the locked file. If MayHaveLeftLock returns true, the file that
// describes the holder stays, for the next holder. All runs under the lease must have ended before, because other
// processes no longer wait for them. Release returns an error if a file cannot be removed or closed, after it has tried
// the others; a missing file does not cause an error. The lease must not be used afterwards, even after an error.
func (l *Lease) Release() error {
	var err error
	if len(l.holder.Left) == 0 {
		err = privatefs.Remove(l.holderPath)
	}
	return errors.Join(err, privatefs.Remove(l.path), l.file.Close())
}
