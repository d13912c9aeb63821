package lifecycle

import (
	"context"
	"errors"
	"fmt"
)

// Forget drops what is stored of a binding or instance and lets everything that it made exist. It returns what was dropped.
func (m *Manager) Forget(ctx context.Context, kind Kind, id string) (*Stored, error) {
	space, stored, err := m.Take(ctx, kind, id)
	if err != nil {
		return nil, err
	}
	defer m.Close(space)
	reader, err := m.Reader(ctx, nil)
	if err != nil {
		return nil, err
	}
	if err := space.Forget(ctx, reader, stored.Resources...); err != nil {
		return nil, err
	}
	return stored, space.Remove(ctx, reader)
}

// Unlock releases the lock of the state that the lock's id names, "" for whichever there is. It does not wait for a run that is under way.
func (m *Manager) Unlock(ctx context.Context, kind Kind, id, lock string) error {
	reader, err := m.Reader(ctx, nil)
	if err != nil {
		return err
	}
	space, err := m.Engine.Open(ctx, Workspace(kind, id))
	if err != nil {
		return err
	}
	defer m.Close(space)
	return space.Unlock(ctx, reader, lock)
}

// Reencrypt stores the state of a workspace with the current key where it is not. It reports whether it did.
func (m *Manager) Reencrypt(ctx context.Context, workspace string) (bool, error) {
	reader, err := m.Reader(ctx, nil)
	if err != nil {
		return false, err
	}
	space, err := m.Engine.Open(ctx, workspace)
	if err != nil {
		return false, err
	}
	defer m.Close(space)
	return space.Reencrypt(ctx, reader)
}

// Upgraded says what an upgrade did.
type Upgraded struct {
	From, To string // versions of OpenTofu; equal when there was nothing to do
}

// UpgradeStored upgrades a binding or instance to the OpenTofu of the pak that made it, with the template and the inputs that it was
// made with.
func (m *Manager) UpgradeStored(ctx context.Context, kind Kind, id string) (*Upgraded, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Budget)
	defer cancel()
	space, stored, err := m.Take(ctx, kind, id)
	if err != nil {
		return nil, err
	}
	defer m.Close(space)
	if stored.Record == nil {
		return nil, errors.New(stored.Error)
	}
	pak := m.pakOf(stored.Record)
	if pak == nil {
		return nil, fmt.Errorf("no installed pak is named %q, which made it", stored.Pak)
	}
	done := &Upgraded{From: stored.Tofu, To: stored.Tofu}
	path, err := UpgradePath(pak, stored.State)
	if err != nil || len(path) == 0 {
		return done, err
	}
	if stored.Condition != Complete && stored.Condition != Changing {
		return nil, fmt.Errorf("it is %s: finish or delete it first", stored.Condition)
	}
	done.To = path[len(path)-1]
	return done, m.Upgrade(ctx, Upgrading{Space: space, State: stored.State, Pak: pak, Record: stored.Record, Inputs: stored.Record.Inputs})
}

// DestroyStored destroys a binding or instance with the inputs that it was made with.
func (m *Manager) DestroyStored(ctx context.Context, kind Kind, id string) error {
	ctx, cancel := context.WithTimeout(ctx, m.Budget)
	defer cancel()
	space, stored, err := m.Take(ctx, kind, id)
	if err != nil {
		return err
	}
	defer m.Close(space)
	if stored.Record == nil {
		return errors.New(stored.Error)
	}
	return m.Destroy(ctx, Destruction{Space: space, State: stored.State, Record: stored.Record, Inputs: stored.Record.Inputs})
}

// ApplyStored applies the template of a binding or instance once more, with the inputs that it was made with: what was changed behind
// OpenTofu's back is as it was, and what an interruption left is finished.
func (m *Manager) ApplyStored(ctx context.Context, kind Kind, id string) error {
	ctx, cancel := context.WithTimeout(ctx, m.Budget)
	defer cancel()
	space, stored, err := m.Take(ctx, kind, id)
	if err != nil {
		return err
	}
	defer m.Close(space)
	switch {
	case stored.Record == nil:
		return errors.New(stored.Error)
	case stored.Condition == Importing:
		return errors.New("its import was not finished: the next update of the instance imports again")
	}
	installation, missing, err := m.installationFor(ctx, stored.Record)
	if err != nil {
		return err
	}
	if stored.State.OlderThan(installation.Version) {
		return fmt.Errorf("its state was written by OpenTofu %s and the pak has %s: upgrade it first", stored.Tofu, installation.Version)
	}
	prepared, err := m.Engine.Prepare(ctx, installation, stored.Record.Template())
	if err != nil {
		return errors.Join(missing, err)
	}
	return space.Apply(ctx, prepared, stored.Record.Inputs)
}
