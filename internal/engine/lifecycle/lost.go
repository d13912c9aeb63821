package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
)

// While another run owns the workspace, recordLost tries to store the addresses of lost resources every lostInterval,
// for up to lostLimit.
const (
	lostLimit    = 10 * time.Second
	lostInterval = 200 * time.Millisecond
)

// ApplyRecord applies the template of a record, which prepared is, with the recorded inputs in the open workspace
// space. The workspace must be reserved with this record, or have read it, or StateRecord.AssignTo must have passed it
// to the workspace: ApplyRecord stores no other record. Every caller in the adapter applies and destroys templates
// through ApplyRecord, ApplyNewRecord or Destroy, because these handle resources that are in no state: they log and
// record them, and return a *LostResourcesError.
//
// If the record already names such resources, ApplyRecord returns that error and applies nothing. The error wraps
// workspace.ErrTakenOver if another run owns the workspace. Other errors are those of Workspace.Apply, in particular of
// OpenTofu, after which the state contains the resources that were created.
func (m *Manager) ApplyRecord(
	ctx context.Context, space *workspace.Workspace, prepared *templates.Prepared, record *StateRecord,
) error {
	return applyRecord(ctx, m, space, prepared, record, record.Inputs)
}

// applyRecord applies the prepared template of a record as ApplyRecord does, but with these inputs. The logger receives
// lost resources. The errors are those of ApplyRecord.
func applyRecord(
	ctx context.Context, m *Manager, space *workspace.Workspace, prepared *templates.Prepared, record *StateRecord,
	inputs map[string]any,
) error {
	if err := record.CheckLost(); err != nil {
		return err
	}
	return recordLost(ctx, m, space, prepared, record, space.Apply(ctx, prepared, inputs))
}

// destroyRecord destroys all resources in the state except for the guard, which contains the record. prepared is the
// template of the record, and inputs are the values of its variables. destroyRecord returns a *LostResourcesError if
// resources are in no state, after it has logged and recorded them, and the other errors of Workspace.Destroy as they
// are.
func destroyRecord(
	ctx context.Context, m *Manager, space *workspace.Workspace, prepared *templates.Prepared, record *StateRecord,
	inputs map[string]any,
) error {
	return recordLost(ctx, m, space, prepared, record, space.Destroy(ctx, prepared, inputs))
}

// IsLost reports whether an error wraps a *LostResourcesError.
func IsLost(err error) bool {
	var lost *LostResourcesError
	return errors.As(err, &lost)
}

// lostError returns err unchanged if it wraps a *LostResourcesError, and nil otherwise.
func lostError(err error) error {
	if IsLost(err) {
		return err
	}
	return nil
}

// A LostResourcesError names the resources of a binding or an instance that exist, or may exist, and are in no state.
// OpenTofu cannot destroy them, so an operator must.
type LostResourcesError struct {
	// Resources are the addresses of the resources. They contain no secrets.
	Resources []string
	kind      Kind
	id        string
	// unrecorded reports that the addresses could not be stored, because another run owns the workspace or the backend
	// fails.
	unrecorded bool
	// unconfirmed reports that another run may have destroyed the resources in order.
	unconfirmed bool
}

// Error returns a message with the addresses of the resources and the command that removes them from the record. If the
// addresses are not recorded, the message has no command but asks the reader to keep the message.
func (e *LostResourcesError) Error() string {
	if e.unconfirmed {
		return "its state disappeared before its resources were destroyed, " +
			"because another run deleted it or because the state was lost: " +
			"look for " + strings.Join(e.Resources, ", ") + " and remove by hand what exists; " +
			"the state backend does not record them, so keep this message"
	}
	text := "its state was lost or replaced while OpenTofu worked, so that some resources are in no state: look for " +
		strings.Join(e.Resources, ", ") + " and remove by hand what exists"
	if e.unrecorded {
		return text + "; the state backend does not record them, so keep this message"
	}
	command := "bindings delete"
	if e.kind == Instance {
		command = "instance destroy"
	}
	return fmt.Sprintf("%s, and then run service-adapter %s %s --forget", text, command, e.id)
}

// CheckLost returns a *LostResourcesError if the record names resources that are in no state, and nil otherwise.
func (r *StateRecord) CheckLost() error {
	if len(r.Lost) == 0 {
		return nil
	}
	kind, id := r.KindAndID()
	return &LostResourcesError{Resources: r.Lost, kind: kind, id: id}
}

// recordLost returns err, the error of an apply or a destroy, unchanged unless it wraps a *workspace.LostError. Then
// recordLost logs the resources, stores a copy of the record that names them, and returns a *LostResourcesError. It
// does so for up to lostLimit, even after the context has ended. If the copy cannot be stored, it logs the reason, and
// the message of the returned error says so.
//
// prepared only provides the OpenTofu that stores the copy. recordLost does not change the record of another run that
// owns the workspace. It stores nothing if another run may have destroyed the resources: such a record would block the
// id for no reason.
func recordLost(
	ctx context.Context, m *Manager, space *workspace.Workspace, prepared *templates.Prepared, record *StateRecord,
	err error,
) error {
	var lost *workspace.LostError
	if !errors.As(err, &lost) {
		return err
	}
	kind, id := record.KindAndID()
	withLost := *record
	withLost.Lost = slices.Compact(slices.Sorted(slices.Values(slices.Concat(record.Lost, lost.Resources))))
	logger := m.Logger.With(string(kind), id, "resources", strings.Join(withLost.Lost, ", "))
	logger.Error("the state was lost while OpenTofu worked; these resources are in no state and may exist")
	if lost.Unconfirmed {
		return &LostResourcesError{Resources: withLost.Lost, kind: kind, id: id, unconfirmed: true}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lostLimit)
	defer cancel()
	storeErr := storeLost(ctx, m, space, prepared, &withLost, lost.Owned)
	if storeErr != nil {
		logger.Error("recording the resources that are in no state", "error", storeErr)
	}
	return &LostResourcesError{Resources: withLost.Lost, kind: kind, id: id, unrecorded: storeErr != nil}
}

// storeLost stores a record that names lost resources, with the OpenTofu of prepared: in the existing state if owned
// reports that this run still owns it, and otherwise in a new reservation of the workspace. If another run owns the
// workspace, storeLost waits until that run has removed the workspace. It returns an error if the context ends first or
// the record cannot be stored.
func storeLost(
	ctx context.Context, m *Manager, space *workspace.Workspace, prepared *templates.Prepared, record *StateRecord,
	owned bool,
) error {
	if owned {
		if err := record.AssignTo(space, m.AdapterVersion); err != nil {
			return err
		}
		return space.StoreRecord(ctx, prepared.Installation())
	}
	encoded, err := record.Encode(m.AdapterVersion)
	if err != nil {
		return err
	}
	for {
		err = space.Reserve(ctx, prepared.Installation(), encoded)
		if !errors.Is(err, workspace.ErrExists) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("another run owns the workspace: %w", err)
		case <-time.After(lostInterval):
		}
	}
}
