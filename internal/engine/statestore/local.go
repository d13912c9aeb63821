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

// LocalStore is the Store of OpenTofu's backend local. DIR is the directory that was passed to Local, and the state of
// a workspace is the file DIR/WORKSPACE/terraform.tfstate. Use Local to create a LocalStore; the zero value is not
// usable.
//
// LocalStore creates and deletes a workspace by renaming its directory from and to a scratch directory in DIR.tmp, so
// that a state appears and disappears as a whole. A workspace without a whole state is therefore one that a crash or
// OpenTofu damaged. A workspace that Replace created survives a crash of the machine, if the file system honours fsync.
// A crash may undo a deletion.
type LocalStore struct{ dir string }

// Local returns the store of OpenTofu's backend local in the directory dir, which is the workspace_dir of that backend.
// A relative path is relative to the working directory of this process. Local accesses no files; a missing directory is
// a store without workspaces, and is created with the first workspace.
func Local(dir string) *LocalStore { return &LocalStore{dir: dir} }

// path returns the path of the file name in the directory of a workspace, DIR/WORKSPACE/NAME, where DIR is the
// directory of the store as it was passed to Local. With an empty name it returns the path of the directory,
// DIR/WORKSPACE. It does not check the names or access files.
func (f *LocalStore) path(workspace, name string) string {
	return filepath.Join(f.dir, workspace, name)
}

