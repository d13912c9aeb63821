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
)

const (
	// stateName is the file of a state in the directory of its workspace.
	stateName = "terraform.tfstate"
	// backupName is the file beside it that keeps a copy.
	backupName = stateName + ".backup"
	// emptyName marks a workspace in which OpenTofu is making the first state.
	emptyName = ".empty"
)

// tries is how often a file that others make and remove is read or opened again.
const tries = 20

// ErrIncomplete says that a workspace of the backend local has no whole state: its file is missing, empty or cut off. Nobody knows what
// the workspace holds. OpenTofu would take it for an empty one.
var ErrIncomplete = errors.New("the state is missing, empty or cut off")

// Files is the store of OpenTofu's backend local. The state of a workspace is the file DIR/NAME/terraform.tfstate.
//
// A state appears and disappears as a whole, by the rename of its directory from and to DIR.tmp: a workspace without a whole state is one
// that a crash damaged, never one that this package made or deleted. What Replace created is still there after the machine crashed, as far
// as the file system keeps its word; a deletion may be undone by a crash.
type Files struct{ dir string }

// Local returns the store of OpenTofu's backend local; dir is its workspace_dir.
func Local(dir string) *Files { return &Files{dir: dir} }

func (f *Files) path(workspace, name string) string { return filepath.Join(f.dir, workspace, name) }

