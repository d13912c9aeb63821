package binding

import (
	"context"
	"errors"
	"fmt"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/workspace"
	"service-adapter/internal/fault"
	"service-adapter/internal/instance"
	"service-adapter/internal/vars"
)

// Delete deletes a binding within the budget, whichever paks are installed. It destroys the resources in the state,
// with the inputs that depend on the instance evaluated again. A binding without a state is first adopted if the
// service definition asks for it.
//
// The error wraps fault.ErrBindingNotFound if the state backend has no such binding, or if, according to the service
// definition, a resource of the binding no longer existed, after all others were destroyed. If the backend has no state
// of the instance either, Delete returns another error; see checkInstanceState. If the deletion of the instance was
// begun and not finished, nothing is adopted, and any error but fault.ErrBindingNotFound is wrapped in a
// *fault.UserError that asks the user to finish it. The error wraps a *lifecycle.LostResourcesError if resources are in
// no state. It is also an error if the request has no BindingID. After other errors, Delete can be called again.
func (b *Binder) Delete(ctx context.Context, r Request) error {
	if r.BindingID == "" {
		return errNoID
	}
	ctx, cancel := lifecycle.WithBudget(ctx, b.Budget)
	defer cancel()
	err := b.delete(ctx, r)
	if !errors.Is(err, lifecycle.ErrNotStored) {
		if err != nil && !errors.Is(err, fault.ErrBindingNotFound) && b.deletesInstance(ctx, &r) {
			return &fault.UserError{Message: lifecycle.UnfinishedDeletion, Err: err}
		}
		return err
	}
	if lost := b.checkInstanceState(ctx, &r); lost != nil {
		return lost
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

// deletesInstance reports whether the deletion of the binding's instance was begun and not finished. It returns false
// if the request has no instance, or if the condition of the instance cannot be read.
func (b *Binder) deletesInstance(ctx context.Context, r *Request) bool {
	if r.Instance == nil {
		return false
	}
	stored, err := b.Lookup(ctx, lifecycle.Instance, r.Instance.InstanceID())
	return err == nil && stored != nil && stored.Condition == lifecycle.Deleting
}

// adopt creates the state of a binding that another adapter created, by applying the bind template, so that the binding
// can be deleted. It logs that, and reports whether it did. It does nothing and returns no error if the request has no
// Service, if the service definition has no condition bind.adopt or the condition is false, or if the deletion of the
// instance was begun, which deletes the bindings first. A service with bind.adopt requires an Instance in the request.
// The errors are those of evaluating the inputs and the condition, and of create.
func (b *Binder) adopt(ctx context.Context, r *Request) (bool, error) {
	if r.Service == nil || r.Service.Bind.Adopt == nil || b.deletesInstance(ctx, r) {
		return false, nil
	}
	_, scope, err := r.resolveVariables()
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

// deleteAttempts is how often a deletion starts again because another machine changed the same binding meanwhile.
const deleteAttempts = 3

// delete opens the workspace of a binding and deletes the binding. The error wraps lifecycle.ErrNotStored and
// fault.ErrBindingNotFound if the binding has no state, and workspace.ErrTakenOver if other runs changed the state
// during each of deleteAttempts attempts. It is also an error if no pak has a usable OpenTofu or the workspace cannot
// be opened. The other errors are those of deleteStored.
func (b *Binder) delete(ctx context.Context, r Request) error {
	installation, err := b.StateReader(ctx, r.Pak)
	if err != nil {
		return err
	}
	space, err := b.Engine.Open(ctx, lifecycle.Workspace(lifecycle.Binding, r.BindingID))
	if err != nil {
		return err
	}
	defer func() { b.Close(space) }()
	for range deleteAttempts {
		// If another run owns the workspace, a creation ended on another machine meanwhile.
		if err = b.deleteStored(ctx, &r, space, installation); !errors.Is(err, workspace.ErrTakenOver) {
			return err
		}
	}
	return err
}

// deleteStored reads the state of the open workspace using the installation where the adapter does not access states
// itself, calls Request.ReportStored and deletes the binding in the state. The error wraps workspace.ErrTakenOver if
// another run changed the state meanwhile. See delete for a missing state. It is also an error if the state or its
// record cannot be read. The other errors are those of destroy.
func (b *Binder) deleteStored(
	ctx context.Context, r *Request, space *workspace.Workspace, installation opentofu.Installation,
) error {
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
	if r.ReportStored != nil {
		r.ReportStored(record.Entry())
	}
	if err := b.destroy(ctx, r, space, state, record); err != nil {
		return fmt.Errorf("deleting binding %q: %w", r.BindingID, err)
	}
	return nil
}

// DeleteStored deletes a binding for an operator, with the recorded inputs, because no instance is available to
// evaluate them again. See DeleteStoredWith for the id, the allowed conditions and the errors.
func (b *Binder) DeleteStored(ctx context.Context, id string, allowed ...lifecycle.Condition) error {
	recorded := func(context.Context, *lifecycle.StateRecord) (*Request, error) { return &Request{}, nil }
	return b.DeleteStoredWith(ctx, id, recorded, allowed...)
}

// DeleteStoredWith deletes a binding for an operator. The function describe returns the request of the deletion for the
// record of the binding; its Instance, Service, Plan, Environment, Defaults, Supplied and MustEvaluate determine the
// inputs as for Delete, and the rest of it is not used. describe is called again if another run changed the state
// meanwhile; its error ends the deletion before anything is changed. See lifecycle.Manager.Lookup for the workspace
// names that are accepted as the id. The allowed conditions restrict the call; without any, every condition is allowed.
//
// The error wraps lifecycle.ErrNotStored if the state backend has no such binding, and a *lifecycle.LostResourcesError
// if resources are in no state. It wraps workspace.ErrTakenOver if other runs changed the state during each of
// deleteAttempts attempts. It is also an error if the record cannot be read, if the condition is not allowed, or if the
// resources cannot be destroyed. A resource that no longer exists according to the service definition is not an error.
func (b *Binder) DeleteStoredWith(
	ctx context.Context, id string, describe func(context.Context, *lifecycle.StateRecord) (*Request, error),
	allowed ...lifecycle.Condition,
) (err error) {
	for range deleteAttempts {
		destroy := func(ctx context.Context, space *workspace.Workspace, stored *lifecycle.Stored) error {
			request, err := describe(ctx, stored.Record)
			if err != nil {
				return err
			}
			err = b.destroy(ctx, request, space, stored.State, stored.Record)
			if errors.Is(err, fault.ErrBindingNotFound) {
				return nil // its state is removed, and its resources no longer existed
			}
			return err
		}
		err = b.ChangeRecorded(ctx, lifecycle.Binding, id, allowed, destroy)
		if !errors.Is(err, workspace.ErrTakenOver) {
			return err
		}
	}
	return err
}

// destroy destroys all resources in the state of the open workspace, with the inputs that currentInputs returns for the
// request, and removes the workspace. The errors are those of lifecycle.Manager.Destroy, explained by bind.errors of
// the service definition. The error wraps fault.ErrBindingNotFound only if a resource no longer existed and all others
// are destroyed. An error of currentInputs is returned before anything is changed.
func (b *Binder) destroy(
	ctx context.Context, r *Request, space *workspace.Workspace, state *statestore.State, record *lifecycle.StateRecord,
) error {
	inputs, unevaluated, err := b.currentInputs(r, record)
	if err != nil {
		return err
	}
	var rules []brokerpak.ErrorRule
	if service := b.Service(record); service != nil {
		rules = service.Bind.Errors
	}
	var notFound error
	err = b.Destroy(ctx, lifecycle.Destruction{
		Space: space, State: state, Record: record, Inputs: inputs, Unevaluated: unevaluated,
		ReportsMissing: func(err error) bool {
			explained := lifecycle.ExplainError(err, rules, "destroy")
			if !errors.Is(explained, fault.ErrBindingNotFound) {
				return false
			}
			notFound = explained
			return true
		},
	})
	if err == nil {
		return notFound
	}
	if explained := lifecycle.ExplainError(err, rules, "destroy"); !errors.Is(explained, fault.ErrBindingNotFound) {
		return explained
	}
	return err // some resources still exist
}

// currentInputs returns the recorded inputs, with the live ones evaluated again against the running instance, and the
// ephemeral ones evaluated again. If the request has no Instance, the live inputs keep their recorded values.
// unevaluated contains the errors of the ephemeral inputs that have no value, by name; it may be nil.
//
// If the request has MustEvaluate, currentInputs returns the errors of evaluating inputs that depend on the instance as
// one error; the inputs must not be used then. Otherwise it logs the errors, and uses the recorded values. The same
// applies if the outputs of the instance cannot be determined, but with MustEvaluate that is an error only if a live
// input reads them.
func (b *Binder) currentInputs(
	r *Request, record *lifecycle.StateRecord,
) (inputs map[string]any, unevaluated map[string]error, err error) {
	if len(record.Live)+len(record.Ephemeral) == 0 || r.Instance == nil && len(record.Ephemeral) == 0 {
		return record.Inputs, nil, nil
	}
	request := *r
	request.BindingID, request.ServiceID, request.PlanID = record.BindingID, record.ServiceID, record.PlanID
	request.Body = record.Request
	request.recorded = record
	var details map[string]any
	if r.Instance == nil {
		request.Instance = &instance.View{} // expressions that depend on it cannot be evaluated
	} else if details, err = b.currentDetails(r, record); err != nil {
		return nil, nil, err
	}
	scope := request.scope(details, vars.Generated(record.Generated))
	scope.Set("record", record.Inputs)
	evaluation := lifecycle.Evaluation{
		Scope: scope, Definition: request.definitionScope(details), Supplied: r.Supplied,
		WithoutInstance: r.Instance == nil,
	}
	unevaluated = evaluation.Evaluate(record)
	if r.Instance == nil {
		return scope.Values, unevaluated, nil
	}
	var failed error
	for _, err := range refreshInputs(record, scope) {
		if r.MustEvaluate {
			failed = joinInLine(failed, err)
		} else {
			b.Logger.Warn("evaluating inputs for the deletion: an input keeps its recorded value", "error", err)
		}
	}
	if len(record.Live) > 0 { // ephemeral inputs may be computed from them
		unevaluated = evaluation.Evaluate(record)
	}
	for _, input := range record.Ephemeral {
		if err := unevaluated[input.Name]; err != nil && r.MustEvaluate && input.Expr != "" {
			failed = joinInLine(failed, fmt.Errorf("input %q cannot be evaluated: %w", input.Name, err))
		}
	}
	return scope.Values, unevaluated, failed
}

// joinInLine returns an error that wraps both errors and has one line, unlike errors.Join. first may be nil.
func joinInLine(first, second error) error {
	if first == nil {
		return second
	}
	return fmt.Errorf("%w; %w", first, second)
}

// currentDetails returns the outputs of the instance of the request, which must have one. If they cannot be determined,
// it logs the error and returns nil, unless the request has MustEvaluate and a live input of the record reads them; it
// then returns the error.
func (b *Binder) currentDetails(r *Request, record *lifecycle.StateRecord) (map[string]any, error) {
	service := b.Service(record)
	if service == nil {
		service = &brokerpak.Service{} // the outputs in the manifest are available without it
	}
	details, err := r.Instance.Details(service, r.Environment)
	if err != nil && r.MustEvaluate && readsDetails(record) {
		return nil, err
	} else if err != nil {
		b.Logger.Warn("the instance's outputs are not available", "error", err)
	}
	return details, nil
}

// definitionScope returns a scope in which the inputs of the installed definition are resolved, without parameters of
// the user. Inputs that cannot be resolved are missing. It returns nil if the request has no Service. The request must
// have an Instance.
func (r *Request) definitionScope(details map[string]any) *vars.Scope {
	if r.Service == nil {
		return nil
	}
	scope := r.scope(details, nil)
	bind := vars.Bind{Service: r.Service, Plan: r.Plan, Defaults: r.Defaults}
	_ = bind.Resolve(scope) // expressions may need parameters
	return scope
}

// Reevaluate evaluates the ephemeral inputs of a stored binding again, and returns their values and the errors of those
// that have none. The request must be that of a deletion; see DeleteStoredWith.
func (b *Binder) Reevaluate(
	r *Request, record *lifecycle.StateRecord,
) (values map[string]any, failed map[string]error) {
	inputs, failed, err := b.currentInputs(r, record)
	if err != nil {
		return nil, map[string]error{"": err}
	}
	values = map[string]any{}
	for _, input := range record.Ephemeral {
		if item, known := inputs[input.Name]; known {
			values[input.Name] = item
		}
	}
	return values, failed
}