// exists reports whether the directory of a workspace contains a file of this name or, with an empty name, whether the
// workspace has a directory. It also returns true if the path cannot be inspected for any other reason than that it
// does not exist, such as a missing permission.
func (f *LocalStore) exists(workspace, name string) bool {
	_, err := os.Stat(f.path(workspace, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// Read returns the content of the state file. It returns nil and no error if the workspace has no directory, or if
// OpenTofu is creating the first state of the workspace or was interrupted while it did. The error wraps ErrIncomplete
// if any other workspace exists and its state file is missing or is not valid JSON; Repair may restore the state then.
// It is another error if the name is not valid, the file cannot be read, or the context has ended. Read takes no lock
// and changes nothing.
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

// incompleteError returns the error of a workspace whose state file is missing or is not valid JSON, as the caller has
// determined. The error wraps ErrIncomplete, and its text names the state file to restore from a backup.
//
// incompleteError returns nil if the workspace counts as missing. That is so if it has no directory, or if OpenTofu was
// interrupted while it created the first state: the mark of MarkEmpty exists then, and no copy of KeepCopy does. A path
// that cannot be inspected counts as existing; see exists.
func (f *LocalStore) incompleteError(workspace string) error {
	if !f.exists(workspace, "") || f.exists(workspace, emptyName) && !f.exists(workspace, backupName) {
		return nil
	}
	return fmt.Errorf("%w, and so is its copy in the same directory: restore %s from a backup; "+
		"without a backup, delete the workspace's resources by hand, and then its directory",
		ErrIncomplete, f.path(workspace, stateName))
}

// List returns the names of the directories in the directory of the store, sorted, except "default". Each is a
// workspace, whether or not it contains a state. The result is nil if the directory of the store contains none or does
// not exist. List returns nil and an error if the context has ended or the directory of the store cannot be read.
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

// Locks returns the locks of states that have a lock info file and whose lock is held at this moment. A killed run
// leaves the file but not the lock. The fields Who, Operation and Since of a Lock are zero if the lock info file is
// damaged. States that were deleted meanwhile or that cannot be opened are left out. The result is sorted by workspace,
// and is nil if no lock is held. Locks returns an error only if the context has ended or the directory of the store
// cannot be read; a missing directory is not an error. It takes no lock.
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

// Replace creates a workspace whose state file, and its copy for Repair, contain next. The parameter before must be
// empty: otherwise the error is ErrUnsupported, because only OpenTofu changes the state of an existing workspace. A
// workspace without a state that an interrupted OpenTofu left is deleted and created again.
//
// The error is ErrChanged if the workspace exists with a state, wraps ErrIncomplete if it exists and its state is not
// whole, and wraps a *HeldError if it exists and another run holds its lock. It is another error if the name is not
// valid, next is empty, the context has ended, or a file or directory cannot be created, locked, moved or synced. If a
// file or directory was the cause, the workspace may have been created.
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

// MarkEmpty creates the directory of a workspace with a mark file, which records that OpenTofu will now create the
// first state of the workspace. From then until KeepCopy has copied a state, a missing or damaged state counts as the
// sign of an interrupted creation, so that Read treats the workspace as missing. If the workspace already has a
// directory, with or without a state, MarkEmpty changes nothing and returns nil. It returns an error if the name is
// not valid, or if a directory or the mark cannot be created, locked, renamed or synced. In the second case the
// workspace may have been created.
func (f *LocalStore) MarkEmpty(workspace string) error {
	if err := checkName(workspace); err != nil {
		return err
	}
	if err := f.create(workspace, map[string][]byte{emptyName: nil}); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating workspace %q: %w", workspace, err)
	}
	return nil
}

// KeepCopy copies the state of a workspace to the backup file, from which Repair restores it, and removes the mark of
// MarkEmpty. It waits until the state and the copy are on disk. The copy is needed because OpenTofu empties the file
// before it writes a new state and does not wait for the disk. KeepCopy takes no lock. If the workspace does not exist,
// or OpenTofu was interrupted while it created the first state, KeepCopy does nothing and returns nil. If the copy
// already equals the state, KeepCopy only removes the mark.
//
// The error wraps ErrIncomplete if the state is not whole. It is another error if a file cannot be read, written,
// synced, renamed or removed, the name is not valid, or the context has ended. After an error the backup file is as it
// was before or contains the whole state, but the mark may have been removed.
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

// Repair restores a state that is missing, empty or cut off, and reports whether it restored one. It writes the copy
// that KeepCopy created or, if that copy is missing or damaged, the state lastResort. A lastResort that is nil or not
// JSON means that no such state is available. Repair takes the lock of the state while it writes, and waits for the
// disk. It does not change the state, and returns false and nil, if the state is whole, the workspace does not exist,
// or OpenTofu was interrupted while it created the first state.
//
// With an error, repaired is false, although the state may be restored if only the sync to the disk failed. The error
// wraps a *HeldError if another run holds the lock, because that run may be writing the state, and otherwise
// ErrIncomplete if neither the copy nor lastResort is whole. It is another error if a file cannot be read, locked or
// written, the name is not valid, or the context has ended.
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

// Delete removes the directory of a workspace, under the lock of its state, if the stored state is equal to before,
// byte for byte. With an empty before, Delete succeeds only if Read returns nil: it does nothing if the workspace does
// not exist, and removes the directory that an interrupted OpenTofu left without a state. While Delete holds the lock,
// the lock info file names this process, if it can be written.
//
// The error is ErrChanged if the stored state differs from before, or if before is not empty and the workspace does not
// exist. It wraps a *HeldError if another run holds the lock, and ErrIncomplete if the workspace exists and its state
// is not whole. It is another error if the name is not valid, the context has ended, or a file cannot be opened,
// locked, read or moved. After an error the workspace is not deleted.
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

// SetAside renames the directory DIR/WORKSPACE to DIR/NAME, under the lock of the state, whether or not the state is
// whole. A missing state file is created first, empty, because the lock needs it; it remains if SetAside then fails.
// The error wraps fs.ErrNotExist if the workspace does not exist, fs.ErrExist if a workspace of the new name exists,
// and a *HeldError if another run holds the lock. It is another error if one of the names is not valid, the context has
// ended, or a file or directory cannot be opened, locked, renamed or synced. After an error the directory still has its
// old name, unless only the sync failed.
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

// openLocked opens the state file of a workspace and takes its lock without waiting; the caller must call release. The
// flags are those of os.OpenFile; they must permit writing, as the lock requires. The file is nil after an error. The
// error wraps fs.ErrNotExist if the directory of the workspace is missing, or if the file is missing and the flags do
// not contain os.O_CREATE. It is a *HeldError if another run holds the lock. It is another error if the context has
// ended, if the file cannot be opened or locked, or if other processes removed or replaced the file at each of 20
// attempts. The name of the workspace is not checked.
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
