package binding

import (
	"context"
	"errors"
	"fmt"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tofu"
)

// Delete deletes a binding, whatever pak is installed by now. The error is fault.ErrBindingNotFound when there is none.
func (b *Binder) Delete(ctx context.Context, r Request) error {
	if r.BindingID == "" {
		return errNoID
	}
	ctx, cancel := lifecycle.WithBudget(ctx, b.Budget)
	defer cancel()
	err := b.delete(ctx, r)
	if !errors.Is(err, lifecycle.ErrNotStored) {
		return err
	}
	adopted, adoptErr := b.adopt(ctx, &r)
	switch {
	case adoptErr != nil:
		return fmt.Errorf("adopting binding %q: %w", r.BindingID, adoptErr)
	case adopted:
		return b.delete(ctx, r)
	default:
		return err
	}
}

// adopt creates a binding that another adapter made and nothing here remembers, where the definition asks for it.
func (b *Binder) adopt(ctx context.Context, r *Request) (bool, error) {
	if r.Service == nil || r.Service.Bind.Adopt == nil {
		return false, nil
	}
	_, scope, err := r.variables()
	if err != nil {
		return false, err
	}
	if holds, err := scope.Holds("bind.adopt", r.Service.Bind.Adopt); err != nil || !holds {
		return false, err
	}
	b.Logger.Info("taking over a binding that has no state, to delete it", "binding", r.BindingID)
	_, err = b.create(ctx, r, scope)
	return err == nil, err
}

// attempts is how often a deletion begins anew because another machine changed the same binding.
const attempts = 3

// delete deletes a binding that has a state; else the error is lifecycle.ErrNotStored as well.
func (b *Binder) delete(ctx context.Context, r Request) error {
	installation, err := b.Reader(ctx, r.Pak)
	if err != nil {
		return err
	}
	space, err := b.Engine.Open(ctx, lifecycle.Workspace(lifecycle.Binding, r.BindingID))
	if err != nil {
		return err
	}
	defer func() { b.Close(space) }()
	for range attempts {
		// Where another run has it by now, its creation ended meanwhile on another machine.
		if err = b.deleteStored(ctx, &r, space, installation); !errors.Is(err, tofu.ErrExists) {
			return err
		}
	}
	return err
}

// deleteStored deletes what the workspace holds by now. The error is tofu.ErrExists when another run changed that meanwhile.
func (b *Binder) deleteStored(ctx context.Context, r *Request, space *tofu.Workspace, installation opentofu.Installation) error {
	state, err := space.State(ctx, installation)
	if err != nil {
		return fmt.Errorf("looking up binding %q: %w", r.BindingID, err)
	}
	if state == nil {
		return fmt.Errorf("binding %q: %w: %w", r.BindingID, fault.ErrBindingNotFound, lifecycle.ErrNotStored)
	}
	record, err := lifecycle.DecodeRecord(state.Record)
	if err != nil {
		return fmt.Errorf("deleting binding %q: %w", r.BindingID, err)
	}
	if r.Found != nil {
		r.Found(record.Entry())
	}
	if err := b.destroy(ctx, r, space, state, record); err != nil {
		return fmt.Errorf("deleting binding %q: %w", r.BindingID, err)
	}
	return nil
}

// DeleteStored deletes a binding for an operator, who knows no instance: with the inputs that it was made with, in the given conditions only,
// or in any. The name of its workspace is an id, too. The error is lifecycle.ErrNotStored when there is none.
func (b *Binder) DeleteStored(ctx context.Context, id string, only ...lifecycle.Condition) (err error) {
	for range attempts {
		err = b.OnRecorded(ctx, lifecycle.Binding, id, only, func(ctx context.Context, h *lifecycle.Held) error {
			err := b.destroy(ctx, &Request{}, h.Space.Workspace, h.State, h.Record)
			if errors.Is(err, fault.ErrBindingNotFound) {
				return nil // its state is gone, and what it was about was gone before
			}
			return err
		})
		if !errors.Is(err, tofu.ErrExists) {
			return err
		}
	}
	return err
}

// destroy destroys what a state records, with the inputs as they are now. The error has the meaning that bind.errors gives it; that
// something did not exist any more is one only once nothing else is left.
func (b *Binder) destroy(ctx context.Context, r *Request, space *tofu.Workspace, state *statestore.State, record *lifecycle.Record) error {
	var rules []brokerpak.ErrorRule
	if service := b.Service(record); service != nil {
		rules = service.Bind.Errors
	}
	var notFound error
	err := b.Destroy(ctx, lifecycle.Destruction{
		Space: space, State: state, Record: record, Inputs: b.currentInputs(r, record),
		Gone: func(err error) bool {
			if meant := lifecycle.Meaning(err, rules, "destroy"); errors.Is(meant, fault.ErrBindingNotFound) {
				notFound = meant
				return true
			}
			return false
		},
	})
	if err == nil {
		return notFound
	}
	if meant := lifecycle.Meaning(err, rules, "destroy"); !errors.Is(meant, fault.ErrBindingNotFound) {
		return meant
	}
	return err // something is left
}

// currentInputs are the recorded inputs, with those that depend on the running instance as they are now. An operator's deletion knows
// no instance.
func (b *Binder) currentInputs(r *Request, record *lifecycle.Record) map[string]any {
	if len(record.Live) == 0 || r.Instance == nil {
		return record.Inputs
	}
	past := *r
	past.BindingID, past.ServiceID, past.PlanID, past.Body = record.BindingID, record.ServiceID, record.PlanID, record.Request
	past.past = record
	service := b.Service(record)
	if service == nil {
		service = &brokerpak.Service{} // the outputs that the manifest records are known all the same
	}
	details, err := r.Instance.Details(service, r.Environment)
	if err != nil {
		b.Logger.Warn("the instance's outputs are not known any more", "error", err)
	}
	scope := past.scope(details, vars.Generated(record.Generated))
	for _, err := range refresh(record, scope) {
		b.Logger.Warn("evaluating inputs for the deletion", "error", err)
	}
	return scope.Values
}
