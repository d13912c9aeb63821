package tofu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"service-adapter/internal/opentofu"

	"service-adapter/internal/statestore"
)

// pull looks at the stored state.
func (w *Workspace) pull(ctx context.Context, i opentofu.Installation) (found, error) {
	if now, ok, err := w.see(ctx, i); ok || err != nil {
		return now, err
	}
	if absent, err := w.absent(ctx); absent || err != nil {
		return found{absent: true}, err
	}
	text, err := w.runBase(ctx, i, lookPlace, nil, "state", "pull", "-no-color")
	if err != nil {
		return found{}, err
	}
	state, err := statestore.Parse(text)
	return found{text: text, state: state}, err
}

// existing returns the stored state, nil when there is none, and then no workspace exists afterwards.
func (w *Workspace) existing(ctx context.Context, i opentofu.Installation) (*statestore.State, error) {
	var err error
	for range mostChanges {
		now, lookErr := w.pull(ctx, i)
		if lookErr != nil || now.state != nil {
			return now.state, lookErr
		}
		err = w.discard(ctx, i, now)
		var failure *opentofu.Error
		contested := errors.Is(err, statestore.ErrChanged) || errors.As(err, &failure) && failure.Backend == ""
		if !contested || isLocked(err) || ctx.Err() != nil {
			return nil, err
		}
		// Somebody reserved it in this moment, or deleted it first.
	}
	return nil, err
}

// discard deletes a workspace that was found empty; to have OpenTofu look at one creates it. The error is statestore.ErrChanged when
// that is over.
func (w *Workspace) discard(ctx context.Context, i opentofu.Installation, empty found) error {
	if empty.absent {
		return w.whileHeld(ctx, func() error { return w.engine.files.Delete(ctx, w.name, nil) })
	}
	if !empty.direct {
		return w.deleteWorkspace(ctx, i)
	}
	err := w.erase(ctx, empty)
	if err == nil || errors.Is(err, statestore.ErrChanged) || isLocked(err) || ctx.Err() != nil {
		return err
	}
	w.distrust(ctx, err)
	return w.deleteWorkspace(ctx, i)
}

// remove deletes the workspace when it holds nothing but the guard, and holds what was looked at.
func (w *Workspace) remove(ctx context.Context, i opentofu.Installation) error {
	now, err := w.pull(ctx, i)
	switch state := now.state; {
	case err != nil:
		return err
	case state == nil:
		err = w.discard(ctx, i, now)
	case opentofu.Older(i.Version, state.TofuVersion):
		return newerState(state.TofuVersion, i)
	case state.Nonce != "" && state.Nonce != w.nonce:
		return ErrExists
	case len(state.Resources) > 0:
		return fmt.Errorf("%w: it holds %s", ErrNotEmpty, strings.Join(state.Resources, ", "))
	case !now.direct:
		return w.removeSlowly(ctx, i, now)
	default:
		err = w.erase(ctx, now)
	}
	switch {
	case errors.Is(err, statestore.ErrChanged):
		return w.takenOrGone(ctx, i)
	case err == nil || isLocked(err) || ctx.Err() != nil || !now.direct:
		return err
	default:
		// Perhaps it was deleted all the same; if not, OpenTofu tries.
		w.distrust(ctx, err)
		return w.remove(ctx, i)
	}
}

// takenOrGone looks what became of a workspace that somebody else changed: ErrExists unless it is empty by now.
func (w *Workspace) takenOrGone(ctx context.Context, i opentofu.Installation) error {
	if now, err := w.pull(ctx, i); err != nil || now.state != nil {
		return errors.Join(ErrExists, err)
	}
	return nil
}

// removeSlowly has OpenTofu drop the guard by a push that is refused when anything was changed since the look, and then delete the
// empty workspace, which OpenTofu refuses when somebody made something in it. Forced, it would delete what was made while it waited
// for the lock.
func (w *Workspace) removeSlowly(ctx context.Context, i opentofu.Installation, now found) error {
	empty, err := statestore.WithoutContent(now.text)
	if err != nil {
		return err
	}
	if err := w.swap(ctx, i, now, empty, func(now *statestore.State) bool { return now == nil }); err != nil {
		return err
	}
	if err := w.deleteWorkspace(ctx, i); err != nil {
		now, lookErr := w.pull(ctx, i)
		switch {
		case lookErr != nil:
			return err
		case now.state == nil:
			return w.deleteWorkspace(ctx, i) // Somebody made something in it and removed it again.
		}
		// Somebody reserved it since it was empty: what was ours is gone.
	}
	return nil
}

// deleteWorkspace has OpenTofu delete the workspace; one that somebody else deleted first is fine. OpenTofu looks under the state's lock
// whether it is empty, but gives the lock back right before it deletes. Whoever reserves an empty workspace in that moment
// loses the guard; the apply that follows makes it anew with the same nonce and record, so it does no harm unless that apply
// ends within the moment as well, the time between two requests to the backend.
func (w *Workspace) deleteWorkspace(ctx context.Context, i opentofu.Installation) error {
	_, err := w.runBase(ctx, i, outsidePlace, nil, "workspace", "delete", "-no-color", w.name)
	var failure *opentofu.Error
	if errors.As(err, &failure) && failure.Backend == "" && ctx.Err() == nil {
		if names, listErr := w.list(ctx, i); listErr == nil && !slices.Contains(names, w.name) {
			return nil
		}
	}
	return err
}

func isLocked(err error) bool {
	var held *LockError
	return errors.As(err, &held)
}
