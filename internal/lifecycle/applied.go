package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"service-adapter/internal/fault"
	"service-adapter/internal/record"
)

// AppliedOutputs are the outputs of the last complete apply of an instance, sensitive ones too. They are read without waiting for a run
// that is under way. The error is ErrNotStored when nothing was begun, and a *fault.UserError when no apply was ever complete.
func (m *Manager) AppliedOutputs(ctx context.Context, instanceID string) (map[string]any, error) {
	stored, err := m.Read(ctx, Instance, instanceID)
	switch {
	case errors.Is(err, ErrNotStored):
		return nil, notReady(nil, err)
	case err != nil:
		return nil, fmt.Errorf("reading the outputs of instance %q: %w", instanceID, err)
	case stored.Record == nil:
		return nil, fmt.Errorf("reading the outputs of instance %q: %s", instanceID, stored.Error)
	case stored.State.Applied == nil:
		return nil, notReady(stored.Record.Failure, fmt.Errorf("instance %q is %s", instanceID, stored.Condition))
	case stored.Condition != Complete && len(stored.Record.Outputs) > 0:
		return stored.Record.Outputs, nil
	default: // also a change of what a request made, before errands did
		return stored.State.Outputs, nil
	}
}

// notReady says that an instance cannot be used yet, and why.
func notReady(failure *Failure, err error) error {
	message := "The service instance is not ready: what it needs was not made yet"
	if failure == nil {
		return &fault.UserError{Message: message + ". Try again when its creation has ended.", Err: err}
	}
	if failure.User != "" {
		message += ". The last attempt failed: " + failure.User
	} else {
		message += ", and the last attempt failed. Contact your operator."
	}
	return &fault.UserError{Message: message, Err: fmt.Errorf("%w; the last errand %s failed: %s", err, record.ApplyErrand, failure.Operator)}
}
