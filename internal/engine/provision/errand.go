package provision

import (
	"context"
	"fmt"
	"time"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/fault"
)

// deadlines returns the contexts of a request, whose time begins now: workCtx ends early enough for a rollback, and
// fullCtx ends with the budget, when the rollback must have ended. An errand has no rollback, so both are the same
// context with the time limit of an instance. Both also end with ctx. When a limit is reached, context.Cause returns a
// *fault.BudgetError. The caller must call cancel, which ends both.
func (p *Provisioner) deadlines(ctx context.Context) (workCtx, fullCtx context.Context, cancel context.CancelFunc) {
	if !p.Errand {
		return p.Deadlines(ctx)
	}
	fullCtx, cancel = p.WithLimit(ctx, p.Limit(lifecycle.Instance))
	return fullCtx, fullCtx, cancel
}

// readOwnState reads the state of the workspace and returns it if this operation wrote its record, which the random
// Attempt in the record shows. It returns nil and no error if another run wrote the record or if the workspace does
// not exist. It returns an error if the state cannot be read, or if its record is missing or cannot be decoded.
// Reading the state first saves one that an earlier run could not save, and deletes an empty workspace. Afterwards
// op.space uses the guard of the state that was read, even if another run wrote it, so the caller must not change the
// workspace unless the result is a state.
func (op *operation) readOwnState(ctx context.Context) (*statestore.State, error) {
	state, err := op.space.State(ctx, op.installation)
	if err != nil || state == nil {
		return nil, err
	}
	record, err := lifecycle.DecodeRecord(state.Record)
	if err != nil || record.Attempt != op.desired.Attempt {
		return nil, err
	}
	return state, nil
}

// saveInterval is the time between two attempts to store a state in the backend.
const saveInterval = 5 * time.Second

// saveState stores the state that OpenTofu could not store in the backend, if the scratch directory contains one. BOSH
// deletes the disk of an errand's VM, so saveState tries again every saveInterval (5 seconds) until it succeeds or the
// context ends; it tries at least once. It logs the first error, and returns none. If it does not succeed, the file of
// the state remains.
func (op *operation) saveState(ctx context.Context) {
	for tries := 0; op.space.HasUnsavedState(); tries++ {
		err := op.space.SaveUnsaved(ctx, op.installation)
		if err == nil {
			return
		}
		if tries == 0 {
			op.Logger.Error("the state backend does not accept the state; trying again until errand_limit",
				"instance", op.InstanceID, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(saveInterval):
		}
	}
}

// recordFailure stores the reason of the failure of an errand's apply in op.desired and in the record of the stored
// state, for operators and for the next create-binding request, which reports it to the user. The text for operators is
// that of failure. The text for the user is the message of the *fault.UserError that failure wraps or that the
// provision.errors of the service definition produce for it, and "" if neither exists. recordFailure returns an error
// if the record cannot be encoded or stored, for example because another run owns the workspace
// (workspace.ErrTakenOver).
func (op *operation) recordFailure(ctx context.Context, failure error) error {
	explained := lifecycle.ExplainError(failure, op.Service.Provision.Errors, explainedCommands()...)
	op.desired.Failure = &lifecycle.Failure{User: fault.UserMessage(explained), Operator: failure.Error()}
	err := op.desired.AssignTo(op.space, op.AdapterVersion)
	if err == nil {
		err = op.space.StoreRecord(ctx, op.installation)
	}
	if err != nil {
		return fmt.Errorf("storing why the errand failed: %w", err)
	}
	return nil
}

// explainedCommands returns the OpenTofu commands whose errors the service definition may explain: "import", "plan" and
// "apply"; see lifecycle.ExplainError.
func explainedCommands() []string { return []string{"import", "plan", "apply"} }
