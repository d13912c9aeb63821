package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/scratch"
	"service-adapter/internal/engine/statestore"
)

// pushUnsaved saves a state that an earlier run could not save, if there is one, and removes its file from the
// scratch directory. Of several such states, it saves the first and leaves the others; see scratch.Root.UnsavedState.
// Before that, and also without such a state, it repairs an incomplete state of the local backend.
//
// In three cases the state is not saved but its file is moved to the cache directory, a warning is logged, and the
// error is nil:
//   - The file is not complete.
//   - Another run has changed the stored state since.
//   - Another machine has deleted the workspace. A file without resources is removed in this case, without a warning.
//     This case does not exist with the local backend, where a missing state counts as lost and the unsaved one is
//     stored.
//
// After an error the file stays, even if its state has been stored. The error is statestore.ErrIncomplete if neither a
// copy nor the unsaved state can repair the local state, a *statelock.Error if another run holds the lock of the state
// for too long, and an *opentofu.Error if OpenTofu failed. It is any other error if the unsaved state cannot be read,
// decrypted or parsed, or if the file cannot be moved or removed. If the state cannot be saved, the error names its
// file.
func (s *states) pushUnsaved(ctx context.Context, i opentofu.Installation) error {
	if err := s.repair(ctx); err != nil {
		return err
	}
	path := s.engine.scratch.UnsavedState(s.name)
	if path == "" {
		return nil
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

// pushOrSetAside stores text, a state in clear text that an earlier run could not save, with "tofu state push", removes
// the file of that state, which has this path, and logs that. In two cases it does not store the text but moves the
// file to the cache directory, so that the file does not block the workspace, logs a warning and returns nil: if
// another run has changed the stored state since, and if another machine has deleted the workspace. In the second case,
// a file without resources is removed instead, without a warning. For the local backend, a missing state counts as
// lost, not as deleted, and text is stored.
//
// It returns an error if text is not a state, if the stored state cannot be read or replaced, or if the file cannot be
// moved or removed. It is an *opentofu.Error if OpenTofu failed, and a *statelock.Error if another run holds the lock
// for too long. After an error the file stays at path, even if text has been stored.
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
		return s.setAside(path, "its workspace has been deleted since", state, stored.state)
	}
	if old, err := statestore.Superseded(text, stored.text, state, stored.state); err != nil {
		return err
	} else if old {
		return s.setAside(path, "another run changed the stored one since", state, stored.state)
	}
	if err := s.push(ctx, i, scratch.Inspect, text); err != nil {
		return err
	}
	s.engine.logger.Info("saved the state of an earlier run", "workspace", s.name)
	return os.Remove(path)
}

// moveAside moves the file of a state, which has this absolute path, into the cache directory, where an operator can
// inspect it, and makes it readable only for this user. It returns the new path, such as
// CACHE/superseded-b-1234-1700000000000000000.tfstate, whose name consists of kind, the workspace and the time in
// nanoseconds. It returns "" and an error if the file cannot be made private or moved; the file then keeps its path.
func (s *states) moveAside(path, kind string) (kept string, err error) {
	kept = filepath.Join(s.engine.options.CacheDir, s.unique(kind)+".tfstate")
	if err = os.Chmod(path, 0o600); err == nil {
		err = os.Rename(path, kept)
	}
	if err != nil {
		return "", err
	}
	return kept, nil
}

// setAside moves the file of a superseded state, which has this path, to the cache directory, and logs a warning with
// the reason, its new path and the addresses of instances that are only in this state. The reason is a clause such as
// "another run changed the stored one since". unsaved and stored are the superseded and the stored state; each is nil
// if it is empty. setAside returns an error, and logs nothing, if the file cannot be moved or made private.
func (s *states) setAside(path, reason string, unsaved, stored *statestore.State) error {
	kept, err := s.moveAside(path, "superseded")
	if err != nil {
		return err
	}
	var onlyInUnsaved []string
	if unsaved != nil {
		onlyInUnsaved = s.missingFrom(stored, unsaved.Instances)
	}
	s.engine.logger.Warn("set aside a state that could not be saved",
		"reason", reason, "workspace", s.name, "file", kept, "only_there", onlyInUnsaved)
	return nil
}

// setUnsavedAside moves the file of an unsaved state, which an earlier run could not save in the backend, to the
// cache directory, and logs a warning with its new path. The file is in the scratch directory of the workspace of s,
// and must exist; see HasUnsavedState. Of several such files, setUnsavedAside moves only the first, so the caller
// must repeat the call until HasUnsavedState returns false. It returns an error, and logs nothing, if the file cannot
// be made private or moved.
func setUnsavedAside(s *states) error {
	kept, err := s.moveAside(s.engine.scratch.UnsavedState(s.name), "unreadable")
	if err != nil {
		return fmt.Errorf("moving the state that an earlier run could not save: %w", err)
	}
	s.engine.logger.Warn("set aside a state that could not be saved", "reason", "its workspace is set aside",
		"workspace", s.name, "file", kept)
	return nil
}

// HasUnsavedState reports whether the scratch directory of the workspace contains a state that OpenTofu could not save
// in the backend. SaveUnsaved tries again to save it. The result is false if there is none or if the directory cannot
// be read.
func (s *states) HasUnsavedState() bool {
	return s.engine.scratch.UnsavedState(s.name) != ""
}

// SaveUnsaved saves a state that OpenTofu could not save in the backend, and removes its file. First, and also without
// an unsaved state, it repairs an incomplete state of the local backend; the error is statestore.ErrIncomplete if
// neither a copy nor the unsaved state can repair it. Unlike other operations, it does not check whether the OpenTofu i
// supports the backend. The error names the workspace.
//
// In three cases the file is moved to the cache directory instead, a warning is logged and the error is nil: if the
// state is not complete, if another run has changed the stored state since, and if another machine has deleted the
// workspace. In the last case a file without resources is removed. If the state cannot be saved this time either, the
// file stays. The error is then a *statelock.Error if another run holds the lock of the state for too long, an
// *opentofu.Error if OpenTofu failed, and any other error if the state cannot be read, decrypted or parsed.
func (s *states) SaveUnsaved(ctx context.Context, i opentofu.Installation) error {
	return s.wrapError("saving", s.pushUnsaved(ctx, i))
}
