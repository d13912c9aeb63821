package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
)

// changeWorkspace opens the workspace with this name, calls change with it and closes it. The workspace need not exist
// in the backend, and its state has not been read. The reader is an OpenTofu that can read it. The limit includes the
// wait for other runs on this machine; when it is reached, the context of change ends.
//
// If the manager has an Audit, the change is audited with the entry. change may call report with the entry that it has
// read from the state, which then replaces the other one; without an Audit, report does nothing. The error is that of
// change, of the Audit, of StateReader, or of opening the workspace. An error of closing it is only logged.
func (m *Manager) changeWorkspace(
	ctx context.Context, name string, entry Entry, limit time.Duration,
	change func(
		ctx context.Context, space *workspace.Workspace, reader opentofu.Installation, report func(Entry),
	) error,
) error {
	audited := func(report func(Entry)) error {
		ctx, cancel := m.WithLimit(ctx, limit)
		defer cancel()
		reader, err := m.StateReader(ctx, nil)
		if err != nil {
			return err
		}
		space, err := m.Engine.Open(ctx, name)
		if err != nil {
			return err
		}
		defer m.Close(space)
		return change(ctx, space, reader, report)
	}
	if m.Audit == nil {
		return audited(func(Entry) {})
	}
	return m.Audit(ctx, entry, audited)
}

// changeAny calls change with the workspace of this name, within the budget. Neither the state nor the record needs
// to exist or to be readable. The name may be one that the adapter did not choose. The errors are those of
// changeWorkspace, but an error of reading the state for the Audit is ignored.
func (m *Manager) changeAny(
	ctx context.Context, name string,
	change func(ctx context.Context, space *workspace.Workspace, reader opentofu.Installation) error,
) error {
	kind, id, _ := ParseWorkspace(name)
	entry := Entry{Identity: Identity{Kind: kind, ID: cmp.Or(id, name)}}
	work := func(
		ctx context.Context, space *workspace.Workspace, reader opentofu.Installation, report func(Entry),
	) error {
		if err := change(ctx, space, reader); err != nil || m.Audit == nil {
			return err
		}
		// The state is read only now, because it may have been locked or unreadable before the change.
		state, err := m.Engine.Peek(ctx, reader, name)
		if err != nil || state == nil {
			return nil //nolint:nilerr // the change has succeeded
		}
		if stored := newStored(name, state, nil); stored.Record != nil {
			report(stored.Entry)
		}
		return nil
	}
	return m.changeWorkspace(ctx, name, entry, m.Budget, work)
}

// changeStored calls change with the open workspace of a stored binding or instance and its content, within the time
// limit of its kind. The record may be unreadable; stored.Record is nil then. If conditions are allowed explicitly, any
// other condition is an error, and change is not called. See Lookup for the workspace names that are accepted as the
// id. The audit gets stored.Entry as change leaves it.
//
// The error wraps ErrNotStored if the state backend has no such workspace. The other errors are those of
// changeWorkspace and of reading the state.
func (m *Manager) changeStored(
	ctx context.Context, kind Kind, id string, allowed []Condition,
	change func(
		ctx context.Context, space *workspace.Workspace, reader opentofu.Installation, stored *Stored,
	) error,
) error {
	name, entry := workspaceByIDOrName(kind, id), Entry{Identity: Identity{Kind: kind, ID: id}}
	work := func(
		ctx context.Context, space *workspace.Workspace, reader opentofu.Installation, report func(Entry),
	) error {
		state, err := space.State(ctx, reader)
		switch {
		case err != nil:
			return err
		case state == nil:
			return fmt.Errorf("%s %q: %w", kind, id, ErrNotStored)
		}
		stored := newStored(name, state, nil)
		defer func() { report(stored.Entry) }()
		if err := checkCondition(stored.Condition, allowed); err != nil {
			return err
		}
		return change(ctx, space, reader, &stored)
	}
	return m.changeWorkspace(ctx, name, entry, m.Limit(kind), work)
}

// ChangeRecorded calls change with the open workspace of a binding or an instance and its content, under the manager's
// Audit and within the time limit of the kind. The State and the Record of stored are not nil. The Audit gets the entry
// in stored as change leaves it. The workspace is closed afterwards.
//
// See Lookup for the workspace names that are accepted as the id. The allowed conditions restrict the call; none means
// that every condition is allowed. The error wraps ErrNotStored if the state backend has no such workspace. It is also
// an error if the record cannot be read or the condition is not allowed. Other errors are those of change, of the
// Audit, and of opening the workspace and reading its state.
func (m *Manager) ChangeRecorded(
	ctx context.Context, kind Kind, id string, allowed []Condition,
	change func(ctx context.Context, space *workspace.Workspace, stored *Stored) error,
) error {
	return m.changeStored(ctx, kind, id, allowed, func(
		ctx context.Context, space *workspace.Workspace, _ opentofu.Installation, stored *Stored,
	) error {
		if stored.Record == nil {
			return errors.New(stored.Error)
		}
		return change(ctx, space, stored)
	})
}

// changeWithTemplate calls change with the open workspace of a binding or an instance in any condition, the prepared
// recorded template, and the content of the workspace. See ChangeRecorded for the accepted ids, the Audit, the time
// limit and the errors. It also returns an error if no OpenTofu can be found for the record or the template cannot be
// prepared. A recorded provider that no pak has is an error only if the template needs it.
func (m *Manager) changeWithTemplate(
	ctx context.Context, kind Kind, id string,
	change func(
		ctx context.Context, space *workspace.Workspace, prepared *templates.Prepared, stored *Stored,
	) error,
) error {
	return m.ChangeRecorded(ctx, kind, id, nil, func(
		ctx context.Context, space *workspace.Workspace, stored *Stored,
	) error {
		installation, missing, err := m.installationFor(ctx, stored.Record)
		if err != nil {
			return err
		}
		prepared, err := m.Engine.Prepare(ctx, installation, stored.Record.Template())
		if err != nil {
			return errors.Join(missing, err)
		}
		return change(ctx, space, prepared, stored)
	})
}
