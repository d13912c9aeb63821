package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/fault"
	"service-adapter/internal/record"
)

// A Condition states how far the creation, change, import or deletion of a binding or an instance has progressed. Its
// text, such as "complete", appears in lists. It is one of these constants:
//
//   - Complete: an apply of the stored record was complete, and no deletion has begun since.
//   - Creating, Changing, Importing and Deleting: the creation, change, import or deletion is running, failed or was
//     interrupted. A destroy that begins before any apply was complete leaves Creating or Importing unchanged.
//   - Unreadable: the state or the record cannot be read.
//
// The zero value "" means that no condition was determined, for example because the workspace does not exist.
type Condition string

// The conditions.
const (
	Complete   Condition = "complete"
	Creating   Condition = "creating"   // the creation is running, failed or was interrupted
	Changing   Condition = "changing"   // a change is running, failed or was interrupted
	Importing  Condition = "importing"  // an import is running, failed or was interrupted
	Deleting   Condition = "deleting"   // the deletion is running, failed or was interrupted
	Unreadable Condition = "unreadable" // the state or the record cannot be read
)

// An Entry describes a stored binding or instance, as lists and logs show it: its names and ids, the pak and the
// OpenTofu of its last apply, the version of the adapter that wrote the record, its condition, times and owner, the
// addresses of its resources, including lost ones, and the failure of an errand or an upgrade that the record
// contains. A nil Failure does not mean that the last apply succeeded, because some failures are not recorded, for
// example if OpenTofu was killed. An Entry contains no secrets. Its JSON form is one flat object with the fields of
// all parts. In the zero value everything is unknown. An Entry of a workspace that cannot be read contains only the
// workspace, its kind and id, the condition Unreadable and the reason, and possibly the resources and the OpenTofu
// version of the state.
type Entry struct {
	Identity
	AppliedWith
	// Adapter is the version of the adapter that wrote the record last, and "" if the record does not contain it.
	Adapter   string    `json:"adapter_version,omitempty"`
	Condition Condition `json:"condition"`
	Times
	record.Owner
	// Resources are the addresses of the resources without instance keys. The lost resources of the record follow
	// those of the state.
	Resources []string `json:"resources,omitempty"`
	// Failure is that of the record: the reason why the last apply of an errand or the last upgrade failed. It is nil
	// if that did not fail, or if the failure was not recorded, for example because OpenTofu was killed.
	Failure *Failure `json:"last_failure,omitempty"`
	// Error is the reason why Condition is Unreadable, and "" otherwise.
	Error string `json:"error,omitempty"`
}

// An Identity names a binding or an instance, its workspace, and the service instance, deployment, service and plan
// that it belongs to. In an Identity that was read from a workspace or a record, ID is set; the other fields are ""
// where they are unknown. The zero value names none.
type Identity struct {
	Workspace string `json:"workspace"`
	Kind      Kind   `json:"kind"`
	// ID is the id of the binding or the instance. It is the name of the workspace if that name contains a hash and the
	// record cannot be read.
	ID         string `json:"id"`
	InstanceID string `json:"instance_id,omitempty"`
	Deployment string `json:"deployment,omitempty"`
	Service    string `json:"service,omitempty"`
	Plan       string `json:"plan,omitempty"`
}

// A Stored is the content of one workspace of a binding or an instance: its Entry, and the state and the record, which
// contain secrets. State or Record is nil if it cannot be read, and both are nil in the results of Manager.List. The
// JSON form is that of the Entry, without the state and the record. The zero value stands for no workspace.
type Stored struct {
	Entry
	// State is nil if it cannot be read, and in the results of List. Record is nil in the same cases, and if only the
	// record cannot be read.
	State  *statestore.State `json:"-"`
	Record *StateRecord      `json:"-"`
}

// ErrNotStored means that the state backend has no state of a binding or an instance.
var ErrNotStored = errors.New("the state backend does not contain it")

