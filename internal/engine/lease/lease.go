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
	"time"

	"service-adapter/internal/filelock"
	"service-adapter/internal/privatefs"
)

// Options configure how a process waits for a lease.
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

// A Lease is the exclusive right to work on a workspace on this machine. Take and Try return one that this process
// holds until Release. It is not safe for concurrent use.
type Lease struct {
	options    Options
	file       *os.File
	path       string // path of the lock file
	holderPath string // path of the file that describes the holder
	holder     holder
}

// lockSuffix is the end of the names of lock files.
const lockSuffix = ".lock"

// newLease returns the lease of this name, which is not taken yet. It creates no file.
func newLease(name string, o Options) *Lease {
	return &Lease{options: o, path: name + lockSuffix, holderPath: name + ".json"}
}

// Take waits for a lease until the context ends. The name is the path of the lease without a suffix; all processes that
// exclude each other must use the same one, and its directory must exist. The caller must call Release. Take returns an
// error if the context ends or if a file of the lease cannot be locked or written. The error names the process that
// holds the lease, as far as that is known, and satisfies errors.Is with the context's error if the context ended.
//
// While it waits, Take kills providers and other processes of a run that outlived both the adapter and the OpenTofu of
// the run, and ends an OpenTofu that hangs; see Options. It ignores a lock that only processes started by a template
// still hold.
func Take(ctx context.Context, name string, o Options) (*Lease, error) {
	l := newLease(name, o)
	file, err := filelock.Lock(ctx, l.path, func() {
		l.killOrphans()
		l.discardAbandonedLock()
	})
	if err == nil {
		err = l.claim(file)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for other runs%s: %w", describeHolder(l.holderPath), err)
	}
	return l, nil
}

// Try takes a lease if it is free, or if only processes that a template started hold it, which it logs. It returns nil
// and no error if another run holds it, and an error if a file of the lease cannot be locked or written. Try ends no
// processes, so it uses only the Logger of the options. The name is that of Take. The caller must call Release on a
// lease that is not nil.
func Try(name string, o Options) (*Lease, error) {
	l := newLease(name, o)
	file, err := filelock.Try(l.path)
	if file == nil && err == nil {
		l.discardAbandonedLock()
		file, err = filelock.Try(l.path)
	}
	if file == nil {
		return nil, err
	}
	if err := l.claim(file); err != nil {
		return nil, err
	}
	return l, nil
}

// File returns the locked file. The lease lasts until every process that inherits the file has ended or closed it. The
// result is nil if the lease is not taken.
func (l *Lease) File() *os.File { return l.file }

// claim makes this process the holder of the lease. The file must be the locked file of the lease. claim records the
// process for those that wait, and removes marks of former runs. It returns an error if one of these files cannot be
// written or removed; the lease is released then.
func (l *Lease) claim(file *os.File) error {
	l.file = file
	if err := errors.Join(l.replaceHolder(), l.removeMarks()); err != nil {
		return errors.Join(err, l.Release())
	}
	return nil
}

// Release removes the files of the lease and closes the locked file. The file that describes the holder stays if a run
// may have left a lock of the state behind, for the next holder. The runs must have ended, because other processes no
// longer wait for them. The lease must not be used afterwards, even if Release returns an error because a file cannot
// be removed or closed.
func (l *Lease) Release() error {
	var err error
	if len(l.holder.Left) == 0 {
		err = privatefs.Remove(l.holderPath)
	}
	return errors.Join(err, privatefs.Remove(l.path), l.file.Close())
}
