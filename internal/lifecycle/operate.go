package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/tfjson"
	"service-adapter/internal/tofu"
)

// audited does a change of a binding or an instance under the audit.
func (m *Manager) audited(ctx context.Context, kind Kind, id string, change func(found func(Entry)) error) error {
	if m.Audit == nil {
		return change(func(Entry) {})
	}
	return m.Audit(ctx, Entry{Kind: kind, ID: id}, change)
}

// OnStored changes a binding or instance that is stored, in the given conditions only, or in any, within its time.
func (m *Manager) OnStored(
	ctx context.Context, kind Kind, id string, only []Condition, work func(ctx context.Context, space *tofu.Workspace, stored *Stored) error,
) error {
	return m.audited(ctx, kind, id, func(found func(Entry)) error {
		ctx, cancel := m.WithLimit(ctx, kind)
		defer cancel()
		space, stored, err := m.Take(ctx, kind, id)
		if err != nil {
			return err
		}
		defer m.Close(space)
		defer func() { found(stored.Entry) }()
		if err := checkCondition(stored.Condition, only); err != nil {
			return err
		}
		return work(ctx, space, stored)
	})
}

// onWorkspace changes a workspace of which nothing need be stored or readable, within the budget.
func (m *Manager) onWorkspace(
	ctx context.Context, name string, work func(ctx context.Context, space *tofu.Workspace, reader opentofu.Installation) error,
) error {
	kind, id, _ := Named(name)
	return m.audited(ctx, kind, id, func(found func(Entry)) error {
		ctx, cancel := WithBudget(ctx, m.Budget)
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
		if err := work(ctx, space, reader); err != nil || m.Audit == nil {
			return err
		}
		if stored, err := m.Read(ctx, kind, id); err == nil && stored.Record != nil { // not before: it may have been locked or unreadable
			found(stored.Entry)
		}
		return nil
	})
}

// Forget drops what is stored of a binding or instance, in the given conditions only, or in any, and lets everything that it made exist.
// It returns what was dropped.
func (m *Manager) Forget(ctx context.Context, kind Kind, id string, only ...Condition) (*Stored, error) {
	var dropped *Stored
	err := m.OnStored(ctx, kind, id, only, func(ctx context.Context, space *tofu.Workspace, stored *Stored) error {
		dropped = stored
		reader, err := m.Reader(ctx, nil)
		if err != nil {
			return err
		}
		if err := space.Forget(ctx, reader, stored.Resources...); err != nil {
			return err
		}
		return space.Remove(ctx, reader)
	})
	return dropped, err
}

// Unlock releases the lock of the state that the lock's id names, "" for whichever there is; that there is none is fine. A run of this
// machine that is under way is waited for within the budget, and it is an error when it does not end.
func (m *Manager) Unlock(ctx context.Context, kind Kind, id, lock string) error {
	return m.onWorkspace(ctx, workspaceOf(kind, id), func(ctx context.Context, space *tofu.Workspace, reader opentofu.Installation) error {
		return space.Unlock(ctx, reader, lock)
	})
}

// Reencrypt stores the state of a workspace with the current key where it is not. It reports whether it did.
func (m *Manager) Reencrypt(ctx context.Context, workspace string) (changed bool, err error) {
	err = m.onWorkspace(ctx, workspace, func(ctx context.Context, space *tofu.Workspace, reader opentofu.Installation) (err error) {
		changed, err = space.Reencrypt(ctx, reader)
		return err
	})
	return changed, err
}

// Save puts the state of a workspace that an earlier run could not save into the backend.
func (m *Manager) Save(ctx context.Context, workspace string) error {
	return m.onWorkspace(ctx, workspace, func(ctx context.Context, space *tofu.Workspace, reader opentofu.Installation) error {
		_, err := space.State(ctx, reader)
		return err
	})
}

// Upgraded says what an upgrade did.
type Upgraded struct {
	From, To string // versions of OpenTofu; equal when there was nothing to do
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
	pak := m.newest(stored.Pak)
	if pak == nil {
		return nil, nil, fmt.Errorf("no installed pak is named %q, which made it; add it to `paks`", stored.Pak)
	}
	path, err := upgradePath(pak, stored.Tofu, stored.Condition)
	return pak, path, err
}