// exists tells whether a workspace has a file, and with "" whether it has a directory, as far as one may see that.
func (f *Files) exists(workspace, name string) bool {
	_, err := os.Stat(f.path(workspace, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// Read reads the file. The error is ErrIncomplete when it holds no whole state; Repair may help.
func (f *Files) Read(ctx context.Context, workspace string) ([]byte, error) {
	if err := errors.Join(ctx.Err(), checkName(workspace)); err != nil {
		return nil, err
	}
	var incomplete error
	for range tries {
		text, err := os.ReadFile(f.path(workspace, stateName))
		switch {
		case err == nil && json.Valid(text):
			return text, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("reading the state of workspace %q: %w", workspace, err)
		}
		if incomplete = f.incomplete(workspace); incomplete == nil {
			return nil, nil
		}
		// Perhaps it was deleted and made again between the two looks.
	}
	return nil, incomplete
}

// incomplete is the error about a workspace without a whole state; nil where there is no workspace, or where OpenTofu was about to
// make its first state and nothing was kept yet.
func (f *Files) incomplete(workspace string) error {
	if !f.exists(workspace, "") || f.exists(workspace, emptyName) && !f.exists(workspace, backupName) {
		return nil
	}
	return fmt.Errorf("%w, and so is the copy beside it: restore %s from a backup; "+
		"without one remove by hand what the workspace made, and then its directory", ErrIncomplete, f.path(workspace, stateName))
}

// List lists the directories.
func (f *Files) List(ctx context.Context) ([]string, error) {
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

// Locked asks for the locks that somebody wrote down to have. A killed run leaves its note, but no lock.
func (f *Files) Locked(ctx context.Context) (int, error) {
	names, err := f.List(ctx)
	locked := 0
	for _, name := range names {
		file, err := os.Open(f.path(name, stateName))
		if err != nil {
			continue // it was removed since
		}
		lock, state := syscall.Flock_t{Type: syscall.F_WRLCK}, stateFile{File: file}
		if _, err := os.Stat(state.infoPath()); err == nil && syscall.FcntlFlock(file.Fd(), getLock, &lock) == nil && lock.Type != syscall.F_UNLCK {
			locked++
		}
		_ = file.Close() // opened for reading: closing cannot lose anything
	}
	return locked, err
}

// Replace makes the state of a new workspace, with its copy. To change one is left to OpenTofu: ErrUnsupported.
func (f *Files) Replace(ctx context.Context, workspace string, before, next []byte) error {
	if err := errors.Join(ctx.Err(), checkName(workspace), checkNext(next)); err != nil {
		return err
	}
	if len(before) > 0 {
		return ErrUnsupported
	}
	err := f.create(workspace, map[string][]byte{stateName: next, backupName: next})
	if errors.Is(err, fs.ErrExist) {
		// It may be what a killed OpenTofu left of a creation.
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

// MarkEmpty notes that OpenTofu is about to make a workspace. Until Keep, one without a whole state counts as empty: its creation was
// interrupted. A workspace that exists is left as it is.
func (f *Files) MarkEmpty(workspace string) error {
	if err := checkName(workspace); err != nil {
		return err
	}
	if err := f.create(workspace, map[string][]byte{emptyName: nil}); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating workspace %q: %w", workspace, err)
	}
	return nil
}

// create makes the directory of a workspace with some files, all of it or nothing; fs.ErrExist when there is one.
func (f *Files) create(workspace string, files map[string][]byte) error {
	grown, err := makeDir(f.dir)
	if err != nil {
		return err
	}
	own, done, err := f.scratch()
	if err != nil {
		return err
	}
	defer done()
	for name, text := range files {
		if err := writeDurably(filepath.Join(own, name), text); err != nil {
			return err
		}
	}
	if err := syncDir(own); err != nil {
		return err
	}
	if err := os.Rename(own, filepath.Join(f.dir, workspace)); err != nil {
		return err
	}
	for _, dir := range append([]string{f.dir}, grown...) {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// scratch makes a private directory beside those of the workspaces. What killed processes left there is removed: whoever works there
// holds a shared lock of the place.
func (f *Files) scratch() (own string, done func(), err error) {
	all := f.dir + ".tmp"
	if err := os.MkdirAll(all, 0o700); err != nil {
		return "", nil, err
	}
	place, err := os.Open(all)
	if err != nil {
		return "", nil, err
	}
	if flock(place, syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		entries, _ := place.ReadDir(-1)
		for _, entry := range entries {
			_ = os.RemoveAll(filepath.Join(all, entry.Name())) // the next one tries again
		}
	}
	if err := flock(place, syscall.LOCK_SH); err != nil {
		return "", nil, errors.Join(fmt.Errorf("locking %q: %w", all, err), place.Close())
	}
	own, err = os.MkdirTemp(all, "")
	if err != nil {
		return "", nil, errors.Join(err, place.Close())
	}
	return own, func() {
		_ = os.RemoveAll(own)
		_ = place.Close()
	}, nil
}

// Keep makes a durable copy of the state, and makes the state durable before that: OpenTofu empties the file when it writes it, and does
// not wait for the disk. Of a workspace that does not exist there is nothing to keep.
func (f *Files) Keep(ctx context.Context, workspace string) error {
	text, err := f.Read(ctx, workspace)
	if err != nil || text == nil {
		return err
	}
	if err := remove(f.path(workspace, emptyName)); err != nil {
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
		return errors.Join(err, remove(backup+".tmp"))
	}
	return syncDir(filepath.Dir(backup))
}

// Repair puts the copy that Keep made in the place of a state that is missing, empty or cut off, or without a whole copy the last resort,
// which may be nil. It reports whether it did. While somebody holds the lock, who may be writing, the error is a *HeldError.
func (f *Files) Repair(ctx context.Context, workspace string, lastResort []byte) (repaired bool, err error) {
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
	file, err := f.open(ctx, workspace, flags)
	if errors.Is(err, fs.ErrNotExist) {
		return false, f.incomplete(workspace)
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

// Delete removes the directory.
func (f *Files) Delete(ctx context.Context, workspace string, before []byte) error {
	if err := checkName(workspace); err != nil {
		return err
	}
	flags := os.O_RDWR
	if f.exists(workspace, emptyName) {
		flags |= os.O_CREATE // There may be no file yet, and without one there is no lock.
	}
	file, err := f.open(ctx, workspace, flags)
	if errors.Is(err, fs.ErrNotExist) {
		found, err := f.Read(ctx, workspace)
		if err == nil && len(before)+len(found) > 0 {
			return ErrChanged
		}
		return err
	}
	if err != nil {
		return fmt.Errorf("locking the state of workspace %q: %w", workspace, err)
	}
	defer file.release()
	// There is no room for it on a full disk, where to delete something is what helps.
	_ = file.describe("delete")
	found, err := f.Read(ctx, workspace)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(found, before):
		return ErrChanged
	}
	if err := f.takeOut(workspace); err != nil {
		return err
	}
	// Whoever has it open and gets the lock after this takes it for the empty state that a deleted workspace has.
	_ = file.Truncate(0)
	file.deleted = true
	return nil
}

// SetAside gives a workspace another name, under the lock of its state, with all that its directory holds, whole or not.
func (f *Files) SetAside(ctx context.Context, workspace, name string) error {
	if err := errors.Join(checkName(workspace), checkName(name)); err != nil {
		return err
	}
	file, err := f.open(ctx, workspace, os.O_RDWR|os.O_CREATE) // without a file there is no lock
	if err != nil {
		return fmt.Errorf("locking the state of workspace %q: %w", workspace, err)
	}
	defer file.release()
	if err := os.Rename(f.path(workspace, ""), f.path(name, "")); err != nil {
		return fmt.Errorf("renaming workspace %q: %w", workspace, err)
	}
	return syncDir(f.dir)
}

// takeOut removes the directory of a workspace as a whole, with all that is in it.
func (f *Files) takeOut(workspace string) error {
	own, done, err := f.scratch()
	if err != nil {
		return fmt.Errorf("removing workspace %q: %w", workspace, err)
	}
	defer done()
	if err := os.Rename(f.path(workspace, ""), filepath.Join(own, workspace)); err != nil {
		return fmt.Errorf("removing workspace %q: %w", workspace, err)
	}
	return nil
}

// open opens the file of a state and takes its lock; fs.ErrNotExist when there is none and the flags do not say to make it.
func (f *Files) open(ctx context.Context, workspace string, flags int) (*stateFile, error) {
	path := f.path(workspace, stateName)
	for range tries {
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
	return nil, fmt.Errorf("opening %q: it is made and removed all the time", path)
}

// makeDir makes a directory, and those above it, and returns the directories in which it made one.
func makeDir(dir string) (grown []string, err error) {
	err = os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if grown, err = makeDir(filepath.Dir(dir)); err != nil {
			return nil, err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		return grown, nil
	}
	if err != nil {
		return nil, err
	}
	return append(grown, filepath.Dir(dir)), nil
}

// remove removes a file that may be missing.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
