package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"service-adapter/internal/fault"
	"service-adapter/internal/record"
	"service-adapter/internal/statestore"
)

// Condition says how far a binding or instance has got.
type Condition string

// The conditions.
const (
	Complete   Condition = "complete"
	Creating   Condition = "creating"   // it was never finished: interrupted, or under way
	Changing   Condition = "changing"   // a change of it was not finished
	Importing  Condition = "importing"  // an import was not finished
	Deleting   Condition = "deleting"   // its deletion was not finished
	Unreadable Condition = "unreadable" // its state or its record cannot be read
)

// Entry is what is stored of a binding or instance. It holds no secrets.
type Entry struct {
	Workspace  string    `json:"workspace"`
	Kind       Kind      `json:"kind"`
	ID         string    `json:"id"`
	InstanceID string    `json:"instance_id,omitempty"`
	Deployment string    `json:"deployment,omitempty"`
	Service    string    `json:"service,omitempty"`
	Plan       string    `json:"plan,omitempty"`
	Pak        string    `json:"pak,omitempty"`
	PakVersion string    `json:"pak_version,omitempty"`
	Tofu       string    `json:"tofu_version,omitempty"`
	Condition  Condition `json:"condition"`
	// CreatedAt and UpdatedAt are those of the record.
	CreatedAt string `json:"created_at,omitempty"`
	UpdatedAt string `json:"updated_at,omitempty"`
	record.Owner
	// Resources are addresses without instance keys, sorted.
	Resources []string `json:"resources,omitempty"`
	// Failure is why the last errand failed that applied it; nil when it did not.
	Failure *Failure `json:"last_failure,omitempty"`
	// Error says why the condition is unreadable.
	Error string `json:"error,omitempty"`
}

// Stored is an entry with everything that is stored, secrets too.
type Stored struct {
	Entry
	// State and Record are nil where they cannot be read.
	State  *statestore.State `json:"-"`
	Record *Record           `json:"-"`
}

// ErrNotStored says that there is no such binding or instance.
var ErrNotStored = errors.New("the state backend has none")

// Progress is told how many of how many states were read.
type Progress func(done, total int)

// List returns an entry for everything of a kind that the state backend has, "" for both kinds, sorted by workspace. What cannot be read
// is an entry that says so. Runs that are under way are not waited for. progress may be nil.
func (m *Manager) List(ctx context.Context, kind Kind, progress Progress) ([]Stored, error) {
	var all []Stored
	err := m.Walk(ctx, kind, progress, func(stored *Stored) error {
		all = append(all, Stored{Entry: stored.Entry}) // the states of all would be too much to keep
		return nil
	})
	return all, err
}

// readAtOnce is how many states are in memory at the same time.
const readAtOnce = 64

// Walk reads what List lists, with what is stored, and visits it in that order until an error.
func (m *Manager) Walk(ctx context.Context, kind Kind, progress Progress, visit func(stored *Stored) error) error {
	names, err := m.Workspaces(ctx, kind)
	if err != nil {
		return err
	}
	reader, err := m.Reader(ctx, nil)
	if err != nil {
		return err
	}
	done := 0
	for some := range slices.Chunk(names, readAtOnce) {
		read := make([]Stored, len(some))
		m.Engine.PeekAll(ctx, reader, some, func(n int, state *statestore.State, err error) {
			if state != nil || err != nil { // else it was removed since the names were read
				read[n] = newStored(some[n], state, err)
			}
		})
		for n := range read {
			if err := ctx.Err(); err != nil {
				return err
			}
			done++
			if progress != nil {
				progress(done, len(names))
			}
			if read[n].Workspace == "" {
				continue
			}
			if err := visit(&read[n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Workspaces returns the names of the workspaces of a kind, "" for both kinds, sorted. It reads none of them.
func (m *Manager) Workspaces(ctx context.Context, kind Kind) ([]string, error) {
	reader, err := m.Reader(ctx, nil)
	if err != nil {
		return nil, err
	}
	all, err := m.Engine.Workspaces(ctx, reader)
	if err != nil {
		return nil, err
	}
	var wanted []string
	for _, name := range all {
		if found, _, ok := Named(name); ok && (kind == "" || kind == found) {
			wanted = append(wanted, name)
		}
	}
	return wanted, nil
}

// newStored describes a workspace by its state, or by the error of reading it.
func newStored(name string, state *statestore.State, err error) Stored {
	kind, id, _ := Named(name)
	stored := Stored{Entry: Entry{Workspace: name, Kind: kind, ID: id, Condition: Unreadable}, State: state}
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

// Entry is what the record tells of the binding or instance.
func (r *Record) Entry() Entry {
	entry := Entry{
		InstanceID: r.InstanceID, Deployment: r.Deployment, Service: r.Service, Plan: r.Plan, Pak: r.Pak, PakVersion: r.PakVersion,
		Tofu: r.Tofu, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Owner: r.Or(record.OwnerOf(r.Request)), Failure: r.Failure,
	}
	entry.Kind, entry.ID = r.Of()
	return entry
}

// ConditionOf tells how far the binding or instance of a state and its record has got.
func ConditionOf(state *statestore.State, record *Record) Condition {
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

// Read reads a binding or instance without waiting for runs that are under way: the error is ErrNotStored when there is none.
func (m *Manager) Read(ctx context.Context, kind Kind, id string) (*Stored, error) {
	reader, err := m.Reader(ctx, nil)
	if err != nil {
		return nil, err
	}
	name := workspaceOf(kind, id)
	state, err := m.Engine.Peek(ctx, reader, name)
	switch {
	case ctx.Err() != nil || outOfReach(err):
		return nil, err
	case err == nil && state == nil:
		return nil, fmt.Errorf("%s %q: %w", kind, id, ErrNotStored)
	}
	stored := newStored(name, state, err)
	return &stored, nil
}

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