// UpgradeStored upgrades a binding or instance to the OpenTofu of the pak that made it, with the template and the inputs that it was
// made with.
func (m *Manager) UpgradeStored(ctx context.Context, kind Kind, id string) (*Upgraded, error) {
	var done *Upgraded
	err := m.OnStored(ctx, kind, id, nil, func(ctx context.Context, space *tofu.Workspace, stored *Stored) error {
		if stored.Record == nil {
			return errors.New(stored.Error)
		}
		pak, path, err := m.path(stored)
		if err != nil {
			return err
		}
		done = &Upgraded{From: stored.Tofu, To: stored.Tofu}
		if len(path) == 0 {
			return nil
		}
		if stored.Condition != Complete && stored.Condition != Changing {
			return fmt.Errorf("it is %s: finish or delete it first", stored.Condition)
		}
		done.To = path[len(path)-1]
		err = m.Upgrade(ctx, space, stored.State, pak, stored.Record)
		if err == nil {
			stored.Tofu, stored.PakVersion = done.To, pak.Manifest.Version
		}
		return err
	})
	return done, err
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
	return m.OnStored(ctx, kind, id, only, func(ctx context.Context, space *tofu.Workspace, stored *Stored) error {
		if stored.Record == nil {
			return errors.New(stored.Error)
		}
		err := m.Destroy(ctx, Destruction{Space: space, State: stored.State, Record: stored.Record, Inputs: stored.Record.Inputs})
		if err == nil || ctx.Err() != nil {
			return err
		}
		reader, readErr := m.Reader(ctx, nil)
		if readErr != nil {
			return err
		}
		if state, readErr := space.State(ctx, reader); readErr == nil && state != nil && len(state.Resources) > 0 {
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
	err = onTemplate(ctx, m, kind, id, func(ctx context.Context, space *tofu.Workspace, stored *Stored, prepared *tofu.Prepared) (err error) {
		switch version := prepared.Tofu(); {
		case stored.Condition == Importing:
			return errors.New("its import was not finished: the next update of the instance imports again")
		case opentofu.Older(stored.State.TofuVersion, version):
			return fmt.Errorf("its state was written by OpenTofu %s and the pak has %s: upgrade it first", stored.Tofu, version)
		case !dryRun:
			return space.Apply(ctx, prepared, stored.Record.Inputs)
		}
		changes, err = space.Plan(ctx, prepared, stored.Record.Inputs, false)
		return err
	})
	return changes, err
}

// Drift tells what of a binding or instance differs from its state, with the inputs that it was made with, and changes nothing. Of one that
// is not complete nobody can tell what should exist: then the condition is all that it tells.
func (m *Manager) Drift(ctx context.Context, kind Kind, id string) (changes []tfjson.Change, condition Condition, err error) {
	err = onTemplate(ctx, silent(m), kind, id, func(ctx context.Context, space *tofu.Workspace, stored *Stored, prepared *tofu.Prepared) (err error) {
		if condition = stored.Condition; condition == Complete {
			changes, err = space.Plan(ctx, prepared, stored.Record.Inputs, true)
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

// onTemplate works on a binding or instance with the template that it was made with.
func onTemplate(
	ctx context.Context, m *Manager, kind Kind, id string,
	work func(ctx context.Context, space *tofu.Workspace, stored *Stored, prepared *tofu.Prepared) error,
) error {
	return m.OnStored(ctx, kind, id, nil, func(ctx context.Context, space *tofu.Workspace, stored *Stored) error {
		if stored.Record == nil {
			return errors.New(stored.Error)
		}
		installation, missing, err := m.installationFor(ctx, stored.Record)
		if err != nil {
			return err
		}
		prepared, err := m.Engine.Prepare(ctx, installation, stored.Record.Template())
		if err != nil {
			return errors.Join(missing, err)
		}
		return work(ctx, space, stored, prepared)
	})
}
