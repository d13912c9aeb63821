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

// create creates the directory of a workspace, DIR/WORKSPACE, where DIR is the directory of the store, with these
// files, and writes all of it to the disk. The keys of files are file names without a directory, and the values are
// the contents; the files have mode 0600. create also creates DIR, its missing parents and DIR.tmp. Other processes
// see either all files or no directory. create does not check the name of the workspace. It waits, without a time
// limit, while another process cleans DIR.tmp; see createScratch.
//
// The error wraps fs.ErrExist if the directory of the workspace exists, even if it is empty. It is another error if a
// directory or a file cannot be created, locked, renamed or synced; the directory of the workspace may have been
// created then.
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

// removeDir removes the directory of a workspace, DIR/WORKSPACE, where DIR is the directory of the store, with its
// content: it moves the directory into a scratch directory in DIR.tmp and deletes it there. Other processes see
// either the whole directory or none. The caller must hold the lock of the state, which removeDir does not take. It
// returns an error if the directory does not exist, if it cannot be moved, or if the scratch directory cannot be
// created or DIR.tmp cannot be locked; the workspace is unchanged then. Files that cannot be deleted after the move
// stay in DIR.tmp and are not an error. removeDir does not wait for the disk, so a crash of the machine may undo the
// removal. It waits, without a time limit, while another process cleans DIR.tmp; see createScratch.
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

// createScratch creates a new scratch directory in DIR.tmp, where DIR is the directory of the store, and returns its
// path DIR.tmp/RANDOM. It is on the same file system as the workspaces. createScratch also creates DIR.tmp and its
// missing parents. The caller must call remove, which removes the scratch directory, if it still exists, releases the
// lock of DIR.tmp, and ignores errors. createScratch returns an error, and a nil remove, if DIR.tmp or the scratch
// directory cannot be created, or if DIR.tmp cannot be opened or locked.
//
// A process that uses a scratch directory holds a shared lock of DIR.tmp. While no process holds it, createScratch
// removes the scratch directories that killed processes left there, and ignores errors of that removal. createScratch
// waits, without a time limit, for another process that does so at the moment.
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
// error. It returns the parent of each directory that it created, because these parents got a new entry and the caller
// has to sync them; the outermost is first. The result is nil if the path exists already. createDir returns nil and an
// error if a directory cannot be created, for example because a parent is a file; some of the parents may have been
// created then.
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

// removeFile removes a file, or an empty directory. It returns nil if the path does not exist, and any other error of
// os.Remove.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
