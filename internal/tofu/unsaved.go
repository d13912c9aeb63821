package tofu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// pushUnsaved saves the errored.tfstate of an earlier run in the backend and removes it.
func (w *Workspace) pushUnsaved(ctx context.Context, i Installation) error {
	if err := w.repair(ctx); err != nil {
		return err
	}
	path, err := w.unsaved()
	if err != nil || path == "" {
		return err
	}
	if cut, err := cutOff(path); err != nil {
		return err
	} else if cut {
		// The disk was full, too. What the backend has is all there is, and it has the record.
		w.engine.logger.Warn("dropping a state that an earlier run could neither save nor write to its end", "workspace", w.name)
		return os.Remove(path)
	}
	if err := w.pushOrSetAside(ctx, i, path); err != nil {
		return fmt.Errorf("saving the state that an earlier run left in %s: %w", path, err)
	}
	return nil
}

// cutOff tells whether a file with a state was not written to its end. States are JSON, encrypted ones too.
func cutOff(path string) (bool, error) {
	text, err := os.ReadFile(path) //nolint:gosec // a state of ours
	return err == nil && !json.Valid(text), err
}

// pushOrSetAside saves a state that was not saved. When somebody else changed the stored one meanwhile, theirs is what counts, and the
// file must not block the workspace for ever.
func (w *Workspace) pushOrSetAside(ctx context.Context, i Installation, path string) error {
	text, err := w.readUnsaved(ctx, i, path)
	if err != nil {
		return err
	}
	state, err := parseState(text)
	if err != nil {
		return err
	}
	stored, err := w.pull(ctx, i)
	if err != nil {
		return err
	}
	// A reservation was stored before anything that is not saved. Where it is gone, another machine deleted what it was for; files
	// that are gone were lost.
	if gone := len(bytes.TrimSpace(stored.text)) == 0; gone && w.engine.files == nil {
		return w.setAside(path, state, stored.state)
	}
	if old, err := superseded(text, stored.text, state, stored.state); err != nil {
		return err
	} else if old {
		return w.setAside(path, state, stored.state)
	}
	if err := w.pushText(ctx, i, text); err != nil {
		return err
	}
	w.engine.logger.Info("saved the state of an earlier run", "workspace", w.name)
	return os.Remove(path)
}

// edition is what tells the versions of a state apart.
type edition struct {
	Lineage   string          `json:"lineage"`
	Serial    uint64          `json:"serial"`
	Resources json.RawMessage `json:"resources"`
}

// superseded tells whether the stored state is not the one that an unsaved state follows: it is newer, or of another lineage or
// reservation.
func superseded(unsaved, stored []byte, unsavedState, storedState *State) (bool, error) {
	if len(bytes.TrimSpace(stored)) == 0 {
		return false, nil
	}
	var ours, theirs edition
	if err := errors.Join(json.Unmarshal(unsaved, &ours), json.Unmarshal(stored, &theirs)); err != nil {
		return false, fmt.Errorf("reading state: %w", err)
	}
	if unsavedState != nil && storedState != nil && storedState.Nonce != "" && unsavedState.Nonce != storedState.Nonce {
		return true, nil
	}
	var a, b bytes.Buffer
	if err := errors.Join(compact(&a, ours.Resources), compact(&b, theirs.Resources)); err != nil {
		return false, fmt.Errorf("reading state: %w", err)
	}
	return ours.Lineage != theirs.Lineage || theirs.Serial > ours.Serial ||
		theirs.Serial == ours.Serial && !bytes.Equal(a.Bytes(), b.Bytes()), nil
}

func compact(to *bytes.Buffer, text json.RawMessage) error {
	if len(text) == 0 {
		return nil
	}
	return json.Compact(to, text)
}

// setAside moves a superseded state out of the way, for people to look at, and tells what only it knows.
func (w *Workspace) setAside(path string, unsaved, stored *State) error {
	name := fmt.Sprintf("superseded-%s-%d.tfstate", w.name, time.Now().UnixNano())
	kept := filepath.Join(w.engine.options.CacheDir, name)
	if err := errors.Join(os.Chmod(path, 0o600), os.Rename(path, kept)); err != nil {
		return err
	}
	only := []string{}
	if unsaved != nil {
		for _, address := range unsaved.instances {
			if stored == nil || !slices.Contains(stored.instances, address) {
				only = append(only, w.mask.Clean(address))
			}
		}
	}
	w.engine.logger.Warn("set aside a state that could not be saved: somebody else changed the stored one since",
		"workspace", w.name, "file", kept, "only_there", only)
	return nil
}
