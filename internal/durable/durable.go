// Package durable creates directories and files that neither a power loss nor a kill leaves incomplete.
//
// A directory is filled under a temporary name, written to the disk, and renamed. TempDir creates such a directory and
// removes those of killed processes; Replace writes it to the disk and renames it.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// SyncDir writes the names of the files in a directory to the disk, so that they survive a power loss; it does not
// write the content of the files. It returns nil without doing so if this process may not read the directory or if the
// file system cannot sync directories. It returns an error if the directory does not exist, cannot be opened for
// another reason than its permissions, or cannot be written to the disk.
func SyncDir(path string) error {
	dir, err := os.Open(path) //nolint:gosec // a directory of the caller
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // the directory was only read
	if err := dir.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// WriteFile creates or replaces a file as a whole, with mode 0600, and writes it to the disk. Its directory must
// exist. The content is first written to the file path+".tmp", which WriteFile overwrites and then renames, so calls
// for one path must not be concurrent. A temporary file that exists already keeps its mode. WriteFile returns an
// error if the temporary file cannot be opened, written or renamed, or if the directory cannot be synced afterwards.
// In the last case the file is already replaced. After any other error the old file is unchanged, and the temporary
// file is removed if possible, unless it could not be opened.
func WriteFile(path string, content []byte) error {
	temporary := path + ".tmp"
	//nolint:gosec // a file of the caller
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return SyncDir(filepath.Dir(path))
}

// Rename writes the directory at the path from, with everything below it, to the disk, renames it to the path to, and
// writes the new name to the disk. It returns an error if a file or directory cannot be read, written to the disk or
// renamed. If from was written to the disk and to is a directory, even an empty one, the error wraps fs.ErrExist, and
// both directories are unchanged. After any other error the directory may be at either path.
func Rename(from, to string) error {
	err := syncTree(from)
	if err == nil {
		err = os.Rename(from, to)
	}
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// Replace writes the directory at the path from, with everything below it, to the disk, and gives it the path to, as
// Rename does. A directory that exists at the path to is exchanged for from in one step: a process that uses the path
// at that moment finds either the old directory or the new one. Afterwards the old directory, if there was one, is at
// from, and the caller removes it. On a file system that cannot exchange directories, such as NFS, the path to is
// missing for a moment, and Replace removes the old directory itself.
//
// Replace returns an error if the directory cannot be written to the disk, if a path cannot be renamed, for example
// because to is a file, or if Replace cannot remove the old directory. After an error the new directory may be at
// either path. On a file system that cannot exchange directories, the path to may then be missing while the old
// directory is complete at from+".old", so that the caller may rename it back. If the path to exists, the old
// directory or a part of it may remain at from+".old". The caller removes it, or chooses a name for from that begins
// with a prefix of TempDir, so that a later call of TempDir removes it.
func Replace(from, to string) error {
	err := Rename(from, to)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := exchange(from, to); err != nil {
		return &os.LinkError{Op: "exchange", Old: from, New: to, Err: err}
	}
	return SyncDir(filepath.Dir(to))
}

// exchange gives two directories each other's path. On a file system that cannot do that in one step, such as NFS, and
// on other systems than Linux, it moves the directory from to the path to in several steps: the path to is missing for
// a moment, and the old directory is removed, so that from does not exist afterwards.
//
// exchange returns an error if a directory cannot be exchanged or moved. Both directories are unchanged then, except
// that, if from cannot be moved and the old directory cannot be moved back, the path to is missing and the old
// directory is at from+".old". If only the removal of the old directory fails, exchange also returns an error; from is
// at the path to then, and a part of the old directory remains at from+".old".
func exchange(from, to string) error {
	err := exchangeInOneStep(from, to)
	if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOSYS) && !errors.Is(err, syscall.EOPNOTSUPP) {
		return err
	}
	old := from + ".old"
	if err := os.Rename(to, old); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return errors.Join(err, os.Rename(old, to))
	}
	return os.RemoveAll(old)
}

// syncTree writes the regular files below the directory root, and then root and the directories below it, to the disk.
// It does not follow symbolic links. It returns an error if a file or directory cannot be read or written to the disk.
func syncTree(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			dirs = append(dirs, path)
			return nil
		case !entry.Type().IsRegular():
			return nil // a symbolic link is a part of its directory
		}
		file, err := os.Open(path) //nolint:gosec // a file of the caller
		if err != nil {
			return err
		}
		return errors.Join(file.Sync(), file.Close())
	})
	for _, dir := range dirs {
		err = errors.Join(err, SyncDir(dir))
	}
	return err
}

// TempDir creates a directory with mode 0700 in the directory parent, locks it, and returns its path, which begins with
// parent. The name of the directory begins with prefix, which must not contain "*". Before it creates the directory,
// TempDir removes all directories in parent whose names begin with prefix and that no process has locked, because
// killed processes left them. The prefix must therefore be used for nothing else. A directory that cannot be removed
// stays and is not an error. TempDir returns an error if parent does not exist or a directory in it cannot be created
// or locked.
//
// The caller must call remove, which removes the directory at path, if one exists, and releases the lock; it returns an
// error if one of these steps fails. After Rename of the directory, path does not exist. After Replace it may be the
// directory that was replaced. If TempDir returns an error, path is "" and remove is nil.
func TempDir(parent, prefix string) (path string, remove func() error, err error) {
	removeAbandoned(parent, prefix)
	for {
		if path, err = os.MkdirTemp(parent, prefix); err != nil {
			return "", nil, err
		}
		held, err := lock(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EWOULDBLOCK) {
			continue // Another process took the directory for abandoned before it was locked.
		}
		if err != nil {
			return "", nil, errors.Join(err, os.RemoveAll(path))
		}
		if _, err := os.Lstat(path); err == nil {
			return path, func() error { return errors.Join(os.RemoveAll(path), held.Close()) }, nil
		}
		if err := held.Close(); err != nil {
			return "", nil, err
		}
	}
}

// lock locks a directory, without waiting, and returns the open directory, which the caller closes to release the lock.
// It returns nil and an error if the directory cannot be opened or locked. The error wraps syscall.EWOULDBLOCK while
// another open file of the directory has the lock, and fs.ErrNotExist if the directory does not exist.
func lock(path string) (*os.File, error) {
	dir, err := os.Open(path) //nolint:gosec // a directory of the caller
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// removeAbandoned removes the directories in parent whose names begin with prefix and that no living process has
// locked, with their content. It ignores a directory that cannot be locked or removed, which stays for the next call,
// and a parent that cannot be read.
func removeAbandoned(parent, prefix string) {
	entries, _ := os.ReadDir(parent)
	for _, entry := range entries {
		path := filepath.Join(parent, entry.Name())
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		if held, err := lock(path); err == nil {
			_ = os.RemoveAll(path)
			_ = held.Close()
		}
	}
}
