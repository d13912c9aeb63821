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

// Lock takes the lock of a file, which it creates with mode 0600 if it is missing. Its directory must exist. Lock
// returns the open file, which the caller closes to release the lock. The file is not removed.
//
// While another open file of this or another process has the lock, Lock tries again every 20 milliseconds until the
// context ends, and then returns the error of ctxio.Err. It calls waiting, which may be nil, after each attempt that
// found the lock taken. The first attempt is made even if the context has ended. Lock returns any other error at once:
// the file cannot be opened or locked.
func Lock(ctx context.Context, path string, waiting func()) (*os.File, error) {
	for {
		if file, err := Try(path); file != nil || err != nil {
			return file, err
		}
		if waiting != nil {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, ctxio.Err(ctx)
		case <-time.After(interval):
		}
	}
}

// Try makes one attempt to take the lock of a file, as Lock does. It returns nil and no error if another open file of
// this or another process has the lock. It returns an error if the file cannot be opened or locked.
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

// sameFile reports whether path still names the open file. It returns false if either cannot be inspected.
func sameFile(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(opened, named)
}
