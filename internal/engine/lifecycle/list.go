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

// A Condition says how far the creation, change, import or deletion of a binding or an instance has progressed.
type Condition string

// The conditions.
const (
	Complete   Condition = "complete"
	Creating   Condition = "creating"   // the creation is running or was interrupted
	Changing   Condition = "changing"   // a change is running, failed or was interrupted
	Importing  Condition = "importing"  // an import is running or was interrupted
	Deleting   Condition = "deleting"   // the deletion is running, failed or was interrupted
	Unreadable Condition = "unreadable" // the state or the record cannot be read
)

// An Entry describes a stored binding or instance, as lists and logs show it. It contains no secrets. Its JSON form is
// one object with the fields of all parts.
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
	// if that did not fail.
	Failure *Failure `json:"last_failure,omitempty"`
	// Error is the reason why Condition is Unreadable, and "" otherwise.
	Error string `json:"error,omitempty"`
}

// An Identity names a binding or an instance, its workspace, and what it belongs to. Only ID is always set; the other
// fields are "" where they are unknown.
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

// A Stored is the complete content of a workspace: its entry, and the state and record, which contain secrets. Its JSON
// form is that of the entry.
type Stored struct {
	Entry
	// State is nil if it cannot be read, and in the results of List. Record is nil in the same cases, and if only the
	// record cannot be read.
	State  *statestore.State `json:"-"`
	Record *StateRecord      `json:"-"`
}

// ErrNotStored means that the state backend has no state of a binding or an instance.
var ErrNotStored = errors.New("the state backend has none")

// A Progress function is called with done, the number of states that were read, and total, the number of all states to
// read. Functions that take one accept nil.
type Progress func(done, total int)

// List returns the entries of all bindings or instances, without their states and records, sorted by workspace. The
// kind "" selects both. A workspace that cannot be read has an entry with the condition Unreadable; one that was
// removed meanwhile has none. List does not wait for running commands. It deletes empty workspaces; see
// workspace.Engine.Peek. It calls progress after each state; progress may be nil.
//
// It returns an error if no pak has a usable OpenTofu, if the workspaces cannot be listed, or if the context ends. The
// entries that are returned with an error are incomplete.
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

// Walk calls visit with each workspace that List returns, in the same order, with its state and record; see Stored for
// its fields if one of them cannot be read. Walk ends at the first error of visit, and returns it. The side effects,
// the other errors, and progress are those of List.
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

// Workspaces returns the sorted names of the workspaces of a kind, or of both kinds for "". It does not read their
// states, and omits workspaces whose names the adapter did not choose. It returns an error if no pak has a usable
// OpenTofu or the backend cannot list its workspaces.
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

// newStored returns the content of the workspace with this name. The state must not be nil unless err, the error of
// reading it, is set. If err is set or the record cannot be decoded, the entry's condition is Unreadable.
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

// Entry returns the part of an Entry that the record contains. The caller sets the others: Workspace, Condition,
// Resources and Error. The record must not be nil.
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

// ConditionOf returns the condition of the binding or the instance with this state and this record. Neither may be nil.
// The condition is the first of these that applies: Complete if the last apply of the stored record was complete and no
// destroy began since, Importing if an import was not finished, Deleting if a destroy began after the last complete
// apply, Changing if any apply was ever complete, and Creating otherwise. ConditionOf never returns Unreadable.
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

// Lookup returns the content of the binding or the instance with an id, without waiting for running commands. If the
// name of its workspace contains a hash instead of the id, that name is accepted as the id; no other workspace name is.
// A state or record that cannot be read or decoded is not an error; the condition is Unreadable then, and Stored.Error
// is the reason.
//
// The error wraps ErrNotStored if the state backend has no such workspace, or an empty one, which is deleted. It is
// also an error if the backend cannot be reached, the state is locked, the context ends, or no pak has a usable
// OpenTofu.
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
// begun.
const UnfinishedDeletion = "the deletion of the service instance was begun and not finished: " +
	"delete the service instance again"

// CheckUsable returns a *fault.UserError if the condition is Deleting, and nil otherwise.
func (c Condition) CheckUsable() error {
	if c != Deleting {
		return nil
	}
	return &fault.UserError{Message: UnfinishedDeletion}
}

// AppliedOutputs returns the outputs of the last complete apply of an instance, including sensitive ones, and the
// condition of the instance. If the last apply is not complete, the outputs are those that the record keeps for
// bindings, or those in the state if it keeps none. AppliedOutputs does not wait for running commands.
//
// The error is a *fault.UserError if no apply was ever complete; it also wraps ErrNotStored if the state backend has no
// state of the instance, in which case the condition is "". If the record cannot be read, AppliedOutputs returns
// another error, with the condition Unreadable. If the backend cannot be reached or no pak has a usable OpenTofu, it
// returns an error with the condition "".
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