// A Progress function receives the progress of reading many states, or of asking the Director about many instances.
// done is the number of those that were read or asked about, and total is the number of all. The function is called
// after each one, also for a workspace that was removed meanwhile, and not at all if there are none. The calls are
// never concurrent, and done increases by 1 from call to call, from 1 on. Functions that take a Progress accept nil,
// which reports no progress.
type Progress func(done, total int)

// List returns the entries of all bindings or instances, without their states and records, sorted by the name of the
// workspace. The kind "" selects both. A workspace that cannot be read has an entry with the condition Unreadable; one
// that is empty or was removed meanwhile has none. The result is nil if there are none. List calls progress after each
// state; progress may be nil.
//
// Like Walk, List may delete empty workspaces and restore incomplete state files of the backend local. It waits for a
// running command only if that holds the lock of such a state; see workspace.Engine.Peek.
//
// List returns an error if no pak has a usable OpenTofu, if the workspaces cannot be listed, or if the context ends.
// The entries that are returned with an error are incomplete.
func (m *Manager) List(ctx context.Context, kind Kind, progress Progress) ([]Stored, error) {
	var all []Stored
	err := m.Walk(ctx, kind, progress, func(stored *Stored) error {
		all = append(all, Stored{Entry: stored.Entry}) // all states together would use too much memory
		return nil
	})
	return all, err
}

// batchSize is the number of states that Walk keeps in memory at the same time.
const batchSize = 64

