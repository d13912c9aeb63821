package binding

import (
	"context"
	"errors"
	"fmt"

	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/tofu"
)

// create reserves the workspace, applies the template and returns its outputs.
func (b *Binder) create(ctx context.Context, r *Request, scope *vars.Scope) (map[string]any, error) {
	working, ctx, cancel := b.Deadlines(ctx)
	defer cancel()
	installation, err := b.Installation(working, r.Pak, "")
	if err != nil {
		return nil, err
	}

	record := newRecord(r, scope, installation)
	encoded, err := record.Encode()
	if err != nil {
		return nil, err
	}
	prepared, err := b.Engine.Prepare(working, installation, record.Template())
	if err != nil {
		return nil, fmt.Errorf("preparing the bind template of service %q: %w", r.Service.Name, err)
	}
	space, err := b.Engine.Open(working, lifecycle.Workspace(lifecycle.Binding, r.BindingID))
	if err != nil {
		return nil, err
	}
	defer func() { b.Close(space) }()
	space.StartProviders(working, prepared)
	if err := b.reserve(working, r, space, installation, encoded); err != nil {
		return nil, err
	}
	doing := "creating"
	var outputs map[string]any
	err = space.Apply(working, prepared, record.Inputs)
	applied := err == nil
	if applied {
		outputs, err = space.Outputs(working, prepared)
	}
	switch {
	case err == nil:
		return outputs, nil
	case b.KeepLost(ctx, space, installation, record, err):
	case errors.Is(err, tofu.ErrExists):
		// Another run took the workspace since we reserved it; nothing in it is ours.
		err = fmt.Errorf("%w: %w", fault.ErrBindingExists, err)
	case !applied && lifecycle.WasKilled(err):
		// The state may lack a resource that exists; delete-binding finishes the creation before it destroys.
		b.Logger.Warn("OpenTofu was killed; delete-binding will clear up", "binding", r.BindingID)
	default:
		b.RollBack(ctx, space, installation, prepared, record)
		if applied {
			doing = "reading the outputs of"
		}
	}
	return nil, lifecycle.Meaning(fmt.Errorf("%s binding %q: %w", doing, r.BindingID, err), r.Service.Bind.Errors, "apply")
}

// reserve makes the workspace this binding's own. What an interrupted creation of the same id left is destroyed first.
func (b *Binder) reserve(
	ctx context.Context, r *Request, space *tofu.Workspace, installation opentofu.Installation, record []byte,
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
			return fmt.Errorf("binding %q: %w: it was made completely. If nobody got its credentials, the adapter was killed after it had made it; "+
				"an unbind deletes it, and after that the id can be used", r.BindingID, fault.ErrBindingExists)
		}
		b.Logger.Warn("clearing up an interrupted creation of the same binding", "binding", r.BindingID)
		old, err := lifecycle.DecodeRecord(state.Record)
		if err == nil {
			err = b.destroy(ctx, r, space, state, old)
		}
		if errors.Is(err, tofu.ErrExists) {
			// It was not interrupted: another machine works on it.
			return fmt.Errorf("%w: %w", fault.ErrBindingExists, err)
		}
		if err != nil && !errors.Is(err, fault.ErrBindingNotFound) {
			return fmt.Errorf("clearing up an interrupted creation of binding %q: %w", r.BindingID, err)
		}
	}
	if err = space.Reserve(ctx, installation, record); errors.Is(err, tofu.ErrExists) {
		return fmt.Errorf("%w: %w", fault.ErrBindingExists, err)
	}
	return err
}
