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

// Delete deletes a binding within the budget: it destroys the resources in the state and removes the workspace. If the
// request has an Instance, the inputs that depend on the instance are evaluated again; ephemeral inputs are evaluated
// again in any case. The pak of the binding does not have to be installed, but the installed paks must contain an
// OpenTofu that can work on the state and the providers of the recorded template.
//
// Delete calls Request.ReportStored, if it is not nil, with the stored entry before it changes any resource of a
// stored binding, possibly more than once. If the creation was interrupted, Delete then applies the recorded template
// again before it destroys the resources, because the state may lack a resource that exists. If the binding has no
// state, the service definition may ask for its adoption, for which the request must have an Instance: Delete then
// applies the bind template to create a state, and deletes the binding as if it had been stored. If the deletion of
// the instance was begun and not finished, no binding is adopted.
//
// The error wraps fault.ErrBindingNotFound in these cases:
//   - The state backend has no such binding.
//   - According to bind.errors of the service definition, a resource of the binding no longer existed. All other
//     resources are destroyed and the workspace is removed then.
//   - An adoption fails, and bind.errors maps the failure to fault.ErrBindingNotFound.
//
// After any other error, Delete can be called again. If the binding has no state, and the state that the manifest
// records for the instance is missing as well, the state backend probably lost both. The error then does not wrap
// fault.ErrBindingNotFound. The same is true if the backend cannot be accessed to look up the state of the instance.
//
// The error wraps a *lifecycle.LostResourcesError if resources are in no state; an operator must search for them and
// remove by hand those that exist. If the state of the instance shows after an error that the deletion of the
// instance was begun and not finished, the error is wrapped in a *fault.UserError that asks the user to delete the
// instance again, unless it wraps fault.ErrBindingNotFound. It is also an error in these cases:
//   - The request has no BindingID.
//   - An adoption fails.
//   - The workspace cannot be opened, or the state or its record cannot be read.
//   - No installed pak has a usable OpenTofu, or none has a provider that the recorded template uses.
//   - A pak of the configuration cannot be read, and may be the one that the deletion needs.
//   - The request has MustEvaluate and an Instance, and an input cannot be evaluated again.
//   - An ephemeral variable that a provider block may read has no value.
//   - Other runs change the state during each of deleteAttempts attempts.
//   - OpenTofu fails, or ctx or the budget ends.
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

// deletesInstance reports whether the deletion of the binding's instance was begun and not finished, according to the
// stored state of the instance. It returns false if the request has no instance, if there is no state of the
// instance, if no apply of the instance was ever complete, or if the state cannot be read, for example because it is
// locked or ctx has ended. Reading may delete an empty workspace and restore an incomplete state file; see
// lifecycle.Manager.Lookup.
func (b *Binder) deletesInstance(ctx context.Context, r *Request) bool {
	if r.Instance == nil {
		return false
	}
	stored, err := b.Lookup(ctx, lifecycle.Instance, r.Instance.InstanceID())
	return err == nil && stored != nil && stored.Condition == lifecycle.Deleting
}

// adopt creates the state of a binding that another adapter created, by applying the bind template, so that the
// binding can be deleted. It logs that, and reports whether it did. It does nothing and returns no error if the
// request has no Service, if the service definition has no condition bind.adopt or the condition is false, or if the
// deletion of the instance was begun, which deletes the bindings first. If the service has bind.adopt, the request
// must have an Instance; adopt panics otherwise. r is not changed. adopt returns false and an error if the inputs or
// the condition cannot be evaluated, or if create fails.
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
	b.Logger.Info("adopting a binding without a state in order to delete it", "binding", r.BindingID)
	_, err = b.create(ctx, r, scope)
	return err == nil, err
}

// deleteAttempts is how often a deletion starts again because another machine changed the same binding meanwhile.
const deleteAttempts = 3

// delete opens the workspace of a stored binding and deletes the binding. Unlike Delete, it adopts no binding and does
// not check the instance. The error wraps lifecycle.ErrNotStored and fault.ErrBindingNotFound if the binding has no
// state. It wraps fault.ErrBindingNotFound alone if, according to bind.errors of the service definition, a resource no
// longer existed; all others are destroyed and the workspace is removed then.
//
// The error wraps workspace.ErrTakenOver if other runs changed the state during each of deleteAttempts attempts. It is
// also an error if no pak has a usable OpenTofu or if the workspace cannot be opened. The other errors are those of
// deleteStored.
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

// deleteStored reads the state of space, the open workspace of the binding, calls Request.ReportStored, unless it is
// nil, with the entry of the record, destroys all resources in the state and removes the workspace. If the creation was
// interrupted, it first applies the recorded template again; see destroy. If the request has an Instance, the inputs
// that depend on the instance are evaluated again; otherwise their recorded values are used. Ephemeral inputs are
// evaluated again in any case. The installation is the OpenTofu that accesses states which the adapter does not access
// itself.
//
// If the workspace has no state or an empty one, the error wraps lifecycle.ErrNotStored and fault.ErrBindingNotFound.
// If a resource no longer existed according to bind.errors of the service definition, the error wraps
// fault.ErrBindingNotFound, but not lifecycle.ErrNotStored; all other resources are then destroyed and the workspace is
// removed. After any other error the workspace usually remains, and the deletion can be repeated. The error wraps
// workspace.ErrTakenOver if another run changed the state meanwhile, and a *lifecycle.LostResourcesError if resources
// are in no state. It is also an error if the state or its record cannot be read, if the request has MustEvaluate and
// an Instance and an input cannot be evaluated again, or if OpenTofu fails; see lifecycle.Manager.Destroy for the
// others.
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
// evaluate them again. id is the binding id, or the name of the binding's workspace if that contains a hash instead of
// the id. The allowed conditions restrict the call; without any, every condition is allowed. See DeleteStoredWith for
// the time limit and the audit log.
//
// The error wraps lifecycle.ErrNotStored if the state backend has no such binding. It is also an error if the record
// cannot be read, if the condition is not allowed, or if the resources cannot be destroyed; see DeleteStoredWith for
// the other errors and for those that can be distinguished.
func (b *Binder) DeleteStored(ctx context.Context, id string, allowed ...lifecycle.Condition) error {
	recorded := func(context.Context, *lifecycle.StateRecord) (*Request, error) { return &Request{}, nil }
	return b.DeleteStoredWith(ctx, id, recorded, allowed...)
}

