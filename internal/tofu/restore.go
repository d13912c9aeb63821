package tofu

import (
	"context"
	"errors"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
)

// Restore stores a state of a backup, with its lineage, in a workspace that does not exist or is empty; else the error is ErrExists.
func (e *Engine) Restore(ctx context.Context, i opentofu.Installation, workspace string, state *statestore.State) (err error) {
	w, err := e.Open(ctx, workspace)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err = w.begin(ctx, i); err == nil {
		err = e.restore(ctx, i, w.states, state.Text)
	}
	if err != nil {
		err = w.failed("restoring", err)
	}
	return err
}

func (e *Engine) restore(ctx context.Context, i opentofu.Installation, s *states, text []byte) error {
	before, err := s.read(ctx, i)
	switch {
	case err != nil:
		return err
	case before.state != nil:
		return ErrExists
	}
	if before.direct && s.store != nil {
		err := s.replaceDirectly(ctx, before, text)
		if errors.Is(err, statestore.ErrChanged) {
			return ErrExists
		}
		if !errors.Is(err, statestore.ErrUnsupported) {
			return err
		}
	}
	if err := s.push(ctx, i, namedPlace, text); err != nil {
		return err
	}
	return s.keepCopy(ctx)
}
