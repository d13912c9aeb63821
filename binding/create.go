package binding

import (
	"context"
	"errors"
	"fmt"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/workspace"
	"service-adapter/internal/fault"
	"service-adapter/internal/vars"
)

// create reserves the workspace of the binding (see reserve), applies the bind template with the inputs of the scope
// and returns the outputs of the template, within the budget of the Manager. It registers the values of ephemeral
// inputs for masking. After an error the outputs are nil. See Create for the errors, of which create returns those
// that follow the checks of the request.
//
// If create fails after the reservation, it destroys the resources and removes the workspace; it logs an error of
// this rollback. There is no rollback if OpenTofu was killed during the apply, if the broker interrupted the command,
// or if the apply returned a *lifecycle.LostResourcesError, which names resources that are in no state. Without a
// rollback, or after a failed one, the resources in the state stay there for a later deletion. If another run owns
// the workspace, the resources are left to that run. If the reservation itself fails, the workspace may stay
// reserved, without resources of this run.
func (b *Binder) create(ctx context.Context, r *Request, scope *vars.Scope) (map[string]any, error) {
	workCtx, ctx, cancel := b.Deadlines(ctx)
	defer cancel()
	installation, err := b.Installation(workCtx, r.Pak, "")
	if err != nil {
		return nil, err
	}

	record := newRecord(r, scope, installation)
	record.MaskEphemeral(b.Secrets, record.Inputs)
	encoded, err := record.Encode(b.AdapterVersion)
	if err != nil {
		return nil, err
	}
	prepared, err := b.Engine.Prepare(workCtx, installation, record.Template())
	if err != nil {
		return nil, fmt.Errorf("preparing the bind template of service %q: %w", r.Service.Name, err)
	}
	space, err := b.Engine.Open(workCtx, lifecycle.Workspace(lifecycle.Binding, r.BindingID))
	if err != nil {
		return nil, err
	}
	defer func() { b.Close(space) }()
	space.StartProviders(workCtx, prepared)
	if err := b.reserve(workCtx, r, space, installation, encoded); err != nil {
		return nil, err
	}
	step := "creating"
	var outputs map[string]any
	err = b.ApplyRecord(workCtx, space, prepared, record)
	applied := err == nil
	if applied {
		outputs, err = space.Outputs(workCtx, prepared)
	}
	switch {
	case err == nil:
		return outputs, nil
	case lifecycle.IsLost(err):
		return nil, fmt.Errorf("creating binding %q: %w", r.BindingID, err)
	case errors.Is(err, workspace.ErrTakenOver):
		// Another run took over the workspace after it was reserved, and owns all resources that this run created.
		err = fmt.Errorf("%w: %w", fault.ErrBindingExists, err)
	case !applied && lifecycle.WasKilled(err):
		// The state may lack a resource that exists; delete-binding finishes the creation before it destroys.
		b.Logger.Warn("OpenTofu was killed; delete-binding will destroy the resources that it created",
			"binding", r.BindingID)
	default:
		if lost := b.RollBack(ctx, space, prepared, record, err); lost != nil {
			return nil, fmt.Errorf("creating binding %q: %w; %w", r.BindingID, err, lost)
		}
		if applied {
			step = "reading the outputs of"
		}
	}
	err = fmt.Errorf("%s binding %q: %w", step, r.BindingID, err)
	return nil, lifecycle.ExplainError(err, r.Service.Bind.Errors, "apply")
}

// reserve reserves space, the open workspace of the binding, by storing its first state with record, the encoded record
// of the binding. The installation is the OpenTofu that accesses states which the adapter does not access itself. If
// the workspace contains a binding with the same id that is not complete, such as an interrupted creation, reserve logs
// a warning and destroys that binding first, with inputs that are evaluated again for the request r.
//
// The error wraps fault.ErrBindingExists if a complete binding with this id exists, or if another run creates one.
// Other errors are those of reading and writing the state, of decoding the record of the incomplete binding, and of the
// destruction. After an error of writing the state, it may be stored nevertheless.
func (b *Binder) reserve(
	ctx context.Context, r *Request, space *workspace.Workspace, installation opentofu.Installation, record []byte,
) error {
	err := space.Reserve(ctx, installation, record)
	if !errors.Is(err, workspace.ErrExists) {
		return err
	}
	state, err := space.State(ctx, installation)
	if err != nil {
		return err
	}
	if state != nil {
		if state.Complete {
			return fmt.Errorf("binding %q: %w: its creation is complete. If its credentials were never delivered, "+
				"the adapter was killed after the creation: an unbind deletes the binding, and the id can then be "+
				"used again", r.BindingID, fault.ErrBindingExists)
		}
		b.Logger.Warn("undoing an interrupted creation of the same binding", "binding", r.BindingID)
		previous, err := lifecycle.DecodeRecord(state.Record)
		if err == nil {
			err = b.destroy(ctx, r, space, state, previous)
		}
		if errors.Is(err, workspace.ErrTakenOver) {
			// The creation was not interrupted; another machine is working on it.
			return fmt.Errorf("%w: %w", fault.ErrBindingExists, err)
		}
		if err != nil && !errors.Is(err, fault.ErrBindingNotFound) {
			return fmt.Errorf("undoing an interrupted creation of binding %q: %w", r.BindingID, err)
		}
	}
	if err = space.Reserve(ctx, installation, record); errors.Is(err, workspace.ErrExists) {
		return fmt.Errorf("%w: %w", fault.ErrBindingExists, err)
	}
	return err
}
