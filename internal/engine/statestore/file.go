package statestore

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"syscall"
	"time"

	"service-adapter/internal/durable"
)

// A stateFile is the open state file of a workspace in a LocalStore, with the path DIR/WORKSPACE/terraform.tfstate,
// where DIR is the directory of the store. Its methods take the lock of the state, which belongs to the open file, and
// describe the lock holder in a file in the same directory. The field deleted is set after the workspace was removed;
// release then keeps the lock info file, which belongs to a new workspace of the same name. The zero value is not
// usable.
type stateFile struct {
	*os.File
	// deleted is set after the workspace was removed. A file at the same path belongs to a new workspace then.
	deleted bool
}

// A lockInfo is the content, in JSON, of the lock info file .terraform.tfstate.lock.info, in which OpenTofu and this
// package describe the holder of the lock of a local state. Info is any text, Version is the version of OpenTofu, and
// Path is the path of the state file; they are part of OpenTofu's format and not used here. A lock that this package
// takes has no Version. A field that the file lacks has the zero value.
type lockInfo struct {
	HeldError
	Info, Version, Path string
}

// Commands of fcntl that package syscall does not define.
//
// OpenTofu takes its lock with F_SETLK, and F_OFD_SETLK takes one that excludes it. The difference is that the lock of
// F_OFD_SETLK belongs to the open file and not to the process. It therefore excludes other goroutines as well, and it
// is not lost when this process closes another descriptor of the file.
const (
	// getLock is F_OFD_GETLK, which inspects a lock without taking it.
	getLock = 36
	// setLock is F_OFD_SETLK, which takes or releases a lock without waiting.
	setLock = 37
)

// lock takes the state's lock without waiting. The file must be open for writing. The error is a *HeldError if
// another run holds the lock, with empty fields if that run has not described itself. It is any other error if the
// lock cannot be taken, or if the open file or its path cannot be inspected. The result current is false, with a nil
// error, if another run deleted the workspace after the file was opened; the file then has another path or none, and
// its lock protects nothing. The lock ends with release, or when the file is closed. After an error, or if current
// is false, the caller must close the file.
func (f *stateFile) lock() (current bool, err error) {
	err = f.fcntl(syscall.F_WRLCK)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return false, f.holder()
	}
	if err != nil {
		return false, fmt.Errorf("locking %q: %w", f.Name(), err)
	}
	opened, err := f.Stat()
	if err != nil {
		return false, err
	}
	present, err := os.Stat(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(opened, present), err
}

// fcntl takes or releases the lock of the whole file without waiting; kind is syscall.F_WRLCK to take it and
// syscall.F_UNLCK to release it. The file must be open for writing to take it. The error is EAGAIN or EACCES if another
// process or open file holds the lock, and otherwise the error of fcntl(2).
func (f *stateFile) fcntl(kind int16) error {
	return uninterrupted(func() error { return syscall.FcntlFlock(f.Fd(), setLock, &syscall.Flock_t{Type: kind}) })
}

// flock takes or releases a BSD lock of a file or directory. Such a lock belongs to the open file and ends when it is
// closed. how is the operation of flock(2): LOCK_SH, LOCK_EX or LOCK_UN, optionally combined with LOCK_NB. With
// LOCK_NB, the error is EWOULDBLOCK if the lock has another holder; without it, flock waits for other holders without a
// time limit. Any other error is that of flock(2); interruptions by signals are not returned.
func flock(file *os.File, how int) error {
	return uninterrupted(func() error { return syscall.Flock(int(file.Fd()), how) })
}

// uninterrupted calls a function that performs a system call, repeats the call as long as its error is EINTR, which
// means that a signal interrupted it, and returns nil or the first other error.
func uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// holder returns the lock holder as the lock info file describes it. The result is never nil. All of its fields are
// empty if that file is missing, cannot be read or is not JSON of this form, and a field is empty if the file lacks it.
// holder does not check whether the lock is held.
func (f *stateFile) holder() *HeldError {
	var info lockInfo
	text, err := os.ReadFile(f.infoPath())
	if err != nil || json.Unmarshal(text, &info) != nil {
		return &HeldError{}
	}
	return &info.HeldError
}

// infoPath returns the path of the lock info file, .terraform.tfstate.lock.info in the directory of the state file.
// OpenTofu uses the same path.
func (f *stateFile) infoPath() string {
	return filepath.Join(filepath.Dir(f.Name()), "."+stateName+".lock.info")
}

// describe creates or replaces the lock info file, which names this process, the time and the operation to other runs
// that find the state locked. The caller must hold the lock; until it calls describe, other runs cannot name it as
// the holder. operation is any text that a message can show, such as "delete". describe returns an error if the file
// cannot be written.
func (f *stateFile) describe(operation string) error {
	text, err := json.Marshal(lockInfo{
		HeldError: HeldError{ID: NewID(), Who: UserAtHost(), Operation: operation, Created: time.Now().UTC()},
		Info:      "without OpenTofu",
		Path:      f.Name(),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(f.infoPath(), text, 0o600)
}

// overwrite replaces the content of the file by text, a state, and writes it to the disk. The caller holds the lock.
// overwrite returns an error if the file cannot be truncated, written or synced, or its directory cannot be synced. The
// file may then have its old content, be empty or cut off, or contain all of text.
//
// overwrite does not rename a new file to this path, because the lock belongs to the open file. After a rename, the new
// file would not be locked, and another run that has already opened the old file could take the lock of that file and
// read the damaged state in it.
func (f *stateFile) overwrite(text []byte) error {
	err := f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(text, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(f.Name()))
	}
	return err
}

// release removes the lock info file, releases the lock and closes the file. It keeps the lock info file if the field
// deleted is set, because a file at that path then belongs to a new workspace of the same name. Errors are ignored
// because they do not affect the state, and because OpenTofu ignores a lock info file without a lock.
func (f *stateFile) release() {
	if !f.deleted {
		_ = removeFile(f.infoPath())
	}
	_ = f.fcntl(syscall.F_UNLCK)
	_ = f.Close()
}

// writeDurably creates or overwrites a file and writes its content to the disk. A new file has mode 0600, so only this
// user can read it; an existing file keeps its mode. writeDurably returns an error if the file cannot be created,
// written, synced or closed; the file may be empty or incomplete then. The caller must sync the directory afterwards.
func writeDurably(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// UserAtHost returns the user and the host of this process in the form that OpenTofu writes into locks: user@host. A
// part that cannot be determined is empty.
func UserAtHost() string {
	name := ""
	if account, err := user.Current(); err == nil {
		name = account.Username
	}
	host, _ := os.Hostname() // "" with an error
	return name + "@" + host
}

// NewID returns a new random id of 16 bytes in the form of a UUID, such as "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9".
// OpenTofu uses such ids for locks, lineages and resources.
func NewID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
