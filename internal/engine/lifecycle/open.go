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

// changeWorkspace opens the workspace with this name, calls change with it and closes it. The workspace need not
// exist in the backend, and its state has not been read; reader is an OpenTofu that can read it. The limit, which
// must be greater than 0, includes the wait for other runs on this machine; when it is reached, the context of change
// ends.
//
// If the manager has an Audit, the audit log records the whole work with entry, also if the workspace cannot be opened.
// change may call report with the entry that it has read from the state, which then replaces entry; without an Audit,
// report does nothing.
//
// The error is that of change or of the Audit. It is also an error if no pak has a usable OpenTofu, or if the workspace
// cannot be opened, because its name is not valid, the limit is reached while another run uses it, or its lease or its
// directory cannot be created; change is not called then. An error of closing it is only logged.
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

// changeAny opens the workspace of this name, calls change with it and closes it, within the budget of the manager,
// which includes the wait for other runs on this machine. reader is an OpenTofu that can read its state. Neither the
// state nor the record needs to exist or to be readable. The name may be one that the adapter did not choose.
//
// If the manager has an Audit, the work is audited with an entry that contains only the kind and the id of
// ParseWorkspace, or the name as the id if it contains none. After a success the state is read with Engine.Peek, which
// may delete an empty workspace; if its record can be read, the audit log gets the complete entry instead. An error of
// that read is ignored.
//
// The error is that of change or of the Audit. It is also an error if no pak has a usable OpenTofu or the workspace
// cannot be opened; change is not called then.
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

// changeStored opens the workspace of a stored binding or instance, reads its state, calls change with both and closes
// it, within the time limit of the kind. Reading the state saves one that an earlier run could not save. Instead of the
// id, the name of its workspace is accepted if that contains a hash, for example "bh-" and 64 hexadecimal digits; see
// Lookup.
//
// stored.State is not nil; stored.Record is nil if the record cannot be read. reader is an OpenTofu that can read the
// state. allowed are the conditions in which change is called; nil or empty allows every condition. If the manager has
// an Audit, the change is audited, and the audit log gets stored.Entry as change leaves it.
//
// The error wraps ErrNotStored if the state backend has no such workspace or an empty one, which is deleted. It is also
// an error if the condition is not allowed, if the state cannot be read, if no pak has a usable OpenTofu, or if the
// workspace cannot be opened within the limit; change is not called then. Otherwise it is that of change or of the
// Audit.
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

// ChangeRecorded opens the workspace of a binding or an instance, reads its state and its record, calls change with
// them and closes the workspace. The time limit of the kind applies, including the wait for other runs on this machine.
// Reading the state saves one that an earlier run could not save. Instead of the id, the name of its workspace is
// accepted if that contains a hash, for example "bh-" and 64 hexadecimal digits; see Lookup.
//
// The State and the Record of stored are not nil. allowed are the conditions in which change is called; nil or empty
// allows every condition. If the manager has an Audit, the change is audited, and the audit log gets the entry in
// stored as change leaves it.
//
// The error wraps ErrNotStored if the state backend has no such workspace or an empty one, which is deleted. It is also
// an error if the record cannot be read, if the condition is not allowed, if no pak has a usable OpenTofu, if the
// workspace cannot be opened within the limit, or if its state cannot be read; change is not called then. Otherwise it
// is that of change or of the Audit.
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

// changeWithTemplate prepares the recorded template of a binding or an instance in any condition, and calls change with
// it, with the open workspace and with the content of the workspace. The State and the Record of stored are not nil.
// The ids, the Audit and the time limit are those of ChangeRecorded. The template is prepared for the OpenTofu of
// installationFor, usually the default one of the installed pak with the recorded name.
//
// The error wraps ErrNotStored if the state backend has no such workspace or an empty one, which is deleted. It is also
// an error if the record cannot be read, if installationFor finds no OpenTofu for it, if its template cannot be
// prepared, and for the other reasons of ChangeRecorded; change is not called then. A recorded provider that no pak has
// is an error only if the template needs it. Otherwise the error is that of change or of the Audit.
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
