package statestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"service-adapter/internal/durable"
)

// create creates the directory of a workspace with these files, by name, and waits for the disk. It also creates the
// missing parents of the store's directory. Other processes see either all files or no directory. The error wraps
// fs.ErrExist if the directory of the workspace exists, even if it is empty. After any other error the directory may
// have been created.
func (f *LocalStore) create(workspace string, files map[string][]byte) error {
	parents, err := createDir(f.dir)
	if err != nil {
		return err
	}
	scratch, remove, err := f.createScratch()
	if err != nil {
		return err
	}
	defer remove()
	for name, text := range files {
		if err := writeDurably(filepath.Join(scratch, name), text); err != nil {
			return err
		}
	}
	if err := durable.SyncDir(scratch); err != nil {
		return err
	}
	if err := os.Rename(scratch, filepath.Join(f.dir, workspace)); err != nil {
		return err
	}
	for _, dir := range append([]string{f.dir}, parents...) {
		if err := durable.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// removeDir removes the directory of a workspace with its content. Other processes see either all of it or nothing. It
// returns an error if the directory does not exist or cannot be moved away. Files that then cannot be deleted stay in
// DIR.tmp and are not an error.
func (f *LocalStore) removeDir(workspace string) error {
	scratch, remove, err := f.createScratch()
	if err != nil {
		return fmt.Errorf("removing workspace %q: %w", workspace, err)
	}
	defer remove()
	if err := os.Rename(f.path(workspace, ""), filepath.Join(scratch, workspace)); err != nil {
		return fmt.Errorf("removing workspace %q: %w", workspace, err)
	}
	return nil
}

// createScratch creates a new scratch directory in DIR.tmp, on the same file system as the workspaces. The caller must
// call remove, which removes the scratch directory. createScratch returns an error, and a nil remove, if DIR.tmp or the
// scratch directory cannot be created or locked.
//
// A process that uses a scratch directory holds a shared lock of DIR.tmp. While no process holds it, createScratch
// removes the scratch directories that killed processes left there. createScratch waits for another process that does
// so at the moment.
func (f *LocalStore) createScratch() (scratch string, remove func(), err error) {
	parent := f.dir + ".tmp"
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", nil, err
	}
	lock, err := os.Open(parent)
	if err != nil {
		return "", nil, err
	}
	if flock(lock, syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		entries, _ := lock.ReadDir(-1)
		for _, entry := range entries {
			_ = os.RemoveAll(filepath.Join(parent, entry.Name())) // the next call tries again
		}
	}
	if err := flock(lock, syscall.LOCK_SH); err != nil {
		return "", nil, errors.Join(fmt.Errorf("locking %q: %w", parent, err), lock.Close())
	}
	scratch, err = os.MkdirTemp(parent, "")
	if err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	return scratch, func() {
		_ = os.RemoveAll(scratch)
		_ = lock.Close()
	}, nil
}

// createDir creates a directory and its missing parents, mode 0700. An existing directory or file at the path is not an
// error. It returns the directories that got a new entry, which the caller has to sync; there are none if the directory
// exists already. It returns an error if a directory cannot be created; some of the parents may have been created then.
func createDir(dir string) (changed []string, err error) {
	err = os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if changed, err = createDir(filepath.Dir(dir)); err != nil {
			return nil, err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		return changed, nil
	}
	if err != nil {
		return nil, err
	}
	return append(changed, filepath.Dir(dir)), nil
}

// removeFile removes a file. A file that does not exist is not an error; any other error of the removal is returned.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
