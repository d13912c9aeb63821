package provision

import (
	"context"
	"fmt"
	"time"

	"service-adapter/internal/fault"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tofu"
)

// deadlines are those of a request: until when work may go on, and its rollback. An errand has no rollback, and a limit of its own.
func (p *Provisioner) deadlines(ctx context.Context) (working, all context.Context, cancel context.CancelFunc) {
	if !p.Errand {
		return p.Deadlines(ctx)
	}
	all, cancel = p.WithLimit(ctx, p.Limit(lifecycle.Instance))
	return all, all, cancel
}

// own reads the state where this run has it; else it is nil.
func (w *run) own(ctx context.Context, _ error) (*statestore.State, error) {
	state, err := w.space.State(ctx, w.installation)
	if err != nil || state == nil {
		return nil, err
	}
	record, err := lifecycle.DecodeRecord(state.Record)
	if err != nil || record.Attempt != w.wanted.Attempt {
		return nil, err
	}
	return state, nil
}

// saveInterval is how often it is tried again to save a state that the backend did not take.
const saveInterval = 5 * time.Second

// save saves a state that OpenTofu could not save. The disk goes with the errand's VM, so it is tried until the time is over.
func (w *run) save(ctx context.Context) {
	for tries := 0; w.space.Unsaved(); tries++ {
		err := w.space.Save(ctx, w.installation)
		if err == nil {
			return
		}
		if tries == 0 {
			w.Logger.Error("the backend does not take the state; it is tried again until errand_limit", "instance", w.InstanceID, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(saveInterval):
		}
	}
}

// remember stores why the errand failed, for the next bind and for operators.
func (w *run) remember(ctx context.Context, _ *tofu.Prepared, failure error) error {
	meant := lifecycle.Meaning(failure, w.Service.Provision.Errors, commands()...)
	w.wanted.Failure = &lifecycle.Failure{User: fault.UserMessage(meant), Operator: failure.Error()}
	err := w.wanted.StoreWith(w.space)
	if err == nil {
		err = w.space.StoreRecord(ctx, w.installation)
	}
	if err != nil {
		return fmt.Errorf("storing why the errand failed: %w", err)
	}
	return nil
}

// commands are those of OpenTofu whose errors the service definition may explain.
func commands() []string { return []string{"import", "plan", "apply"} }
