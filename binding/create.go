package binding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/tofu"
)

// create reserves the workspace, applies the template and returns its outputs.
func (b *Binder) create(ctx context.Context, r *Request, scope *vars.Scope) (map[string]any, error) {
	began := time.Now()
	installation, err := b.Installation(ctx, r.Pak)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(ctx, began.Add(b.Budget))
	defer cancel()
	working, stop := context.WithDeadline(ctx, began.Add(b.Budget-b.Budget/rollbackShare-Grace(b.Budget)))
	defer stop()

	record := newRecord(r, scope, installation)
	encoded, err := record.encode()
	if err != nil {
		return nil, err
	}
	prepared, err := b.Engine.Prepare(working, installation, record.template())
	if err != nil {
		return nil, fmt.Errorf("preparing the bind template of service %q: %w", r.Service.Name, err)
	}
	space, err := b.Engine.Open(working, workspace(r.BindingID))
	if err != nil {
		return nil, err
	}
	defer func() { b.close(space) }()
	if err := b.reserve(working, r, space, installation, encoded); err != nil {
		return nil, err
	}
	if err := space.Apply(working, prepared, record.Inputs); err != nil {
		if wasKilled(err) {
			// The state may lack a resource that exists; delete-binding finishes the creation before it destroys.
			b.Logger.Warn("OpenTofu was killed; delete-binding will clear up", "binding", r.BindingID)
		} else {
			b.rollBack(ctx, space, installation, prepared, record)
		}
		return nil, fmt.Errorf("creating binding %q: %w", r.BindingID, err)
	}
	outputs, err := space.Outputs(working, prepared)
	if err != nil {
		b.rollBack(ctx, space, installation, prepared, record)
		return nil, fmt.Errorf("reading the outputs of binding %q: %w", r.BindingID, err)
	}
	return outputs, nil
}

// reserve makes the workspace this binding's own. What an interrupted creation of the same id left is destroyed first.
func (b *Binder) reserve(
	ctx context.Context, r *Request, space *tofu.Workspace, installation tofu.Installation, record []byte,
) error {
	err := space.Reserve(ctx, installation, record)
	if !errors.Is(err, tofu.ErrExists) {
		return err
	}
	state, err := space.State(ctx, installation)
	if err != nil {
		return err
	}
	if state != nil {
		if state.Complete {
			return fmt.Errorf("binding %q: %w", r.BindingID, fault.ErrBindingExists)
		}
		b.Logger.Warn("clearing up an interrupted creation of the same binding", "binding", r.BindingID)
		old, err := decodeRecord(state.Record)
		if err == nil {
			err = b.destroy(ctx, r, space, state, old)
		}
		if err != nil {
			return fmt.Errorf("clearing up an interrupted creation of binding %q: %w", r.BindingID, err)
		}
	}
	return space.Reserve(ctx, installation, record)
}

// wasKilled tells whether OpenTofu ended without the chance to save its state.
func wasKilled(err error) bool {
	var run *tofu.RunError
	return errors.As(err, &run) && run.ExitCode < 0
}

// rollBack destroys what a failed creation made, within what is left of the budget. What it cannot destroy stays recorded:
// delete-binding finds it. After a signal nothing more is started; the broker is being stopped.
func (b *Binder) rollBack(
	ctx context.Context, space *tofu.Workspace, installation tofu.Installation, prepared *tofu.Prepared, record *recorded,
) {
	if errors.Is(ctx.Err(), context.Canceled) {
		b.Logger.Warn("the creation was interrupted; delete-binding will clear up", "binding", record.BindingID)
		return
	}
	if err := space.Destroy(ctx, prepared, record.Inputs); err != nil {
		b.Logger.Error("destroying what a failed creation left; delete-binding will try again",
			"binding", record.BindingID, "error", err)
		return
	}
	if err := space.Remove(ctx, installation); err != nil {
		b.Logger.Error("removing the workspace of a failed creation", "binding", record.BindingID, "error", err)
	}
}

// close gives the workspace back. A failure only leaves files for the next run to find.
func (b *Binder) close(space *tofu.Workspace) {
	if err := space.Close(); err != nil {
		b.Logger.Warn("closing the workspace", "error", err)
	}
}
