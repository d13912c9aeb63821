package provision

import (
	"context"
	"fmt"
	"time"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/fault"
)

// deadlines returns the contexts of a request: workCtx ends early enough for a rollback, and fullCtx ends when the
// rollback must have ended. An errand has no rollback, so both are the same context with the time limit of an instance.
// The cause of their end is a *fault.BudgetError. The caller must call cancel, which ends both.
func (p *Provisioner) deadlines(ctx context.Context) (workCtx, fullCtx context.Context, cancel context.CancelFunc) {
	if !p.Errand {
		return p.Deadlines(ctx)
	}
	fullCtx, cancel = p.WithLimit(ctx, p.Limit(lifecycle.Instance))
	return fullCtx, fullCtx, cancel
}

// readOwnState returns the state if this operation wrote its record, and nil if another run did or if the workspace
// does not exist. It returns an error if the state cannot be read, or if its record is missing or cannot be read. See
// workspace.Workspace.State for the side effects of reading the state.
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

// saveState stores the state that OpenTofu could not store in the backend, if there is one. BOSH deletes the disk of
// an errand's VM, so saveState tries every saveInterval until it succeeds or the context ends. It logs the first error,
// and returns none.
func (op *operation) saveState(ctx context.Context) {
	for tries := 0; op.space.HasUnsavedState(); tries++ {
		err := op.space.SaveUnsaved(ctx, op.installation)
		if err == nil {
			return
		}
		if tries == 0 {
			op.Logger.Error("the backend does not take the state; it is tried again until errand_limit",
				"instance", op.InstanceID, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(saveInterval):
		}
	}
}

// recordFailure stores the reason of the failure in the desired record and in the state, for operators and for the next
// create-binding request, which reports it to the user. It returns an error if the record cannot be stored.
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
