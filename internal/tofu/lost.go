package tofu

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
)

// LostError says that an apply made resources which are in no state: while it ran another run took over or removed the workspace, as
// happens when the database ends the session that has the lock. It is an ErrExists as well.
type LostError struct {
	// Resources are the addresses of what was made, or was being made at the end.
	Resources []string
}

// Error names the resources.
func (e *LostError) Error() string {
	return "another run changed the state while OpenTofu worked, and what was made is in no state: " + strings.Join(e.Resources, ", ")
}

// Unwrap returns ErrExists.
func (e *LostError) Unwrap() error { return ErrExists }

// lost returns what the last apply made and the stored state does not have: a *LostError, or nil when that is nothing.
func (w *Workspace) lost(stored *statestore.State) error {
	text, err := os.ReadFile(filepath.Join(w.dir, "apply.stdout"))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // nothing was applied
			w.engine.logger.Warn("looking what an apply made", "workspace", w.name, "error", err)
		}
		return nil
	}
	resources := w.beside(stored, opentofu.Created(text))
	if len(resources) == 0 {
		return nil
	}
	return &LostError{Resources: resources}
}

// beside returns which addresses of instances the stored state does not have, which may be nil. They show no secret.
func (s *session) beside(stored *statestore.State, addresses []string) []string {
	var others []string
	for _, address := range addresses {
		if stored == nil || !slices.Contains(stored.Instances, address) {
			others = append(others, s.mask.Clean(address))
		}
	}
	return others
}

// afterApply looks whose the workspace is after an apply that failed, within the grace even when the context has ended. The error is
// ErrExists when another run took it over, and a *LostError when something was made that is in no state. It tells as well whether the state
// could be read.
func (w *Workspace) afterApply(ctx context.Context, i opentofu.Installation) (known bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.engine.options.Grace)
	defer cancel()
	state, err := w.look(ctx, i)
	if err != nil {
		return false, err
	}
	if state != nil && (state.Nonce == w.nonce || state.Nonce == "") {
		return true, nil
	}
	err = w.lost(state)
	if err == nil && state != nil {
		err = ErrExists
	}
	if err != nil {
		w.disown()
		return true, w.failed("applying", err)
	}
	return true, nil
}
