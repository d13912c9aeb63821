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
)

// stateFile is the open file of a state, under its lock.
type stateFile struct {
	*os.File
	deleted bool // what lies at the path by now is another workspace's
}

// lockInfo is what OpenTofu keeps beside a locked state to tell who holds the lock.
type lockInfo struct {
	HeldError
	Info, Version, Path string
}

// setLock is F_OFD_SETLK of fcntl. OpenTofu takes the same lock with F_SETLK, and the two exclude each other; but a lock that belongs to
// the open file and not to the process excludes other goroutines as well, and it is not lost when any other descriptor of
// the file is closed in this process.
// getLock, F_OFD_GETLK, tells of a lock that somebody has, and takes none.
const (
	getLock = 36
	setLock = 37
)

// lock takes the lock, a *HeldError when it is held. False when the file is no longer the one at its path: another run deleted the
// workspace between open and lock.
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

func (f *stateFile) fcntl(kind int16) error {
	return uninterrupted(func() error { return syscall.FcntlFlock(f.Fd(), setLock, &syscall.Flock_t{Type: kind}) })
}

// flock takes a lock of an open file that excludes those of other open files.
func flock(file *os.File, how int) error {
	return uninterrupted(func() error { return syscall.Flock(int(file.Fd()), how) })
}

// uninterrupted repeats a system call that a signal interrupted.
func uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
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
	return &info.HeldError
}

func (f *stateFile) infoPath() string {
	return filepath.Join(filepath.Dir(f.Name()), "."+stateName+".lock.info")
}

// describe writes down for what the lock is held, for those who find it held. Another process may look before that, so it is the first
// thing to do.
func (f *stateFile) describe(operation string) error {
	text, err := json.Marshal(lockInfo{
		HeldError: HeldError{ID: NewID(), Who: Who(), Operation: operation, Created: time.Now().UTC()}, Info: "without OpenTofu", Path: f.Name(),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(f.infoPath(), text, 0o600)
}

// overwrite stores a state in the place of one that is not whole. It does not rename another file to this name: that would have no lock,
// while another run who has this one open could take the lock and believe what is in it.
func (f *stateFile) overwrite(text []byte) error {
	err := f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(text, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDir(filepath.Dir(f.Name()))
	}
	return err
}

// release gives the lock away. What fails here changes nothing about the state, and OpenTofu copes with what is left.
func (f *stateFile) release() {
	if !f.deleted {
		_ = remove(f.infoPath())
	}
	_ = f.fcntl(syscall.F_UNLCK)
	_ = f.Close()
}

// writeDurably writes a new file and waits for the disk.
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

// Who is how OpenTofu names this user and host in its locks: user@host.
func Who() string {
	name := ""
	if account, err := user.Current(); err == nil {
		name = account.Username
	}
	host, _ := os.Hostname() // "" with an error
	return name + "@" + host
}

// NewID makes a random id of the form that OpenTofu gives to locks, lineages and resources.
func NewID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
