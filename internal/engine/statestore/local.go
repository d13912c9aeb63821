package statestore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"service-adapter/internal/durable"
)

const (
	// stateName is the file of a state in the directory of its workspace.
	stateName = "terraform.tfstate"
	// backupName is the file of a copy of the state, in the same directory.
	backupName = stateName + ".backup"
	// emptyName is the file that marks a workspace in which OpenTofu is creating the first state.
	emptyName = ".empty"
)

// attempts is how often a file is read or opened that other processes create and remove at the same time.
const attempts = 20

// ErrIncomplete is the error for a workspace that exists without a whole state, so that its resources are unknown. On
// local the state file is missing, empty or cut off; on pg the row has no data.
var ErrIncomplete = errors.New("the state is missing, empty or cut off")

// LocalStore is the store of OpenTofu's backend local. The state of a workspace is the file DIR/NAME/terraform.tfstate.
//
// LocalStore creates and deletes a workspace by renaming its directory from and to DIR.tmp, so that a state appears and
// disappears as a whole. A workspace without a whole state is therefore one that a crash or OpenTofu damaged. A
// workspace that Replace created survives a crash of the machine, if the file system honours fsync. A crash may undo a
// deletion.
type LocalStore struct{ dir string }

// Local returns the store of OpenTofu's backend local. The directory is the backend's workspace_dir; it need not exist.
func Local(dir string) *LocalStore { return &LocalStore{dir: dir} }

// path returns the path of a file in the directory of a workspace, and with an empty name that of the directory.
func (f *LocalStore) path(workspace, name string) string {
	return filepath.Join(f.dir, workspace, name)
}

