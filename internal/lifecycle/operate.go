package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"service-adapter/brokerpak"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tfjson"
	"service-adapter/internal/tofu"
)

// Held is the workspace of a binding or an instance that an operator's change works on, and what of it the change needs.
type Held struct {
	*Stored // nil where nothing need be stored or readable
	Space   tofu.Surgery
	reader  opentofu.Installation // reads the state
	// prepared is the template that it was made with, for onTemplate.
	prepared *tofu.Prepared
}

// onWorkspace changes the workspace of this name under the audit, to which it is about an entry, and within a time. The change tells the
// audit what is stored.
func (m *Manager) onWorkspace(
	ctx context.Context, name string, about Entry, limit time.Duration, work func(ctx context.Context, h *Held, found func(Entry)) error,
) error {
	change := func(found func(Entry)) error {
		ctx, cancel := m.WithLimit(ctx, limit)
		defer cancel()
		reader, err := m.Reader(ctx, nil)
		if err != nil {
			return err
		}
		space, err := m.Engine.Open(ctx, name)
		if err != nil {
			return err
		}
		defer m.Close(space)
		return work(ctx, &Held{Space: tofu.Surgery{Workspace: space}, reader: reader}, found)
	}
	if m.Audit == nil {
		return change(func(Entry) {})
	}
	return m.Audit(ctx, about, change)
}

// onAny changes a workspace, whoever named it, of which nothing need be stored or readable, within the budget.
func (m *Manager) onAny(ctx context.Context, name string, work func(ctx context.Context, h *Held) error) error {
	kind, id, _ := Named(name)
	return m.onWorkspace(ctx, name, Entry{Kind: kind, ID: cmp.Or(id, name)}, m.Budget, func(ctx context.Context, h *Held, found func(Entry)) error {
		if err := work(ctx, h); err != nil || m.Audit == nil {
			return err
		}
		state, err := m.Engine.Peek(ctx, h.reader, name) // not before: it may have been locked or unreadable
		if err != nil || state == nil {
			return nil //nolint:nilerr // the change is made
		}
		if stored := newStored(name, state, nil); stored.Record != nil {
			found(stored.Entry)
		}
		return nil
	})
}

// onStored changes a binding or instance that is stored, in the given conditions only, or in any, within its time: the error is
// ErrNotStored when there is none.
func (m *Manager) onStored(ctx context.Context, kind Kind, id string, only []Condition, work func(ctx context.Context, h *Held) error) error {
	name, about := workspaceOf(kind, id), Entry{Kind: kind, ID: id}
	return m.onWorkspace(ctx, name, about, m.Limit(kind), func(ctx context.Context, h *Held, found func(Entry)) error {
		state, err := h.Space.State(ctx, h.reader)
		switch {
		case err != nil:
			return err
		case state == nil:
			return fmt.Errorf("%s %q: %w", kind, id, ErrNotStored)
		}
		stored := newStored(name, state, nil)
		h.Stored = &stored
		defer func() { found(stored.Entry) }()
		if err := checkCondition(stored.Condition, only); err != nil {
			return err
		}
		return work(ctx, h)
	})
}

// OnRecorded changes a binding or instance whose record can be read, in the given conditions only, or in any, under the audit and within its
// time. The error is ErrNotStored when there is none.
func (m *Manager) OnRecorded(ctx context.Context, kind Kind, id string, only []Condition, work func(ctx context.Context, h *Held) error) error {
	return m.onStored(ctx, kind, id, only, func(ctx context.Context, h *Held) error {
		if h.Record == nil {
			return errors.New(h.Error)
		}
		return work(ctx, h)
	})
}

// onTemplate works on a binding or instance with the template that it was made with.
func (m *Manager) onTemplate(ctx context.Context, kind Kind, id string, work func(ctx context.Context, h *Held) error) error {
	return m.OnRecorded(ctx, kind, id, nil, func(ctx context.Context, h *Held) error {
		installation, missing, err := m.installationFor(ctx, h.Record)
		if err != nil {
			return err
		}
		if h.prepared, err = m.Engine.Prepare(ctx, installation, h.Record.Template()); err != nil {
			return errors.Join(missing, err)
		}
		return work(ctx, h)
	})
}

