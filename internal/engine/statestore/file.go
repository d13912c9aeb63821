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

// stateFile is the open file of a state.
type stateFile struct {
	*os.File
	// deleted is set after the workspace was removed. A file at the same path belongs to a new workspace then.
	deleted bool
}

// lockInfo is the content of the file in which OpenTofu and this package describe the holder of the lock of a local
// state.
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

// lock takes the state's lock without waiting. The error is a *HeldError if another run holds it, and any other error
// if the lock cannot be taken or the file cannot be inspected. The result current is false if another run deleted the
// workspace after the file was opened; the file then has another path or none, and its lock protects nothing. The lock
// ends with release, or when the file is closed. After an error, or if current is false, the caller must close the
// file.
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

// fcntl changes the lock of the whole file without waiting; kind is syscall.F_WRLCK or syscall.F_UNLCK. The error is
// EAGAIN or EACCES if another process or open file holds the lock.
func (f *stateFile) fcntl(kind int16) error {
	return uninterrupted(func() error { return syscall.FcntlFlock(f.Fd(), setLock, &syscall.Flock_t{Type: kind}) })
}

// flock takes or releases a BSD lock of a file or directory. Such a lock belongs to the open file and ends when it is
// closed. how is the operation of flock(2). With LOCK_NB, the error is EWOULDBLOCK if the lock has another holder;
// without it, flock waits for other holders.
func flock(file *os.File, how int) error {
	return uninterrupted(func() error { return syscall.Flock(int(file.Fd()), how) })
}

// uninterrupted repeats a system call as long as signals interrupt it, and returns its error.
func uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// holder returns the lock holder as the lock info file describes it. The result is never nil; its fields are empty if
// that file is missing or incomplete.
func (f *stateFile) holder() *HeldError {
	var info lockInfo
	text, err := os.ReadFile(f.infoPath())
	if err != nil || json.Unmarshal(text, &info) != nil {
		return &HeldError{}
	}
	return &info.HeldError
}

// infoPath returns the path of the lock info file.
func (f *stateFile) infoPath() string {
	return filepath.Join(filepath.Dir(f.Name()), "."+stateName+".lock.info")
}

// describe writes the lock info file, which names this process and the operation to other runs that find the state
// locked. operation is any text that a message can show, such as "delete". The holder of a lock calls describe before
// any other work, because until then other runs cannot name the holder. It returns an error if the file cannot be
// written.
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

// overwrite replaces the content of the file by a state and waits for the disk. If the file cannot be written or
// synced, it returns an error, and the file may be empty or cut off. It does not rename a new file to this path. The
// new file would be unlocked, while another run that has this file open could take the lock and read the damaged state.
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

// release removes the lock info file, unless deleted is set, releases the lock and closes the file. Errors are ignored
// because they do not affect the state, and because OpenTofu ignores a lock info file without a lock.
func (f *stateFile) release() {
	if !f.deleted {
		_ = removeFile(f.infoPath())
	}
	_ = f.fcntl(syscall.F_UNLCK)
	_ = f.Close()
}

// writeDurably creates or replaces a file that only this user can read, and waits for the disk. It returns an error if
// the file cannot be created, written or synced; the file may be incomplete then. The caller syncs the directory.
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

// NewID returns a new random id in the form of a UUID, which OpenTofu uses for locks, lineages and resources.
func NewID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