// DeleteStoredWith deletes a binding for an operator. id is the binding id, or the name of the binding's workspace if
// that contains a hash instead of the id. The function describe returns, for the record of the binding, the request
// of the deletion, which must not be nil, or an error. The Instance, Service, Plan, Environment, Defaults, Supplied
// and MustEvaluate of the request determine the inputs as for Delete, and the rest of it is not used. The allowed
// conditions restrict the call; without any, every condition is allowed.
//
// If another run changes the state meanwhile, the deletion is attempted again, up to deleteAttempts times in all. Each
// attempt calls describe, has the budget of the Manager, and is audited if the Manager has an Audit. An error of
// describe is returned before any resource or record is changed; only a state that an earlier run could not save has
// been saved then.
//
// The error wraps lifecycle.ErrNotStored if the state backend has no such binding, and a *lifecycle.LostResourcesError
// if resources are in no state. It wraps workspace.ErrTakenOver if other runs changed the state during each attempt. It
// is also an error if no installed pak has a usable OpenTofu, if the workspace cannot be opened, if the record cannot
// be read, if the condition is not allowed, if the request has MustEvaluate and an Instance and an input cannot be
// evaluated again, or if the resources cannot be destroyed; see lifecycle.Manager.Destroy for the reasons of the last
// one. A resource that no longer exists according to the service definition is not an error.
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

// destroy destroys all resources in state, the state of the open workspace space, with the inputs that currentInputs
// returns for the request, and removes the workspace. If the last apply may have been interrupted, it first applies the
// recorded template again; see lifecycle.Manager.Destroy. record is the decoded record in the state.
//
// The errors are those of lifecycle.Manager.Destroy, explained by bind.errors of the service definition if the service
// of the record is installed. The error wraps fault.ErrBindingNotFound only if, according to bind.errors, a resource no
// longer existed and all others are destroyed; the workspace is removed then as well. An error of currentInputs is
// returned before anything is changed.
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

// currentInputs returns the inputs for destroying a binding: the recorded inputs, in which the live ones, which depend
// on the running instance, and the ephemeral ones, which are never stored, are evaluated again. For an ephemeral input,
// a text in Supplied of the request takes precedence. If the request has no Instance, the live inputs keep their
// recorded values. inputs may be the map of the record itself, so the caller must not change it. unevaluated contains
// the errors of the ephemeral inputs that have no value, by name; it may be nil.
//
// If the request has MustEvaluate and an Instance, currentInputs returns the errors of evaluating live inputs and the
// recorded expressions of ephemeral ones as one error, joined by "; "; the inputs must not be used then. Otherwise it
// logs the errors of live inputs, which keep their recorded values, and err is nil. If the outputs of the instance
// cannot be determined, currentInputs logs that and evaluates the inputs without them; only if the request has
// MustEvaluate and a live input reads the outputs, it returns the error instead.
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

// joinInLine returns an error that wraps both errors and whose text is "FIRST; SECOND", without the line break that
// errors.Join would add. If first is nil, joinInLine returns second unchanged. second must not be nil.
func joinInLine(first, second error) error {
	if first == nil {
		return second
	}
	return fmt.Errorf("%w; %w", first, second)
}

// currentDetails returns the current outputs of the instance of the request, which must have one, by name. If they
// cannot be determined, it logs the error and returns nil and no error. If additionally the request has MustEvaluate
// and a live input of the record reads the outputs, currentDetails does not log the error but returns it.
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

// definitionScope returns a new scope in which the bind inputs of the installed service definition are resolved, with
// the plan and the operator's defaults but without parameters of the user. details are the outputs of the instance, and
// may be nil. Generated values are new ones and not those of a stored binding. Errors are ignored: an input that cannot
// be resolved keeps the value of an earlier layer or is missing in the Values of the scope, and a value that violates
// the constraints of its input stays there. definitionScope returns nil if the request has no Service. The request must
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

// Reevaluate evaluates the ephemeral inputs of a stored binding again, because their values are never stored. It
// returns their values and the errors of those that have none, both by the name of the input. values is an empty map
// if no input has a value, and failed is nil if all have one. record is the record of the binding and is not changed.
// r is the request of its deletion, as for DeleteStoredWith. If the request has an Instance, the inputs that depend
// on it are evaluated as well, because ephemeral ones may be computed from them; unless the request has MustEvaluate,
// their errors are only logged.
//
// If the request has MustEvaluate and an Instance, and an input that depends on the instance or the recorded expression
// of an ephemeral input cannot be evaluated, values is nil and failed contains only that error, under the name "".
func (b *Binder) Reevaluate(
	r *Request, record *lifecycle.StateRecord,
) (values map[string]any, failed map[string]error) {
	inputs, failed, err := b.currentInputs(r, record)
	if err != nil {
		return nil, map[string]error{"": err}
	}
	values = map[string]any{}
	for _, input := range record.Ephemeral {
		if item, ok := inputs[input.Name]; ok {
			values[input.Name] = item
		}
	}
	return values, failed
}
