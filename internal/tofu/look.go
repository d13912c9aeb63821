package tofu

import (
	"errors"
	"os"
	"syscall"
)

// lookDir makes a scratch directory for a look, and returns it locked: the look and its runs hold the lock, and whoever finds such a
// directory without one removes it, with the state in clear text and the keys that a killed adapter left there.
func (e *Engine) lookDir() (*os.File, error) {
	for {
		path, err := os.MkdirTemp(e.options.CacheDir, "look-")
		if err != nil {
			return nil, err
		}
		dir, err := lockDir(path)
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
		if dir != nil {
			return dir, nil
		}
		// Somebody swept it between the two steps.
	}
}

// lockDir opens and locks a directory, nil when somebody else has the lock or removed it.
func lockDir(path string) (*os.File, error) {
	dir, err := os.Open(path) //nolint:gosec // in the cache directory
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && sameFile(dir, path) {
		return dir, nil
	}
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(err, dir.Close())
	}
	return nil, dir.Close()
}
