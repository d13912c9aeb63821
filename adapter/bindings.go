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

// createBinding executes the command create-binding within the budget, with an entry in the audit log. size is the size
// of the request's body in bytes. It completes the request; see session.Session.CompleteBind for the errors. An
// instance with a provision template must be usable: the error is a fault.UserError if the instance is being deleted,
// or, if an errand applies the template, that of lifecycle.Manager.AppliedOutputs. Errors that outcome maps to exit
// codes are described at binding.Binder, and further ones at changeBinding. After an error the binding is nil.
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

// changeBinding completes a request with the function complete, then calls change within the budget of the command and
// with the signal handling of Invocation.Interruptible, and returns its error. request is the request that complete
// completes; changeBinding makes it report stored entries to the audit log. If complete returns an error, change is not
// called and the error is returned. The begin and the result are written to the audit log in both cases; see
// session.Session.Audited. Other errors, after which change is not called either, are those of session.Session.Manager,
// such as a missing environment variable that the pak requires.
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

// deleteBinding executes the command delete-binding within the budget, with an entry in the audit log. It returns
// fault.ErrBindingNotFound if no state is stored for the binding. If additionally the service has no bind section, the
// error is fault.ErrNotImplemented. If additionally the service is not known and a pak cannot be read, the error is
// neither, because the service may be in that pak. Other errors are those of session.Session.CompleteUnbind,
// changeBinding and binding.Binder.Delete. Outputs of the instance that cannot be read, and a missing directory of the
// local state backend, are only logged.
func (e *execution) deleteBinding(ctx context.Context, request *binding.Request) error {
	complete := func() error {
		err := e.session.CompleteUnbind(request)
		// The answer will be that the binding does not exist. That is correct on a machine that has never created a
		// binding, and wrong after an incomplete restore.
		if unused := e.session.Config.Backend().CheckExists(); err == nil && unused != nil {
			e.session.Logger.Warn("looking for a binding where none was ever stored",
				"binding", request.BindingID, "error", unused)
		}
		return err
	}
	return e.changeBinding(ctx, request, complete, func(ctx context.Context, binder *binding.Binder) error {
		if _, err := e.session.ReadApplied(ctx, binder.Manager, request, false); err != nil {
			e.session.Logger.Warn("the instance's outputs are not known", "error", err)
		}
		err := binder.Delete(ctx, *request)
		absent := errors.Is(err, fault.ErrBindingNotFound)
		if unreadable := e.session.Catalog.UnreadableError(); unreadable != nil && request.Service == nil && absent {
			// A service of the unreadable pak may adopt bindings that another adapter created.
			return fmt.Errorf("binding %q has no state, and its service is not known: %w",
				request.BindingID, unreadable)
		}
		if request.Service != nil && !request.Service.Binds() && absent {
			return fmt.Errorf("service %q has no bind section: %w", request.Service.Name, fault.ErrNotImplemented)
		}
		return err
	})
}

// bindingEntry returns the entry of the audit log for a request about a binding. If the request has no service, because
// it could not be completed, the entry has no instance, service, plan and pak.
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
