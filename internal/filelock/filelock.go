// Package filelock takes exclusive locks on files, which exclude other processes of this machine.
//
// A lock belongs to the open file. A child process that inherits the descriptor also holds the lock, and the lock is
// released when the last descriptor is closed. The kernel therefore releases the locks of a killed process.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"service-adapter/internal/ctxio"
)

// interval is the pause between two attempts to take a lock that another process holds.
const interval = 20 * time.Millisecond

// Lock takes the exclusive lock of the file at path, which it creates with mode 0600 if it is missing. Its directory
// must exist. Lock returns the open file, which the caller closes to release the lock. Closing does not remove the
// file.
//
// While another open file of this or another process has the lock, Lock tries again every 20 milliseconds until the
// context ends, and then returns the error of ctxio.Err: the cause if it wraps the context's error, else the context's
// error. It calls waiting, which may be nil, after each attempt that found the lock taken. The first attempt is made
// even if the context has ended. If the file cannot be opened or locked, Lock returns nil and an error at once.
func Lock(ctx context.Context, path string, waiting func()) (*os.File, error) {
	var file *os.File
	err := Repeat(ctx, func() (locked bool, err error) {
		file, err = Try(path)
		return file != nil, err
	}, waiting)
	return file, err
}

// Repeat calls attempt, which tries to take a lock, every 20 milliseconds until attempt returns true or an error, and
// returns that error or nil. It calls waiting, which may be nil, after each attempt that returned false and nil. The
// first attempt is made even if the context has ended. If the context ends after an attempt, Repeat returns the error
// of ctxio.Err.
func Repeat(ctx context.Context, attempt func() (locked bool, err error), waiting func()) error {
	for {
		if locked, err := attempt(); locked || err != nil {
			return err
		}
		if waiting != nil {
			waiting()
		}
		select {
		case <-ctx.Done():
			return ctxio.Err(ctx)
		case <-time.After(interval):
		}
	}
}

// Try makes one attempt to take the exclusive lock of the file at path, without waiting. Like Lock, it creates the file
// with mode 0600 if it is missing, and returns the open file, which the caller closes to release the lock. It returns
// nil and no error if another open file of this or another process has the lock. It returns nil and an error if the
// file cannot be opened or locked, for example because its directory does not exist.
func Try(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the caller chooses the file
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && sameFile(file, path) {
			return file, nil
		}
		if closeErr := file.Close(); closeErr != nil {
			return nil, closeErr
		}
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		// The previous holder removed the file after this process had opened it, so the lock excludes no other process.
	}
}

// sameFile reports whether path still names the open file, which a lock holder may have removed or replaced. It returns
// false if the open file or the path cannot be inspected.
func sameFile(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(opened, named)
}