// Forget drops what is stored of a binding or instance, in the given conditions only, or in any, and lets everything that it made exist.
// It returns what was dropped.
func (m *Manager) Forget(ctx context.Context, kind Kind, id string, only ...Condition) (dropped *Stored, err error) {
	err = m.onStored(ctx, kind, id, only, func(ctx context.Context, h *Held) error {
		dropped = h.Stored
		if err := h.Space.Forget(ctx, h.reader, h.Resources...); err != nil {
			return err
		}
		return h.Space.Remove(ctx, h.reader)
	})
	return dropped, err
}

// Unlock releases the lock of the state that the lock's id names, "" for whichever there is; that there is none is fine. A run of this
// machine that is under way is waited for within the budget, and it is an error when it does not end.
func (m *Manager) Unlock(ctx context.Context, kind Kind, id, lock string) error {
	return m.onAny(ctx, workspaceOf(kind, id), func(ctx context.Context, h *Held) error { return h.Space.Unlock(ctx, h.reader, lock) })
}

// Reencrypt stores the state of a workspace with the current key where it is not. It reports whether it did.
func (m *Manager) Reencrypt(ctx context.Context, workspace string) (changed bool, err error) {
	err = m.onAny(ctx, workspace, func(ctx context.Context, h *Held) (err error) {
		changed, err = h.Space.Reencrypt(ctx, h.reader)
		return err
	})
	return changed, err
}

// Save puts the state of a workspace that an earlier run could not save into the backend.
func (m *Manager) Save(ctx context.Context, workspace string) error {
	return m.onAny(ctx, workspace, func(ctx context.Context, h *Held) error {
		_, err := h.Space.State(ctx, h.reader)
		return err
	})
}

// Current tells of what List or Read returned whether an upgrade would have nothing to do. What cannot be read is not current.
func (m *Manager) Current(stored *Stored) bool {
	if stored.Condition == Unreadable {
		return false
	}
	_, path, err := m.path(stored)
	return err == nil && len(path) == 0
}

// path returns the newest installed pak of the name of the one that made something, and the versions of OpenTofu to walk through.
func (m *Manager) path(stored *Stored) (*brokerpak.Pak, []string, error) {
	pak := m.pakOf(stored.Pak, "")
	if pak == nil {
		return nil, nil, fmt.Errorf("no installed pak is named %q, which made it; add it to `paks`", stored.Pak)
	}
	path, err := upgradePath(pak, stored.Tofu, stored.Condition)
	return pak, path, err
}

// UpgradeStored upgrades a binding or instance to the OpenTofu of the pak that made it, with the template and the inputs that it was
// made with. It returns the versions of OpenTofu before and after, which are equal when there was nothing to do.
func (m *Manager) UpgradeStored(ctx context.Context, kind Kind, id string) (from, to string, err error) {
	err = m.OnRecorded(ctx, kind, id, nil, func(ctx context.Context, h *Held) error {
		pak, path, err := m.path(h.Stored)
		if err != nil {
			return err
		}
		from, to = h.Tofu, h.Tofu
		if len(path) == 0 {
			return nil
		}
		if h.Condition != Complete && h.Condition != Changing {
			return fmt.Errorf("it is %s: finish or delete it first", h.Condition)
		}
		to = path[len(path)-1]
		err = m.Upgrade(ctx, h.Space.Workspace, h.State, pak, h.Record)
		if err == nil {
			h.Tofu, h.PakVersion = to, pak.Manifest.Version
		}
		return err
	})
	return from, to, err
}

// checkCondition refuses what is in none of the conditions, of which none means any: what was listed as unfinished may have been under
// way, and be finished by now.
func checkCondition(found Condition, only []Condition) error {
	if len(only) == 0 || slices.Contains(only, found) {
		return nil
	}
	return fmt.Errorf("it is %s by now", found)
}

// DestroyStored destroys a binding or instance with the inputs that it was made with, in the given conditions only, or in any. An error
// names the resources that are left.
func (m *Manager) DestroyStored(ctx context.Context, kind Kind, id string, only ...Condition) error {
	return m.OnRecorded(ctx, kind, id, only, func(ctx context.Context, h *Held) error {
		err := m.Destroy(ctx, Destruction{Space: h.Space.Workspace, State: h.State, Record: h.Record, Inputs: h.Record.Inputs})
		if err == nil || ctx.Err() != nil {
			return err
		}
		if state, readErr := h.Space.State(ctx, h.reader); readErr == nil && state != nil && len(state.Resources) > 0 {
			err = fmt.Errorf("%w; these are left: %s", err, strings.Join(state.Resources, ", "))
		}
		return err
	})
}

