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
	"strings"
	"syscall"
)

// stateName is the file of a state in the directory of its workspace.
const stateName = "terraform.tfstate"

// tries is how often a file that others make and remove is opened again.
const tries = 100

type local struct{ dir string }

// Local returns the store of OpenTofu's backend local; dir is its workspace_dir. The state of a workspace is the file
// dir/NAME/terraform.tfstate. What Replace created is still there after the machine crashed, as far as the file system keeps its word; a
// deletion may be undone by a crash.
func Local(dir string) Store { return local{dir: dir} }

// Restore puts OpenTofu's backup of a state of the backend local in the place of one that was not written to its end, and reports
// whether it did. OpenTofu empties the file before it writes it, and then the disk was full or it was killed. Nothing happens
// while somebody holds the lock, who may be writing.
func Restore(ctx context.Context, dir, workspace string) (restored bool, err error) {
	l := local{dir: dir}
	if err := checkName(workspace); err != nil {
		return false, err
	}
	text, err := os.ReadFile(l.path(workspace))
	if errors.Is(err, fs.ErrNotExist) || err == nil && json.Valid(text) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the state of workspace %q: %w", workspace, err)
	}
	file, err := l.open(ctx, workspace, false)
	var held *HeldError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &held) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("locking the state of workspace %q: %w", workspace, err)
	}
	defer file.release()
	_, restored, err = file.mend()
	return restored, err
}

func (l local) path(workspace string) string { return filepath.Join(l.dir, workspace, stateName) }

// Read reads the file.
func (l local) Read(ctx context.Context, workspace string) ([]byte, error) {
	if err := errors.Join(ctx.Err(), checkName(workspace)); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(l.path(workspace))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the state of workspace %q: %w", workspace, err)
	case len(text) == 0:
		return nil, nil
	}
	return text, nil
}

// List lists the directories.
func (l local) List(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(l.dir)
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

// Replace writes the file.
func (l local) Replace(ctx context.Context, workspace string, before, next []byte) error {
	if err := errors.Join(checkName(workspace), checkNext(next)); err != nil {
		return err
	}
	info := newLockInfo("replace", l.path(workspace))
	file, err := l.open(ctx, workspace, len(before) == 0)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrChanged
	}
	if err != nil {
		return fmt.Errorf("locking the state of workspace %q: %w", workspace, err)
	}
	defer file.release()
	if err := file.describe(info); err != nil {
		return fmt.Errorf("locking the state of workspace %q: %w", workspace, err)
	}
	if err := file.expect(before); err != nil {
		return err
	}
	if err := file.replace(before, next); err != nil {
		return fmt.Errorf("writing the state of workspace %q: %w", workspace, err)
	}
	return nil
}

// Delete removes the file and the directory.
func (l local) Delete(ctx context.Context, workspace string, before []byte) error {
	if err := checkName(workspace); err != nil {
		return err
	}
	info := newLockInfo("delete", l.path(workspace))
	file, err := l.open(ctx, workspace, false)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(before) > 0:
		return ErrChanged
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("locking the state of workspace %q: %w", workspace, err)
	default:
		if err := file.delete(info, before); err != nil {
			return err
		}
	}
	if err := removeDir(filepath.Join(l.dir, workspace)); err != nil {
		return fmt.Errorf("removing workspace %q: %w", workspace, err)
	}
	return nil
}

// open opens the file of a state and takes its lock. With create it makes the file where there is none; else the error is
// fs.ErrNotExist.
func (l local) open(ctx context.Context, workspace string, create bool) (*stateFile, error) {
	path := l.path(workspace)
	for range tries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		file, err := openState(path, create)
		if create && (errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist)) {
			continue // Somebody else makes or deletes the workspace at this moment.
		}
		if err != nil {
			return nil, err
		}
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

// openState opens the file of a state. With create it makes the file where there is none, unless somebody else does: fs.ErrExist when
// it was made meanwhile, fs.ErrNotExist when its directory was removed.
func openState(path string, create bool) (*stateFile, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		return &stateFile{File: file, path: path}, nil
	}
	if !create || !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	grown, err := makeDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &stateFile{File: file, path: path, created: true, grown: grown}, nil
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

// removeDir removes the directory of a workspace whose state was removed, with all that is left in it. Somebody may make the workspace
// again meanwhile: a state is never removed without its lock, and its directory then stays. Files that NFS keeps for processes that
// have them open vanish with those; until then the directory stays, too.
func removeDir(dir string) error {
	err := syscall.Rmdir(dir)
	if !errors.Is(err, syscall.ENOTEMPTY) {
		return ignoreMissing(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, entry := range entries {
		if entry.Name() == stateName {
			return nil
		}
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".nfs") {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	if err := syscall.Rmdir(dir); !errors.Is(err, syscall.ENOTEMPTY) {
		return ignoreMissing(err)
	}
	return nil
}

// remove removes a file that may be missing.
func remove(path string) error { return ignoreMissing(os.Remove(path)) }

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// padded returns the text with line feeds at its end, which JSON allows, so that it is as long as what it overwrites.
func padded(text []byte, size int) []byte {
	return append(bytes.Clone(text), bytes.Repeat([]byte("\n"), max(0, size-len(text)))...)
}
