package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
)

// settleFailure handles the failure of an apply of the prepared template and returns it with a nil Result, unless the
// apply succeeded after all. For a request, the apply must have been a creation: settleFailure undoes it by destroying
// its resources and removing the workspace. Imported resources are not destroyed; see undoCreation.
//
// An errand undoes nothing. settleFailure first stores a state that OpenTofu could not store. Then it records the
// reason of the failure in the state, so that the next errand can continue and a deletion finds every resource.
//
// Apart from storing that state, settleFailure changes nothing if OpenTofu was killed, if the errand was interrupted,
// if another run owns the workspace, or if the workspace no longer exists.
//
// If the state shows that the apply created and stored everything, for example because OpenTofu failed only when it
// released the lock, settleFailure returns the result and no error. It logs its own errors, and returns the failure
// despite them. The exception is a *lifecycle.LostResourcesError, which the returned error wraps in addition.
func (op *operation) settleFailure(ctx context.Context, prepared *templates.Prepared, failure error) (*Result, error) {
	logger := op.Logger.With("instance", op.InstanceID)
	interrupted := false
	if op.Errand {
		op.saveState(ctx)
		interrupted = errors.Is(ctx.Err(), context.Canceled)
		graceCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifecycle.ErrandGrace)
		defer cancel()
		ctx = graceCtx
	}
	// After a kill, the existing resources are unknown. An interrupted errand has only seconds left.
	if interrupted || lifecycle.WasKilled(failure) {
		logger.Warn("OpenTofu was killed, or the errand was interrupted; " +
			"the next request or errand for the instance continues")
		return nil, failure
	}
	state, err := op.stateAfterFailure(ctx, failure)
	switch {
	case errors.Is(err, workspace.ErrTakenOver) || err == nil && state == nil:
		// Another run owns the workspace with all its resources, or the workspace no longer exists.
	case err != nil:
		logger.Error("reading the state after a failure; the resources stay recorded", "error", err)
	case appliedCompletely(prepared, state, failure):
		logger.Warn("OpenTofu failed after it had created and stored everything", "error", failure)
		return newResult(prepared, state.Outputs, true), nil
	default:
		if err := op.undoOrRecord(ctx, prepared, failure); lifecycle.IsLost(err) {
			return nil, fmt.Errorf("%w; %w", failure, err)
		} else if err != nil {
			logger.Error("handling a failure; the next request or errand for the instance continues", "error", err)
		}
	}
	return nil, failure
}

// stateAfterFailure returns the state of the workspace if this operation still owns it. A request first takes the
// workspace over from all other runs; see reclaimState. The state is nil if the workspace no longer exists. If another
// run owns the workspace, an errand gets a nil state, and a request an error that wraps workspace.ErrTakenOver. Other
// errors mean that the state cannot be read or taken over. failure is the error of the apply.
func (op *operation) stateAfterFailure(ctx context.Context, failure error) (*statestore.State, error) {
	if op.Errand {
		return op.readOwnState(ctx)
	}
	return op.reclaimState(ctx, failure)
}

// undoOrRecord undoes the failed creation of a request, or stores the failure of an errand in the state. prepared is
// the template that was applied, and failure the error of the apply. The errors are those of undoCreation or
// recordFailure.
func (op *operation) undoOrRecord(ctx context.Context, prepared *templates.Prepared, failure error) error {
	if op.Errand {
		return op.recordFailure(ctx, failure)
	}
	return op.undoCreation(ctx, prepared, failure)
}

// undoCreation destroys the resources of a failed creation and removes its workspace; imported resources are only
// dropped from the state. The prepared template is the one with which the creation was applied, and failure is the
// error of that apply: it determines whether resources can exist; see lifecycle.Manager.RollBack. An import ignores
// both.
//
// undoCreation returns a *lifecycle.LostResourcesError if resources are in no state. Other errors of the rollback are
// logged and not returned, except if the creation imported resources.
func (op *operation) undoCreation(ctx context.Context, prepared *templates.Prepared, failure error) error {
	if len(op.desired.Imported) == 0 {
		return op.RollBack(ctx, op.space, prepared, op.desired, failure)
	}
	if err := op.undoImport(ctx, op.desired); err != nil {
		return fmt.Errorf("dropping the resources of a failed import from the state: %w", err)
	}
	return nil
}

// reclaimState takes the workspace over from all other runs and returns its state, so that no other run can finish the
// creation while it is undone. The error wraps workspace.ErrTakenOver if another run has already taken over the
// workspace; failure, the error of the apply, may report that. Other errors mean that the state cannot be read or
// changed. The state is nil if the workspace is empty or does not exist.
func (op *operation) reclaimState(ctx context.Context, failure error) (*statestore.State, error) {
	if errors.Is(failure, workspace.ErrTakenOver) {
		return nil, failure
	}
	if err := op.space.TakeOver(ctx, op.installation); err != nil {
		return nil, err
	}
	return op.space.State(ctx, op.installation)
}

// appliedCompletely reports whether the state contains all resources and all outputs of the prepared template although
// the command failed, with the error failure. OpenTofu stores the mark of a complete apply before it evaluates the
// outputs. An output may therefore have no value, or violate a precondition; the failure then names a file or an
// address of the template, and appliedCompletely returns false.
func appliedCompletely(prepared *templates.Prepared, state *statestore.State, failure error) bool {
	var run *opentofu.Error
	if !state.Complete || errors.As(failure, &run) && (run.File != "" || run.Address != "" || run.More > 0) {
		return false
	}
	return !slices.ContainsFunc(prepared.Outputs, func(name string) bool {
		_, exists := state.Outputs[name]
		return !exists
	})
}
