package tofu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"service-adapter/internal/statestore"
)

// backUp keeps what the local backend stores, before a run that may write it. OpenTofu empties the file even where it changes nothing,
// and makes a backup only where it does.
func (w *Workspace) backUp() error {
	path := w.localState()
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator's directory
	if errors.Is(err, fs.ErrNotExist) || err == nil && !json.Valid(text) {
		return nil
	}
	if err == nil {
		err = writeFile(path+".backup", text)
	}
	if err != nil {
		return fmt.Errorf("keeping a copy of the state: %w", err)
	}
	return nil
}

// restoreBackup puts that copy in the place of a state that is cut off.
func (w *Workspace) restoreBackup(ctx context.Context) error {
	dir := w.engine.options.Backend.directory()
	if dir == "" {
		return nil
	}
	restored, err := statestore.Restore(ctx, dir, w.name)
	if err != nil {
		return fmt.Errorf("looking at the state: %w", err)
	}
	if restored {
		w.engine.logger.Warn("restored the state before the last change, which was not written to its end", "workspace", w.name)
	}
	return nil
}