// Walk calls visit, one call after the other, with the content of each binding or instance of a kind, or of both
// kinds for "", sorted by the name of the workspace. The argument of visit contains the state and the record. If a
// workspace cannot be read, the condition is Unreadable, and the record or both are nil. A workspace that is empty or
// was removed meanwhile is left out. Walk keeps up to 64 states in memory. It calls progress after each state;
// progress may be nil.
//
// Walk is not read-only: empty workspaces are deleted if OpenTofu has to read the states, and incomplete state files of
// the backend local are restored. It waits for a running command only if that holds the lock of such a state; see
// workspace.Engine.Peek.
//
// Walk ends at the first error of visit, and returns it. It also returns an error if no pak has a usable OpenTofu, if
// the workspaces cannot be listed, or if the context ends.
func (m *Manager) Walk(ctx context.Context, kind Kind, progress Progress, visit func(stored *Stored) error) error {
	names, err := m.Workspaces(ctx, kind)
	if err != nil {
		return err
	}
	reader, err := m.StateReader(ctx, nil)
	if err != nil {
		return err
	}
	done := 0
	for batch := range slices.Chunk(names, batchSize) {
		entries := make([]Stored, len(batch))
		m.Engine.PeekAll(ctx, reader, batch, func(n int, state *statestore.State, err error) {
			if state != nil || err != nil { // otherwise the workspace was removed after the names were read
				entries[n] = newStored(batch[n], state, err)
			}
		})
		for n := range entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			done++
			if progress != nil {
				progress(done, len(names))
			}
			if entries[n].Workspace == "" {
				continue
			}
			if err := visit(&entries[n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Workspaces returns the sorted names of the workspaces of a kind in the state backend, or of both kinds for "". It
// does not read their states, and omits workspaces whose names the adapter did not choose; see ParseWorkspace. The
// result is nil if there are none. Workspaces returns nil and an error if no pak has a usable OpenTofu, if the backend
// cannot list its workspaces, or if the context ends.
func (m *Manager) Workspaces(ctx context.Context, kind Kind) ([]string, error) {
	reader, err := m.StateReader(ctx, nil)
	if err != nil {
		return nil, err
	}
	all, err := m.Engine.Workspaces(ctx, reader)
	if err != nil {
		return nil, err
	}
	var selected []string
	for _, name := range all {
		if nameKind, _, ok := ParseWorkspace(name); ok && (kind == "" || kind == nameKind) {
			selected = append(selected, name)
		}
	}
	return selected, nil
}

// newStored returns the content of the workspace with this name, whose state was read with the result state and err.
// The state, which becomes the field State, must not be nil unless err is set. The entry is that of the record, with
// the workspace, the condition, the resources of the state followed by the lost ones of the record, and the OpenTofu
// version of the state.
//
// If err is set or the record in the state cannot be decoded, the condition of the entry is Unreadable, Error is the
// reason, Record is nil, and the kind and the id are those of ParseWorkspace. Unless err is set, the entry then has the
// resources and the OpenTofu version of the state as well. The other fields are empty.
func newStored(name string, state *statestore.State, err error) Stored {
	kind, id, _ := ParseWorkspace(name)
	identity := Identity{Workspace: name, Kind: kind, ID: id}
	stored := Stored{Entry: Entry{Identity: identity, Condition: Unreadable}, State: state}
	if err == nil {
		stored.Resources, stored.Tofu = state.Resources, state.TofuVersion
		stored.Record, err = DecodeRecord(state.Record)
	}
	if err != nil {
		stored.Error = err.Error()
		return stored
	}
	stored.Entry = stored.Record.Entry()
	stored.Workspace, stored.Tofu, stored.Condition = name, state.TofuVersion, ConditionOf(state, stored.Record)
	stored.Resources = slices.Concat(state.Resources, stored.Record.Lost)
	return stored
}

// Entry returns a new Entry with the values that the record contains: the ids and names, the versions of the last apply
// and of the adapter, the times, the owner and the failure. The owner is completed from the request of a binding.
// Workspace, Condition, Resources and Error are empty; the caller sets them, and replaces Tofu by the version that
// wrote the state if that is known. The record must not be nil.
func (r *StateRecord) Entry() Entry {
	kind, id := r.KindAndID()
	return Entry{
		Identity: Identity{
			Kind: kind, ID: id, InstanceID: r.InstanceID, Deployment: r.Deployment, Service: r.Service, Plan: r.Plan,
		},
		AppliedWith: r.AppliedWith, Adapter: r.Adapter, Times: r.Times, Owner: r.Or(record.OwnerOf(r.Request)),
		Failure: r.Failure,
	}
}

// ConditionOf returns the condition of the binding or the instance with this state and this record. Neither may be nil;
// of the record, only Imported is used. The condition is the first of these that applies:
//
//   - Complete if the state contains the mark of a complete apply of its record. A destroy removes the mark before it
//     destroys resources; a later apply of the same record that fails leaves it.
//   - Importing if an import was not finished.
//   - Deleting if an apply was complete once and, after the last complete one, a destroy began or Workspace.Forget
//     removed a resource from the state.
//   - Changing if any apply was ever complete.
//   - Creating otherwise, also after a destroy of an unfinished creation has begun.
//
// ConditionOf never returns Unreadable.
func ConditionOf(state *statestore.State, record *StateRecord) Condition {
	switch {
	case state.Complete:
		return Complete
	case record.Importing(state):
		return Importing
	case state.Destroying:
		return Deleting
	case state.Applied != nil:
		return Changing
	default:
		return Creating
	}
}

// Lookup returns the content of the binding or the instance with this id. The kind must be Binding or Instance. If the
// name of its workspace contains a hash instead of the id, that name is accepted as the id; no other workspace name is.
// A state or record that cannot be read or decoded is not an error; the condition is Unreadable then, and Stored.Error
// is the reason.
//
// Lookup is not read-only: an empty workspace is deleted if OpenTofu has to read it, and an incomplete state file of
// the backend local is restored. It waits for a running command only if that holds the lock of such a state; see
// workspace.Engine.Peek.
//
// Lookup returns nil and an error that wraps ErrNotStored if the state backend has no such workspace or an empty one.
// The error is also set, and the content nil, if the backend cannot be reached, the state is locked (*statelock.Error),
// the context ends, or no pak has a usable OpenTofu.
func (m *Manager) Lookup(ctx context.Context, kind Kind, id string) (*Stored, error) {
	reader, err := m.StateReader(ctx, nil)
	if err != nil {
		return nil, err
	}
	name := workspaceByIDOrName(kind, id)
	state, err := m.Engine.Peek(ctx, reader, name)
	switch {
	case ctx.Err() != nil || stateUnreachable(err):
		return nil, cmp.Or(err, ctx.Err())
	case err == nil && state == nil:
		return nil, fmt.Errorf("%s %q: %w", kind, id, ErrNotStored)
	}
	stored := newStored(name, state, err)
	return &stored, nil
}

// UnfinishedDeletion is the message for a request that cannot be fulfilled because the deletion of the instance was
// begun and is not complete: it is running, failed or was interrupted.
const UnfinishedDeletion = "the deletion of the service instance is not finished: delete the service instance again"

// CheckUsable returns a *fault.UserError that asks to delete the service instance again if the condition, which must
// be that of an instance and not of a binding, is Deleting. It returns nil for every other condition, including
// Unreadable and "".
func (c Condition) CheckUsable() error {
	if c != Deleting {
		return nil
	}
	return &fault.UserError{Message: UnfinishedDeletion}
}

// AppliedOutputs returns the outputs of the instance with this id, by name and including sensitive ones, and the
// condition of the instance. If the condition is Complete, the outputs are those in the state. Otherwise they are
// those of the last complete apply, which the record keeps for bindings if an errand applies the template. If the
// record keeps none, they are those in the state, which a later incomplete apply or destroy may have changed. The map
// may be empty if the template has no outputs. AppliedOutputs reads the state like Lookup: it may delete an empty
// workspace and restore an incomplete state file of the backend local, and waits for a running command only if that
// holds the lock of such a state.
//
// The error is a *fault.UserError if no apply was ever complete; it also wraps ErrNotStored if the state backend has no
// state of the instance, in which case the condition is "". If the state or the record cannot be read, AppliedOutputs
// returns another error, with the condition Unreadable. If the backend cannot be reached, the state is locked, the
// context ends or no pak has a usable OpenTofu, it returns an error with the condition "". The outputs are nil after
// every error.
func (m *Manager) AppliedOutputs(ctx context.Context, instanceID string) (map[string]any, Condition, error) {
	stored, err := m.Lookup(ctx, Instance, instanceID)
	switch {
	case errors.Is(err, ErrNotStored):
		return nil, "", notReady(nil, err)
	case err != nil:
		return nil, "", fmt.Errorf("reading the outputs of instance %q: %w", instanceID, err)
	case stored.Record == nil:
		return nil, stored.Condition, fmt.Errorf("reading the outputs of instance %q: %s", instanceID, stored.Error)
	case stored.State.Applied == nil:
		err := fmt.Errorf("instance %q is %s", instanceID, stored.Condition)
		return nil, stored.Condition, notReady(stored.Record.Failure, err)
	case stored.Condition != Complete && len(stored.Record.Outputs) > 0:
		return stored.Record.Outputs, stored.Condition, nil
	default: // includes a change of an instance that a request created before errands applied its template
		return stored.State.Outputs, stored.Condition, nil
	}
}

// notReady returns the *fault.UserError for an instance without any complete apply. failure, which may be nil, is that
// of the last errand: the message for the user contains its User text, or asks to contact the operator if that is "",
// and the error for operators contains its Operator text. Without a failure, the message asks the user to try again
// later. err is wrapped for operators.
func notReady(failure *Failure, err error) error {
	message := "The service instance is not ready: its resources have not been created yet"
	if failure == nil {
		return &fault.UserError{Message: message + ". Try again when its creation has ended.", Err: err}
	}
	if failure.User != "" {
		message += ". The last attempt failed: " + failure.User
	} else {
		message += ", and the last attempt failed. Contact your operator."
	}
	return &fault.UserError{
		Message: message,
		Err:     fmt.Errorf("%w; the last errand %s failed: %s", err, record.ApplyErrand, failure.Operator),
	}
}
