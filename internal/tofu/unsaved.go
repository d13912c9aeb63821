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

	"service-adapter/internal/opentofu"

	"service-adapter/internal/statestore"
)

// pushUnsaved saves the errored.tfstate of an earlier run in the backend and removes it.
func (w *Workspace) pushUnsaved(ctx context.Context, i opentofu.Installation) error {
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
func (w *Workspace) pushOrSetAside(ctx context.Context, i opentofu.Installation, path string) error {
	text, err := w.readUnsaved(ctx, i, path)
	if err != nil {
		return err
	}
	state, err := statestore.Parse(text)
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
	if old, err := statestore.Superseded(text, stored.text, state, stored.state); err != nil {
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

// setAside moves a superseded state out of the way, for people to look at, and tells what only it knows.
func (w *Workspace) setAside(path string, unsaved, stored *statestore.State) error {
	name := fmt.Sprintf("superseded-%s-%d.tfstate", w.name, time.Now().UnixNano())
	kept := filepath.Join(w.engine.options.CacheDir, name)
	if err := errors.Join(os.Chmod(path, 0o600), os.Rename(path, kept)); err != nil {
		return err
	}
	only := []string{}
	if unsaved != nil {
		for _, address := range unsaved.Instances {
			if stored == nil || !slices.Contains(stored.Instances, address) {
				only = append(only, w.mask.Clean(address))
			}
		}
	}
	w.engine.logger.Warn("set aside a state that could not be saved: somebody else changed the stored one since",
		"workspace", w.name, "file", kept, "only_there", only)
	return nil
}
