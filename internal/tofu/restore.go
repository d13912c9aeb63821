package tofu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// cutOff tells whether a file with a state was not written to its end. States are JSON, encrypted ones too.
func cutOff(path string) (bool, error) {
	text, err := os.ReadFile(path) //nolint:gosec // a state of ours
	return err == nil && !json.Valid(text), err
}

// restoreBackup puts the local backend's backup, the state before the last change, in the place of a state that is cut off: OpenTofu
// empties the file before it writes it, and then the disk was full or OpenTofu was killed. It made the backup before that.
func (w *Workspace) restoreBackup() (err error) {
	path := w.localState()
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at the state: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// The lock is OpenTofu's. Whoever has it, with another cache directory, is writing.
	if syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}) != nil {
		return nil
	}
	text, err := io.ReadAll(file) // to open it once more would give the lock away
	if err != nil || json.Valid(text) {
		return err
	}
	backup, err := os.ReadFile(path + ".backup")
	if err != nil || !json.Valid(backup) {
		return nil // There is none: the file is that of a workspace to which nothing was written yet.
	}
	if err := writeFile(path, backup); err != nil {
		return fmt.Errorf("restoring the state: %w", err)
	}
	w.engine.logger.Warn("restored the state before the last change, which was not written to its end", "workspace", w.name)
	return nil
}