// ApplyStored applies the template of a binding or instance once more, with the inputs that it was made with: what was changed behind
// OpenTofu's back is as it was, and what an interruption left is finished. A dry run only tells what that does to which resource.
func (m *Manager) ApplyStored(ctx context.Context, kind Kind, id string, dryRun bool) (changes []tfjson.Change, err error) {
	if dryRun {
		m = silent(m)
	}
	err = m.onTemplate(ctx, kind, id, func(ctx context.Context, h *Held) (err error) {
		switch version := h.prepared.Tofu(); {
		case h.Condition == Importing:
			return errors.New("its import was not finished: the next update of the instance imports again")
		case opentofu.Older(h.State.TofuVersion, version):
			return fmt.Errorf("its state was written by OpenTofu %s and the pak has %s: upgrade it first", h.Tofu, version)
		case !dryRun:
			return h.Space.Apply(ctx, h.prepared, h.Record.Inputs)
		}
		changes, err = h.Space.Plan(ctx, h.prepared, h.Record.Inputs, false)
		return err
	})
	return changes, err
}

// Drift tells what of a binding or instance differs from its state, with the inputs that it was made with, and changes nothing. Of one that
// is not complete nobody can tell what should exist: then the condition is all that it tells.
func (m *Manager) Drift(ctx context.Context, kind Kind, id string) (changes []tfjson.Change, condition Condition, err error) {
	err = silent(m).onTemplate(ctx, kind, id, func(ctx context.Context, h *Held) (err error) {
		if condition = h.Condition; condition == Complete {
			changes, err = h.Space.Plan(ctx, h.prepared, h.Record.Inputs, true)
		}
		return err
	})
	return changes, condition, err
}

// silent is a manager for work that changes nothing, which is not audited.
func silent(m *Manager) *Manager {
	reading := *m
	reading.Audit = nil
	return &reading
}

// PushState stores the content of a file as the state of a binding or instance, which need not exist: a state in clear text, or a copy that
// this package kept. It refuses what is none of this binding or instance, and, unless it is forced, what does not follow the stored state.
// It returns the path of a copy of what was stored before; "" when there was nothing.
func (m *Manager) PushState(ctx context.Context, kind Kind, id string, file []byte, force bool) (backup string, err error) {
	name := workspaceOf(kind, id)
	err = m.onAny(ctx, name, func(ctx context.Context, h *Held) error {
		text := m.Engine.OpenState(file)
		state, err := statestore.Parse(text)
		if err != nil || state == nil {
			return cmp.Or(err, errors.New("the file holds no state"))
		}
		record, err := DecodeRecord(state.Record)
		switch {
		case err != nil:
			return err
		case state.Nonce == "" || Workspace(record.Of()) != name:
			return errors.New("it is the state of another binding or instance")
		case opentofu.Older(h.reader.Version, state.TofuVersion):
			return fmt.Errorf("%w: by %s, and this is %s", tofu.ErrNewerState, state.TofuVersion, h.reader.Version)
		}
		before, err := h.Space.State(ctx, h.reader)
		if err == nil && before != nil {
			backup, err = h.Space.Backup(before)
		}
		if err != nil {
			return err
		}
		return h.Space.Push(ctx, h.reader, text, force)
	})
	return backup, err
}

// ExecState runs a command of OpenTofu in the workspace of a binding or instance, with the template and the inputs that it was made with.
// It returns the path of a copy of the state before; "" when the state did not change.
func (m *Manager) ExecState(ctx context.Context, kind Kind, id string, terminal opentofu.Terminal, args ...string) (backup string, err error) {
	err = m.onTemplate(ctx, kind, id, func(ctx context.Context, h *Held) error {
		if backup, err = h.Space.Backup(h.State); err != nil {
			return err
		}
		changed, err := h.Space.Exec(ctx, h.prepared, h.Record.Inputs, terminal, args...)
		if !changed {
			err, backup = errors.Join(err, os.Remove(backup)), ""
		}
		return err
	})
	return backup, err
}

// SetAside keeps the state of a binding or instance that nobody can read under another name, which it returns, so that nothing is stored of
// the binding or instance any more.
func (m *Manager) SetAside(ctx context.Context, kind Kind, id string) (name string, err error) {
	err = m.onAny(ctx, workspaceOf(kind, id), func(ctx context.Context, h *Held) (err error) {
		name, err = h.Space.SetAside(ctx, h.reader)
		return err
	})
	return name, err
}
