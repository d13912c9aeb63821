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

// ApplyRecord applies the template of a record with the recorded inputs in the open workspace space; prepared is that
// template. The workspace must have the record already: by a reservation with it, by reading it, or by
// StateRecord.AssignTo, whose record ApplyRecord stores first. Every caller in the adapter applies and destroys
// templates through ApplyRecord, ApplyNewRecord or Destroy, because these handle resources that are in no state: they
// log them, add them to the stored record, and return a *LostResourcesError.
//
// If the record already names such resources, ApplyRecord returns that error and applies nothing. The error wraps
// workspace.ErrTakenOver if another run owns the workspace. Other errors are those of Workspace.Apply, in particular of
// OpenTofu, after which the state contains the resources that were created.
func (m *Manager) ApplyRecord(
	ctx context.Context, space *workspace.Workspace, prepared *templates.Prepared, record *StateRecord,
) error {
	return applyRecord(ctx, m, space, prepared, record, record.Inputs)
}

// applyRecord applies the prepared template of a record in the open workspace, with inputs as the values of its
// variables instead of the recorded ones; see ApplyRecord for the state of the workspace. If the record already names
// lost resources, it applies nothing and returns a *LostResourcesError. If the apply leaves resources that are in no
// state, applyRecord logs them, stores them in the record of the workspace if possible, and returns a
// *LostResourcesError as well; see recordLost. It returns the other errors of Workspace.Apply unchanged.
func applyRecord(
	ctx context.Context, m *Manager, space *workspace.Workspace, prepared *templates.Prepared, record *StateRecord,
	inputs map[string]any,
) error {
	if err := record.CheckLost(); err != nil {
		return err
	}
	return recordLost(ctx, m, space, prepared, record, space.Apply(ctx, prepared, inputs))
}

// destroyRecord destroys all resources in the state of the open workspace except for the guard, the adapter's own
// resource that contains the record. The workspace itself remains. prepared is the template of the record, and inputs
// are the values of its variables. If the destroy leaves resources that are in no state, destroyRecord logs them,
// stores them in the record of the workspace unless that fails or another run may have destroyed them, and returns a
// *LostResourcesError; see recordLost. It returns the other errors of Workspace.Destroy unchanged.
func destroyRecord(
	ctx context.Context, m *Manager, space *workspace.Workspace, prepared *templates.Prepared, record *StateRecord,
	inputs map[string]any,
) error {
	return recordLost(ctx, m, space, prepared, record, space.Destroy(ctx, prepared, inputs))
}

// IsLost reports whether err is or wraps a *LostResourcesError. It returns false for nil, and for a
// *workspace.LostError that was not converted yet.
func IsLost(err error) bool {
	var lost *LostResourcesError
	return errors.As(err, &lost)
}

// lostError returns err unchanged if it is or wraps a *LostResourcesError, and nil otherwise.
func lostError(err error) error {
	if IsLost(err) {
		return err
	}
	return nil
}

// A LostResourcesError names the resources of one binding or instance that exist, or may exist, and are in no state,
// for example because the state was lost while OpenTofu worked. OpenTofu cannot destroy them, so an operator must. The
// error also contains the kind and the id of the binding or the instance, whether the addresses could not be recorded
// in the state backend, and whether another run may have destroyed the resources. The zero value names no resources and
// is not used.
type LostResourcesError struct {
	// Resources are the addresses of the resources. They contain no secrets.
	Resources []string
	kind      Kind
	id        string
	// unrecorded reports that the addresses could not be stored, because another run owns the workspace or the backend
	// fails.
	unrecorded bool
	// unconfirmed reports that another run may have destroyed the resources and removed the workspace.
	unconfirmed bool
}

// Error returns a message for the operator with the addresses of the resources, which asks to remove the existing ones
// by hand. If the addresses are recorded, the message ends with the command that removes the record, such as
// "service-adapter bindings delete ID --forget". If they are not recorded, because that failed or because another run
// may have destroyed the resources, the message asks the reader to keep it.
func (e *LostResourcesError) Error() string {
	if e.unconfirmed {
		return "its state disappeared before its resources were destroyed, " +
			"because another run deleted it or because the state was lost: " +
			"search for " + strings.Join(e.Resources, ", ") + " and remove by hand those that exist; " +
			"the state backend does not record them, so keep this message"
	}
	text := "its state was lost or replaced while OpenTofu worked, so some resources are not recorded in any state: " +
		"search for " + strings.Join(e.Resources, ", ") + " and remove by hand those that exist"
	if e.unrecorded {
		return text + "; the state backend does not record them, so keep this message"
	}
	command := "bindings delete"
	if e.kind == Instance {
		command = "instance destroy"
	}
	return fmt.Sprintf("%s, and then run service-adapter %s %s --forget", text, command, e.id)
}

// CheckLost returns a *LostResourcesError with the addresses in r.Lost, which are resources that are in no state, and
// nil if there are none.
func (r *StateRecord) CheckLost() error {
	if len(r.Lost) == 0 {
		return nil
	}
	kind, id := r.KindAndID()
	return &LostResourcesError{Resources: r.Lost, kind: kind, id: id}
}

// recordLost converts err, the error of an apply or a destroy in the workspace. It returns err unchanged, also nil,
// unless it is or wraps a *workspace.LostError. Then recordLost logs the resources of the LostError together with those
// that the record already names, stores a copy of the record that names all of them, and returns a *LostResourcesError
// with all of them, which does not wrap err. Storing has a time limit of its own, lostLimit (10 seconds), even if ctx
// has ended; OpenTofu is interrupted after it. If the copy cannot be stored, recordLost logs the reason, and the
// message of the returned error says that the addresses are not recorded.
//
// prepared only provides the OpenTofu that stores the copy. The caller's record does not change. recordLost does not
// change the record of another run that owns the workspace. It stores no record if another run may have destroyed the
// resources: such a record would block the id for no reason.
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
	logger.Error("the state was lost while OpenTofu worked; these resources may exist and are not recorded " +
		"in any state")
	if lost.Unconfirmed {
		return &LostResourcesError{Resources: withLost.Lost, kind: kind, id: id, unconfirmed: true}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lostLimit)
	defer cancel()
	storeErr := storeLost(ctx, m, space, prepared, &withLost, lost.Owned)
	if storeErr != nil {
		logger.Error("storing the addresses of resources that are not recorded in any state", "error", storeErr)
	}
	return &LostResourcesError{Resources: withLost.Lost, kind: kind, id: id, unrecorded: storeErr != nil}
}

// storeLost stores a record that names lost resources in the workspace, with the OpenTofu of prepared. owned states
// whether the existing state still belongs to this run. If it does, the record replaces the one in that state;
// otherwise the record is stored in a new reservation of the workspace. If another run owns the workspace, storeLost
// repeats the reservation every 200 ms until that run has removed the workspace or ctx ends, so ctx must have a
// deadline. storeLost sets the record's Format, Adapter and UpdatedAt.
//
// It returns an error if the record cannot be encoded or stored. If the context ends between two attempts, the error
// wraps workspace.ErrExists and not the context's error.
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
