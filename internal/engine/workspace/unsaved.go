package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/scratch"
	"service-adapter/internal/engine/statestore"
)

// pushUnsaved saves a state that an earlier run could not save, if there is one, and removes its file. It begins by
// repairing an incomplete state of the local backend; see repair for the errors. In three cases the state is not saved
// but moved to the cache directory, a warning is logged, and the error is nil: if its file is not complete, if another
// run has changed the stored state since, and if another machine has deleted the workspace; see pushOrSetAside for the
// last two. If the state cannot be saved, its file stays and is named in the error, which is a *statelock.Error if
// another run holds the lock of the state for too long, an *opentofu.Error if OpenTofu failed, and any other error if
// the state cannot be read, decrypted or parsed.
func (s *states) pushUnsaved(ctx context.Context, i opentofu.Installation) error {
	if err := s.repair(ctx); err != nil {
		return err
	}
	path, err := s.engine.scratch.UnsavedState(s.name)
	if err != nil || path == "" {
		return err
	}
	text, err := os.ReadFile(path) //nolint:gosec // a state in the scratch directory
	if err != nil {
		return err
	}
	// States are JSON, also when they are encrypted.
	if !json.Valid(text) {
		// The disk was also full, or the machine lost power. The record is in the stored state.
		kept, err := s.moveAside(path, "incomplete")
		if err == nil {
			s.engine.logger.Warn("set aside a state that an earlier run could neither save nor write completely; "+
				"it may name resources that the stored state does not", "workspace", s.name, "file", kept)
		}
		return err
	}
	if s.engine.options.Encryption != nil {
		text, err = s.scratch.DecryptState(ctx, i, path)
	}
	if err == nil {
		err = s.pushOrSetAside(ctx, i, path, text)
	}
	if err != nil {
		return fmt.Errorf("saving the state that an earlier run left in %s: %w", path, err)
	}
	return nil
}

// pushOrSetAside stores text, a state in clear text that an earlier run could not save, removes its file, which has
// this path, and logs that. In two cases it does not store the text but moves the file to the cache directory, so that
// the file does not block the workspace, logs a warning and returns nil: if another run has changed the stored state
// since, and if another machine has deleted the workspace. In the second case, a file without resources is removed
// instead.
//
// It returns an error if text is not a state, if the stored state cannot be read or replaced, or if the file cannot be
// moved or removed. The file then stays.
func (s *states) pushOrSetAside(ctx context.Context, i opentofu.Installation, path string, text []byte) error {
	state, err := statestore.Parse(text)
	if err != nil {
		return err
	}
	stored, err := s.read(ctx, i)
	if err != nil {
		return err
	}
	// The guard is stored before any state that could not be saved, unless the guard itself could not be saved. A
	// missing guard means that another machine has deleted the workspace. If a file of the local backend is missing,
	// however, it has been lost.
	if gone := len(bytes.TrimSpace(stored.text)) == 0; gone && s.engine.files == nil {
		if state == nil || len(state.Resources) == 0 {
			return os.Remove(path)
		}
		return s.setAside(path, state, stored.state)
	}
	if old, err := statestore.Superseded(text, stored.text, state, stored.state); err != nil {
		return err
	} else if old {
		return s.setAside(path, state, stored.state)
	}
	if err := s.push(ctx, i, scratch.Inspect, text); err != nil {
		return err
	}
	s.engine.logger.Info("saved the state of an earlier run", "workspace", s.name)
	return os.Remove(path)
}

// moveAside moves the file of a state into the cache directory, where an operator can inspect it, makes it private, and
// returns its new path. The name of the file begins with kind. It returns an error if the file cannot be moved or made
// private; the path is then the intended one.
func (s *states) moveAside(path, kind string) (kept string, err error) {
	kept = filepath.Join(s.engine.options.CacheDir, s.unique(kind)+".tfstate")
	return kept, errors.Join(os.Chmod(path, 0o600), os.Rename(path, kept))
}

// setAside moves the file of a superseded state to the cache directory, and logs a warning with its new path and the
// addresses that are only in this state. unsaved and stored are the superseded and the stored state; each is nil if it
// is empty. It returns an error, and logs nothing, if the file cannot be moved.
func (s *states) setAside(path string, unsaved, stored *statestore.State) error {
	kept, err := s.moveAside(path, "superseded")
	if err != nil {
		return err
	}
	var onlyInUnsaved []string
	if unsaved != nil {
		onlyInUnsaved = s.missingFrom(stored, unsaved.Instances)
	}
	s.engine.logger.Warn("set aside a state that could not be saved: another run changed the stored one since",
		"workspace", s.name, "file", kept, "only_there", onlyInUnsaved)
	return nil
}

// HasUnsavedState reports whether the scratch directory contains a state of the workspace that OpenTofu could not save.
// SaveUnsaved tries again to save it. The result is false if the directory cannot be read.
func (s *states) HasUnsavedState() bool {
	path, err := s.engine.scratch.UnsavedState(s.name)
	return err == nil && path != ""
}

// SaveUnsaved saves a state that OpenTofu could not save in the backend, and removes its file. Before that, it repairs
// an incomplete state of the local backend; the error is statestore.ErrIncomplete if that has no copy. It does nothing
// if there is no unsaved state. If the state cannot be saved this time either, the file stays. The error is then a
// *statelock.Error if another run holds the lock of the state for too long, an *opentofu.Error if OpenTofu failed, and
// any other error if the state cannot be read, decrypted or parsed. In three cases the file is moved to the cache
// directory instead, a warning is logged and the error is nil: if the state is not complete, if another run has changed
// the stored state since, and if another machine has deleted the workspace. In the last case a file without resources
// is removed.
func (s *states) SaveUnsaved(ctx context.Context, i opentofu.Installation) error {
	return s.wrapError("saving", s.pushUnsaved(ctx, i))
}
