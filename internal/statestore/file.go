package statestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// stateFile is the open file of a state, under its lock.
type stateFile struct {
	*os.File
	path    string
	created bool     // this is who made it
	grown   []string // the directories in which one was made for it
}

// lockInfo is what OpenTofu keeps beside a locked state to tell who holds the lock.
type lockInfo struct {
	ID        string
	Operation string
	Info      string
	Who       string
	Version   string
	Created   time.Time
	Path      string
}

// setLock is F_OFD_SETLK of fcntl. OpenTofu takes the same lock with F_SETLK, and the two exclude each other; but a lock that belongs to
// the open file and not to the process excludes other goroutines as well, and it is not lost when any other descriptor of
// the file is closed in this process.
const setLock = 37

// lock takes the lock, a *HeldError when it is held. False when the file is no longer the one at its path: somebody deleted the
// workspace between open and lock.
func (f *stateFile) lock() (current bool, err error) {
	err = f.fcntl(syscall.F_WRLCK)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return false, f.holder()
	}
	if err != nil {
		return false, fmt.Errorf("locking %q: %w", f.path, err)
	}
	opened, err := f.Stat()
	if err != nil {
		return false, err
	}
	present, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(opened, present), err
}

func (f *stateFile) fcntl(kind int16) error {
	for {
		err := syscall.FcntlFlock(f.Fd(), setLock, &syscall.Flock_t{Type: kind})
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// holder tells who holds the lock, as far as that is written down at this moment.
func (f *stateFile) holder() *HeldError {
	var info lockInfo
	text, err := os.ReadFile(f.infoPath())
	if err != nil || json.Unmarshal(text, &info) != nil {
		return &HeldError{}
	}
	return &HeldError{ID: info.ID, Who: info.Who, Operation: info.Operation, Created: info.Created}
}

func (f *stateFile) infoPath() string {
	return filepath.Join(filepath.Dir(f.path), "."+stateName+".lock.info")
}

func (f *stateFile) backupPath() string { return f.path + ".backup" }

// newLockInfo describes this holder of a lock.
func newLockInfo(operation, path string) lockInfo {
	return lockInfo{
		ID: NewID(), Operation: operation, Info: "without OpenTofu", Who: Who(), Created: time.Now().UTC(), Path: path,
	}
}

// describe writes down who holds the lock, for those who find it held. Somebody may look before that, so it is the first thing to do.
func (f *stateFile) describe(info lockInfo) error {
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	return os.WriteFile(f.infoPath(), text, 0o600)
}

// expect compares the content, ErrChanged when it is another one. What was not written to its end is mended first.
func (f *stateFile) expect(text []byte) error {
	found, _, err := f.mend()
	if err != nil {
		return err
	}
	if !bytes.Equal(found, text) {
		return ErrChanged
	}
	return nil
}

// mend puts the backup in the place of a content that was not written to its end, which then is empty or no JSON, and returns what the
// file holds.
func (f *stateFile) mend() (content []byte, mended bool, err error) {
	found, err := io.ReadAll(f)
	if err != nil {
		return nil, false, fmt.Errorf("reading %q: %w", f.path, err)
	}
	if json.Valid(found) {
		return found, false, nil
	}
	backup, err := os.ReadFile(f.backupPath())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !json.Valid(backup) {
		return found, false, nil // The file is that of a workspace to which nothing was written yet.
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading the backup of a state: %w", err)
	}
	if err := errors.Join(f.put(backup, len(found)), f.Sync()); err != nil {
		return nil, false, fmt.Errorf("restoring %q: %w", f.path, err)
	}
	return backup, true, nil
}

// replace stores next in the place of before, so that a crash of the machine does not undo it. When that fails it puts before back.
func (f *stateFile) replace(before, next []byte) error {
	if len(before) > 0 {
		// As OpenTofu does, and for the same reason: who finds a state that was not written to its end, puts this in its place.
		if err := os.WriteFile(f.backupPath(), before, 0o600); err != nil {
			return errors.Join(err, remove(f.backupPath()))
		}
	}
	err := f.put(next, len(before))
	if err == nil {
		err = f.Sync()
	}
	if err == nil && len(before) == 0 {
		err = f.syncDirs()
	}
	if err == nil {
		return nil
	}
	size := len(next)
	if found, statErr := f.Stat(); statErr == nil {
		size = int(found.Size())
	}
	return errors.Join(err, f.put(before, size))
}

// put writes a text over what the file holds, which is size bytes long. What fits into a page of memory is written at once, and the file
// is not emptied before: a process that is killed between the two steps leaves the text with line feeds after it, which is as good.
// More than that is not written at once. Then the file is emptied first, as OpenTofu does, so that what a killed process or a crash
// leaves is cut off, and not a mixture of two states that looks like one; for that case there is the backup. Nor is another file
// renamed to its name: that would have no lock, while somebody who has this one open could take the lock and believe what is in it.
func (f *stateFile) put(text []byte, size int) error {
	const page = 4096
	if max(len(text), size) > page {
		if err := f.Truncate(0); err != nil {
			return err
		}
		size = 0
	}
	if len(text) > 0 {
		if _, err := f.WriteAt(padded(text, size), 0); err != nil {
			return err
		}
	}
	return f.Truncate(int64(len(text)))
}

// syncDirs makes the names of a new file, and of the directories that were made for it, durable.
func (f *stateFile) syncDirs() error {
	for _, dir := range append([]string{filepath.Dir(f.path)}, f.grown...) {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// syncDir makes the names in a directory durable, where the file system can do that and we may.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // nothing was written
	if err := dir.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// delete removes the file, when it holds before, and OpenTofu's files beside it, and gives the lock away. The file is emptied first:
// whoever has it open and gets the lock afterwards takes it for the empty state that a deleted workspace has.
func (f *stateFile) delete(info lockInfo, before []byte) error {
	defer f.release()
	_ = f.describe(info) // There is no room for it on a full disk, where to delete something is what helps.
	if err := f.expect(before); err != nil {
		return err
	}
	if err := remove(f.backupPath()); err != nil {
		return fmt.Errorf("deleting the backup of a state: %w", err)
	}
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("deleting a state: %w", err)
	}
	if err := remove(f.path); err != nil {
		return errors.Join(fmt.Errorf("deleting a state: %w", err), f.put(before, 0))
	}
	return nil
}

// release gives the lock away. A file that was made and is still empty is removed again, with the directory that was made for it; so
// is a deleted one's note about the lock. What fails here changes nothing about the state, and OpenTofu copes with what is left.
func (f *stateFile) release() {
	found, err := f.Stat()
	unused := f.created && err == nil && found.Size() == 0
	_ = remove(f.infoPath())
	if unused {
		_ = remove(f.path)
	}
	_ = f.fcntl(syscall.F_UNLCK)
	_ = f.Close()
	if unused && len(f.grown) > 0 {
		_ = syscall.Rmdir(filepath.Dir(f.path))
	}
}
