package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"service-adapter/adapter/session"
	"service-adapter/binding"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/fault"
	"service-adapter/internal/record"
)

// createBinding executes the command create-binding and returns the created binding, or nil and an error. request is
// the decoded input, whose Instance must not be nil; createBinding sets the fields that the broker does not send, such
// as the service and the plan, and registers the secrets of the request and of the instance for masking. size is the
// size of the request's body in bytes. The begin and the result of the command are written to the audit log, also if
// the request is rejected.
//
// These errors occur before a resource is created:
//
//   - The error is a *fault.UserError if the body is larger than the configuration allows, if its parameters are not an
//     object, if the state of the instance shows that its deletion was begun and not finished, or if an errand applies
//     the provision template of the instance and no apply was ever complete.
//   - It is another error of session.Session.CompleteBind if the request cannot be completed, for example because no
//     service can be chosen.
//   - It is that of session.Session.Manager if the manager of OpenTofu cannot be created, for example because an
//     environment variable that the pak requires is missing.
//   - It is that of lifecycle.Manager.AppliedOutputs if the outputs that an errand applied cannot be read.
//
// All other errors are those of binding.Binder.Create, such as fault.ErrBindingExists, or the error that the budget of
// the configuration ended. See there for the resources that may remain after an error.
func (e *execution) createBinding(
	ctx context.Context, request *binding.Request, size int,
) (created *binding.Binding, err error) {
	complete := func() error { return e.session.CompleteBind(request, size) }
	err = e.changeBinding(ctx, request, complete, func(ctx context.Context, binder *binding.Binder) error {
		condition, err := e.session.ReadApplied(ctx, binder.Manager, request, true)
		if err := cmp.Or(condition.CheckUsable(), err); err != nil {
			return err
		}
		created, err = binder.Create(ctx, *request)
		return err
	})
	return created, err
}

// changeBinding calls complete, which sets the fields of the request that the broker does not send, and then change,
// and returns the error of change. request must be the request that complete sets and change uses; changeBinding sets
// its ReportStored, so that the audit log describes the stored binding. The context of change ends with ctx, with the
// budget of the configuration, or with the first signal that Invocation.Interruptible handles. change gets a new
// Binder.
//
// changeBinding returns an error without calling change if complete fails, whose error it returns unchanged, or if
// session.Session.Manager fails, for example because an environment variable that the pak requires is missing. The
// begin and the result are written to the audit log then as well. An event that cannot be written is only logged, and
// does not change the result.
func (e *execution) changeBinding(
	ctx context.Context, request *binding.Request, complete func() error,
	change func(context.Context, *binding.Binder) error,
) error {
	completeErr := complete() // before bindingEntry, which needs the service that complete chooses
	return e.session.Audited(ctx, bindingEntry(request), func(reportStored func(lifecycle.Entry)) error {
		if completeErr != nil {
			return completeErr
		}
		manager, err := e.session.Manager(request.Pak)
		if err != nil {
			return err
		}
		ctx, cancel := lifecycle.WithBudget(e.session.Interruptible(ctx), e.session.Config.Budget)
		defer cancel()
		request.ReportStored = reportStored
		return change(ctx, &binding.Binder{Manager: manager})
	})
}

// deleteBinding executes the command delete-binding within the budget of the configuration, and writes its begin and
// result to the audit log. request is the decoded input, whose Instance must not be nil; deleteBinding sets the fields
// that the broker does not send, as far as they can be determined, and registers the secrets of the instance for
// masking.
//
// deleteBinding returns the errors of binding.Binder.Delete, of which fault.ErrBindingNotFound means that no state is
// stored for the binding, that a resource of it no longer existed, or that bind.errors explains the failure of an
// adoption in this way. If no state is stored, there are two exceptions: the error is fault.ErrNotImplemented if the
// service has no bind section, and an error that wraps neither of the two if the service cannot be determined and a pak
// cannot be read, because the service may be in that pak.
//
// deleteBinding also returns an error if the manifest of the instance is not a YAML
// mapping or if the manager of OpenTofu cannot be created (see session.Session.Manager). These faults are only
// logged: a record that cannot be decoded, a service that cannot be determined, invalid defaults of the operator, and
// outputs of the instance that cannot be read, unless an adoption of the binding needs them. A missing directory of
// the local state backend is logged as well; no state is stored for the binding then.
func (e *execution) deleteBinding(ctx context.Context, request *binding.Request) error {
	complete := func() error {
		err := e.session.CompleteUnbind(request)
		// The answer will be that the binding does not exist. That is correct on a machine that has never created a
		// binding, and wrong after an incomplete restore.
		if unused := e.session.Config.Backend().CheckExists(); err == nil && unused != nil {
			e.session.Logger.Warn("looking up a binding in a state backend that has never stored one",
				"binding", request.BindingID, "error", unused)
		}
		return err
	}
	return e.changeBinding(ctx, request, complete, func(ctx context.Context, binder *binding.Binder) error {
		if _, err := e.session.ReadApplied(ctx, binder.Manager, request, false); err != nil {
			e.session.Logger.Warn("the outputs of the instance are not available", "error", err)
		}
		err := binder.Delete(ctx, *request)
		absent := errors.Is(err, lifecycle.ErrNotStored)
		if unreadable := e.session.Catalog.UnreadableError(); unreadable != nil && request.Service == nil && absent {
			// A service of the unreadable pak may adopt bindings that another adapter created.
			return fmt.Errorf("binding %q has no state, and its service cannot be determined: %w",
				request.BindingID, unreadable)
		}
		if request.Service != nil && !request.Service.Binds() && absent {
			return fmt.Errorf("service %q has no bind section: %w", request.Service.Name, fault.ErrNotImplemented)
		}
		return err
	})
}

// bindingEntry returns the entry of the audit log for a request that concerns a binding: the binding id, the app, space
// and organization that the body names, the instance id, the names of the service and plan, the name and version of the
// pak, and the version of its default OpenTofu, if it has one. If request.Service is nil, because the request could not
// be completed or its service not be determined, the entry has no instance, service, plan, pak and OpenTofu. Otherwise
// request.Instance and request.Pak must not be nil.
func bindingEntry(request *binding.Request) lifecycle.Entry {
	entry := lifecycle.Entry{
		Identity: lifecycle.Identity{Kind: lifecycle.Binding, ID: request.BindingID},
		Owner:    record.OwnerOf(request.Body),
	}
	if request.Service == nil {
		return entry
	}
	entry.InstanceID, entry.Service, entry.Plan = request.Instance.InstanceID(), request.Service.Name, request.Plan.Name
	return session.WithPak(request.Pak, entry)
}