// exists reports whether a workspace has a file of this name, or with an empty name whether it has a directory. It also
// returns true if this process is not permitted to find out.
func (f *LocalStore) exists(workspace, name string) bool {
	_, err := os.Stat(f.path(workspace, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// Read returns the content of the state file, or nil if the workspace does not exist. The error is ErrIncomplete if the
// file does not contain a whole state, which Repair may restore. It is another error if the name is not valid, the file
// cannot be read, or the context has ended. Read takes no lock.
func (f *LocalStore) Read(ctx context.Context, workspace string) ([]byte, error) {
	if err := errors.Join(ctx.Err(), checkName(workspace)); err != nil {
		return nil, err
	}
	var incomplete error
	for range attempts {
		text, err := os.ReadFile(f.path(workspace, stateName))
		switch {
		case err == nil && json.Valid(text):
			return text, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("reading the state of workspace %q: %w", workspace, err)
		}
		if incomplete = f.incompleteError(workspace); incomplete == nil {
			return nil, nil
		}
		// Another process may have deleted and created the workspace between the two checks.
	}
	return nil, incomplete
}

// incompleteError returns an error that wraps ErrIncomplete for a workspace whose state file does not contain a whole
// state, which the caller has found. It returns nil if the workspace does not exist, or if OpenTofu was interrupted
// while it created the workspace and KeepCopy has not copied a state since.
func (f *LocalStore) incompleteError(workspace string) error {
	if !f.exists(workspace, "") || f.exists(workspace, emptyName) && !f.exists(workspace, backupName) {
		return nil
	}
	return fmt.Errorf("%w, and so is its copy in the same directory: restore %s from a backup; "+
		"without a backup, delete the workspace's resources by hand, and then its directory",
		ErrIncomplete, f.path(workspace, stateName))
}

// List returns the names of the workspace directories, sorted, without "default", whether or not they contain a state.
// A missing DIR counts as empty. It returns an error if the context has ended or DIR cannot be read.
func (f *LocalStore) List(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && entry.Name() != "default" {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Locks returns the locks of states that have a lock info file and whose lock is held. A killed run leaves the file but
// not the lock. States that are deleted meanwhile are left out. The result has the order of List, and is nil if there
// are none. The error is that of List.
func (f *LocalStore) Locks(ctx context.Context) ([]Lock, error) {
	names, err := f.List(ctx)
	var locks []Lock
	for _, name := range names {
		file, err := os.Open(f.path(name, stateName))
		if err != nil {
			continue // the workspace was deleted after List
		}
		lock, state := syscall.Flock_t{Type: syscall.F_WRLCK}, stateFile{File: file}
		if _, err := os.Stat(state.infoPath()); err == nil &&
			syscall.FcntlFlock(file.Fd(), getLock, &lock) == nil && lock.Type != syscall.F_UNLCK {
			holder := state.holder()
			locks = append(locks, Lock{
				Workspace: name, Who: holder.Who, Operation: holder.Operation, Since: holder.Created,
			})
		}
		_ = file.Close() // opened for reading: closing cannot lose anything
	}
	return locks, err
}

// Replace creates a workspace with a state and its copy. If before is not empty the error is ErrUnsupported, because
// only OpenTofu changes the state of an existing workspace. A workspace that an interrupted OpenTofu left without a
// state is replaced. The error is ErrIncomplete if the workspace exists and its state is not whole. See Store.Replace
// for the other errors.
func (f *LocalStore) Replace(ctx context.Context, workspace string, before, next []byte) error {
	if err := errors.Join(ctx.Err(), checkName(workspace), checkNext(next)); err != nil {
		return err
	}
	if len(before) > 0 {
		return ErrUnsupported
	}
	err := f.create(workspace, map[string][]byte{stateName: next, backupName: next})
	if errors.Is(err, fs.ErrExist) {
		// A killed OpenTofu may have left a workspace without a state, which counts as missing.
		if err := f.Delete(ctx, workspace, nil); err != nil {
			return err
		}
		err = f.create(workspace, map[string][]byte{stateName: next, backupName: next})
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return ErrChanged
	case err != nil:
		return fmt.Errorf("creating workspace %q: %w", workspace, err)
	}
	return nil
}

// MarkEmpty creates a workspace with a mark that OpenTofu is about to create its first state. From then until KeepCopy,
// a missing or damaged state counts as the sign of an interrupted creation, and the workspace counts as missing. If the
// workspace exists, MarkEmpty changes nothing and returns nil. It returns an error if the name is not valid or the
// directory of the workspace cannot be created; after the latter it may have been created.
func (f *LocalStore) MarkEmpty(workspace string) error {
	if err := checkName(workspace); err != nil {
		return err
	}
	if err := f.create(workspace, map[string][]byte{emptyName: nil}); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating workspace %q: %w", workspace, err)
	}
	return nil
}

// KeepCopy copies the state to the backup file, from which Repair restores it, and removes the mark of MarkEmpty. It
// waits until the state and the copy are on disk. The copy is needed because OpenTofu empties the file before it writes
// a new state and does not wait for the disk. If the workspace does not exist, KeepCopy does nothing. If the copy
// already equals the state, it is not written again. The error is ErrIncomplete if the state is not whole, and another
// error if a file cannot be read, written or removed, the name is not valid, or the context has ended.
func (f *LocalStore) KeepCopy(ctx context.Context, workspace string) error {
	text, err := f.Read(ctx, workspace)
	if err != nil || text == nil {
		return err
	}
	if err := removeFile(f.path(workspace, emptyName)); err != nil {
		return err
	}
	backup := f.path(workspace, backupName)
	if kept, err := os.ReadFile(backup); err == nil && bytes.Equal(kept, text) {
		return nil
	}
	state, err := os.Open(f.path(workspace, stateName))
	if err != nil {
		return err
	}
	err = errors.Join(state.Sync(), state.Close(), writeDurably(backup+".tmp", text))
	if err == nil {
		err = os.Rename(backup+".tmp", backup)
	}
	if err != nil {
		return errors.Join(err, removeFile(backup+".tmp"))
	}
	return durable.SyncDir(filepath.Dir(backup))
}

// Repair restores a state that is missing, empty or cut off. It uses the copy that KeepCopy created, or the state
// lastResort if the copy is missing or damaged; a lastResort that is nil or not JSON means that there is none. It
// reports whether it restored the state. It does nothing if the state is whole or the workspace does not exist. The
// error is ErrIncomplete if nothing whole is available, and a *HeldError if another run holds the lock, because that
// run may be writing the state. It is another error if a file cannot be read, locked or written, the name is not valid,
// or the context has ended.
func (f *LocalStore) Repair(ctx context.Context, workspace string, lastResort []byte) (repaired bool, err error) {
	if _, err := f.Read(ctx, workspace); !errors.Is(err, ErrIncomplete) {
		return false, err
	}
	kept, err := os.ReadFile(f.path(workspace, backupName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("reading the copy of a state: %w", err)
	}
	if !json.Valid(kept) {
		kept = lastResort
	}
	flags := os.O_RDWR
	if json.Valid(kept) {
		flags |= os.O_CREATE
	}
	file, err := f.openLocked(ctx, workspace, flags)
	if errors.Is(err, fs.ErrNotExist) {
		return false, f.incompleteError(workspace)
	}
	if err != nil {
		return false, fmt.Errorf("locking the state of workspace %q: %w", workspace, err)
	}
	defer file.release()
	if _, err := f.Read(ctx, workspace); !errors.Is(err, ErrIncomplete) || !json.Valid(kept) {
		return false, err
	}
	if err := file.overwrite(kept); err != nil {
		return false, fmt.Errorf("restoring the state of workspace %q: %w", workspace, err)
	}
	return true, nil
}

// Delete removes the directory of a workspace. See Store.Delete for before and the errors; the error is also
// ErrIncomplete if the state is not whole, and another error if a file cannot be opened or moved or the context ends.
func (f *LocalStore) Delete(ctx context.Context, workspace string, before []byte) error {
	if err := checkName(workspace); err != nil {
		return err
	}
	flags := os.O_RDWR
	if f.exists(workspace, emptyName) {
		flags |= os.O_CREATE // The state file may not exist yet, and the lock needs it.
	}
	file, err := f.openLocked(ctx, workspace, flags)
	if errors.Is(err, fs.ErrNotExist) {
		stored, err := f.Read(ctx, workspace)
		if err == nil && len(before)+len(stored) > 0 {
			return ErrChanged
		}
		return err
	}
	if err != nil {
		return fmt.Errorf("locking the state of workspace %q: %w", workspace, err)
	}
	defer file.release()
	// The error is ignored: on a full disk the lock info file cannot be written, and deleting must work there.
	_ = file.describe("delete")
	stored, err := f.Read(ctx, workspace)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(stored, before):
		return ErrChanged
	}
	if err := f.removeDir(workspace); err != nil {
		return err
	}
	// Another process may have the file open and get its lock next. It must read an empty state then, not the deleted
	// one.
	_ = file.Truncate(0)
	file.deleted = true
	return nil
}

// SetAside renames the directory of a workspace, under the lock of its state, whether or not the state is whole. A
// missing state file is created, because the lock needs it. SetAside returns an error if the workspace does not exist
// or the new name is in use. See Store.SetAside.
func (f *LocalStore) SetAside(ctx context.Context, workspace, name string) error {
	if err := errors.Join(checkName(workspace), checkName(name)); err != nil {
		return err
	}
	file, err := f.openLocked(ctx, workspace, os.O_RDWR|os.O_CREATE) // the lock needs the file
	if err != nil {
		return fmt.Errorf("locking the state of workspace %q: %w", workspace, err)
	}
	defer file.release()
	if err := os.Rename(f.path(workspace, ""), f.path(name, "")); err != nil {
		return fmt.Errorf("renaming workspace %q: %w", workspace, err)
	}
	return durable.SyncDir(f.dir)
}

// openLocked opens the state file of a workspace and takes its lock; the caller must call release. The flags are those
// of os.OpenFile. The error is fs.ErrNotExist if the file is missing and the flags do not contain os.O_CREATE, or if
// the directory is missing, and a *HeldError if another run holds the lock. It is another error if the context ends, if
// the file cannot be opened or locked, or if other processes keep removing and creating the file.
func (f *LocalStore) openLocked(ctx context.Context, workspace string, flags int) (*stateFile, error) {
	path := f.path(workspace, stateName)
	for range attempts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		opened, err := os.OpenFile(path, flags, 0o600) //nolint:gosec // the operator's directory
		if err != nil {
			return nil, err
		}
		file := &stateFile{File: opened}
		current, err := file.lock()
		if err == nil && current {
			return file, nil
		}
		_ = file.Close()
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("opening %q: other processes keep creating and removing it", path)
}
