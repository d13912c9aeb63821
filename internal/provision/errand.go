package provision

import (
	"context"
	"errors"
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
	all, cancel = p.WithInstanceLimit(ctx)
	return all, all, cancel
}

// keep is what an errand does after a failure: nothing is undone, so that a repeat can go on and a deletion finds everything. Where OpenTofu
// failed after everything was made and stored, nothing has failed.
func (w *run) keep(ctx context.Context, prepared *tofu.Prepared, failure error) (*Result, error) {
	logger := w.Logger.With("instance", w.InstanceID)
	w.save(ctx)
	// An interrupted errand has only seconds left, and after a kill nobody knows what is there. A repeat finds out.
	if errors.Is(ctx.Err(), context.Canceled) || lifecycle.WasKilled(failure) {
		logger.Warn("the errand was interrupted; a repeat goes on")
		return nil, failure
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifecycle.ErrandGrace)
	defer cancel()
	state, err := w.own(ctx)
	switch {
	case err != nil:
		logger.Error("reading the state after a failure", "error", err)
	case state == nil:
		// It is another run's, or was not changed.
	case w.made(state, failure):
		logger.Warn("OpenTofu failed after it had made and stored everything", "error", failure)
		return newResult(prepared, state.Outputs, true), nil
	default:
		if err := w.remember(ctx, failure); err != nil {
			logger.Error("storing why the errand failed", "error", err)
		}
	}
	return nil, failure
}

// own reads the state where this run has it; else it is nil.
func (w *run) own(ctx context.Context) (*statestore.State, error) {
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
func (w *run) remember(ctx context.Context, failure error) error {
	meant := lifecycle.Meaning(failure, w.Service.Provision.Errors, commands()...)
	w.wanted.Failure = &lifecycle.Failure{User: fault.UserMessage(meant), Operator: failure.Error()}
	if err := w.wanted.StoreWith(w.space); err != nil {
		return err
	}
	if err := w.space.StoreRecord(ctx, w.installation); err != nil {
		return fmt.Errorf("after a failure: %w", err)
	}
	return nil
}

// commands are those of OpenTofu whose errors the service definition may explain.
func commands() []string { return []string{"import", "plan", "apply"} }
