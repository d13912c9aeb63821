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

// settleFailure handles failure, the error of an apply of the prepared template, and returns it with a nil Result,
// unless the apply succeeded after all. For a request, the apply must have been a creation, which settleFailure
// undoes before ctx ends: it takes the workspace over, so that no other run can finish the creation, destroys the
// resources and removes the workspace. Imported resources are only dropped from the state; see undoCreation.
//
// An errand undoes no apply, so that the next errand can continue. settleFailure first stores a state that OpenTofu
// could not store, so that a deletion finds every resource; that may take until ctx ends. Then it records the reason
// of the failure in the state. For that it has 8 seconds (lifecycle.ErrandGrace), even if the limit of ctx was
// reached.
//
// Apart from storing that state, settleFailure leaves the resources and the record as they are if OpenTofu was
// killed, if ctx was canceled, if another run has become the owner of the workspace meanwhile, if the workspace no
// longer exists, or if its state cannot be read or taken over.
//
// If the state shows that the apply created and stored everything, for example because OpenTofu failed only when it
// released the lock, settleFailure logs a warning and returns the result and no error. It logs its own errors, and
// returns failure despite them. The exception is a *lifecycle.LostResourcesError, which the returned error wraps in
// addition to failure.
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

// stateAfterFailure returns the state of the workspace after a failed apply if this operation still owns it. failure
// is the error of the apply.
//
// For a request, stateAfterFailure first takes the workspace over from the runs that may still use it, so that none
// of them can finish the creation. The error wraps workspace.ErrTakenOver if another run has taken the workspace
// over, deleted it or changed its state before; if failure already reports that, failure is returned. The state is
// nil without an error only if another run deletes or empties the workspace just afterwards.
//
// For an errand, stateAfterFailure takes nothing over, and reads the state like readOwnState. It returns nil without
// an error if another run owns the workspace, or if the workspace no longer exists. The caller must not change the
// workspace then.
//
// Other errors mean that the state cannot be read or taken over, or that the record of an errand cannot be decoded.
func (op *operation) stateAfterFailure(ctx context.Context, failure error) (*statestore.State, error) {
	if op.Errand {
		return op.readOwnState(ctx)
	}
	return op.reclaimState(ctx, failure)
}

// undoOrRecord undoes the failed creation of a request, or stores the failure of an errand in the state. prepared is
// the template that was applied, and failure the error of the apply. For a request, the errors are those of
// undoCreation, in particular a *lifecycle.LostResourcesError. A nil error does not mean that the creation was
// undone, because undoCreation only logs its other errors unless the creation imported resources. For an errand, an
// error means that the record with the failure cannot be encoded or stored.
func (op *operation) undoOrRecord(ctx context.Context, prepared *templates.Prepared, failure error) error {
	if op.Errand {
		return op.recordFailure(ctx, failure)
	}
	return op.undoCreation(ctx, prepared, failure)
}

// undoCreation destroys the resources of a failed creation and removes its workspace; imported resources are only
// dropped from the state. prepared is the template with which the creation was applied, and failure is the error of
// that apply, which determines whether resources can exist; see lifecycle.Manager.RollBack. If the creation imported
// resources, both parameters are ignored.
//
// undoCreation returns an error that is or wraps a *lifecycle.LostResourcesError if resources are in no state. Without
// an import, it logs all other errors and does not return them. With an import, it returns them all.
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
// creation while it is undone. failure is the error of the apply; if it wraps workspace.ErrTakenOver, reclaimState
// changes nothing and returns it with a nil state.
//
// If another run took over or deleted the workspace before the takeover, or changed its state after this run had read
// it last, the error wraps workspace.ErrTakenOver. If the workspace is deleted or emptied between the takeover and the
// reading of its state, both results are nil. The error is a *statelock.Error if another run holds the lock of the
// state for too long, and any other error if the state cannot be read or changed. The state is nil with every error.
func (op *operation) reclaimState(ctx context.Context, failure error) (*statestore.State, error) {
	if errors.Is(failure, workspace.ErrTakenOver) {
		return nil, failure
	}
	if err := op.space.TakeOver(ctx, op.installation); err != nil {
		return nil, err
	}
	return op.space.State(ctx, op.installation)
}

// appliedCompletely reports whether an apply of the prepared template created and stored everything although its
// command failed with the error failure, for example because OpenTofu could not release the lock of the state. It
// returns true if the state contains the mark of a complete apply and every output that the template declares, unless
// failure is an *opentofu.Error that names a file or an address or reports several diagnostics. The mark alone is not
// enough, because OpenTofu stores it before it evaluates the outputs, and that may fail. An output that the state
// omits because it is null counts as missing. The state must not be nil.
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
