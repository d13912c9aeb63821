package binding

import (
	"context"
	"errors"
	"fmt"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/tofu"
)

// Delete deletes a binding, whatever pak is installed by now. The error is fault.ErrBindingNotFound when there is none.
func (b *Binder) Delete(ctx context.Context, r Request) error {
	if r.BindingID == "" {
		return errNoID
	}
	ctx, cancel := context.WithTimeout(ctx, b.Budget)
	defer cancel()
	installation, err := b.Reader(ctx, r.Pak)
	if err != nil {
		return err
	}
	space, err := b.Engine.Open(ctx, lifecycle.Workspace(lifecycle.Binding, r.BindingID))
	if err != nil {
		return err
	}
	defer func() { b.Close(space) }()
	state, err := space.State(ctx, installation)
	if err != nil {
		return fmt.Errorf("looking up binding %q: %w", r.BindingID, err)
	}
	if state == nil {
		return fmt.Errorf("binding %q: %w", r.BindingID, fault.ErrBindingNotFound)
	}
	record, err := lifecycle.DecodeRecord(state.Record)
	if err != nil {
		return fmt.Errorf("deleting binding %q: %w", r.BindingID, err)
	}
	if err := b.destroy(ctx, &r, space, state, record); err != nil {
		return fmt.Errorf("deleting binding %q: %w", r.BindingID, err)
	}
	return nil
}

// destroy destroys what a state records, with the inputs as they are now. The error has the meaning that bind.errors gives it; that
// something did not exist any more is one only once nothing else is left.
func (b *Binder) destroy(ctx context.Context, r *Request, space *tofu.Workspace, state *tofu.State, record *lifecycle.Record) error {
	var rules []brokerpak.ErrorRule
	if service := b.Service(record); service != nil {
		rules = service.Bind.Errors
	}
	var notFound error
	err := b.Manager.Destroy(ctx, lifecycle.Destruction{
		Space: space, State: state, Record: record, Inputs: b.currentInputs(r, record),
		Gone: func(err error) bool {
			if meant := meaning("destroy", rules, err); errors.Is(meant, fault.ErrBindingNotFound) {
				notFound = meant
				return true
			}
			return false
		},
	})
	if err != nil {
		return meaning("destroy", rules, err)
	}
	return notFound
}

// currentInputs are the recorded inputs, with those that depend on the running instance as they are now.
func (b *Binder) currentInputs(r *Request, record *lifecycle.Record) map[string]any {
	if len(record.Live) == 0 {
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
