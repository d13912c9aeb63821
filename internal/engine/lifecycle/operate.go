package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
	"service-adapter/internal/tfjson"
)

// Forget removes the state of a binding or an instance, with its record, and destroys none of its resources. It returns
// the content that it removed, in which the record may be unreadable. See Lookup for the workspace names that are
// accepted as the id.
//
// The allowed conditions restrict the call; without any, every condition is allowed. The error wraps ErrNotStored if
// the state backend has no such workspace. Other errors are those of opening the workspace, of reading and changing its
// state, and of the Audit. After an error, dropped is nil if the state could not be read or its condition is not
// allowed, and set if Forget failed later.
func (m *Manager) Forget(ctx context.Context, kind Kind, id string, allowed ...Condition) (dropped *Stored, err error) {
	err = m.changeStored(ctx, kind, id, allowed, func(
		ctx context.Context, space *workspace.Workspace, reader opentofu.Installation, stored *Stored,
	) error {
		dropped = stored
		if err := space.Forget(ctx, reader, stored.Resources...); err != nil {
			return err
		}
		return space.Remove(ctx, reader)
	})
	return dropped, err
}

// Unlock releases the lock of the state that has this lock id, or whichever lock is held if the lock id is "". The
// caller must make sure that the run that took the lock is dead. If a run of this machine works on the workspace,
// Unlock waits for it within the budget, and returns an error if the run does not end in that time. See Lookup for the
// workspace names that are accepted as the id.
//
// With the lock id "", Unlock succeeds if the state is not locked; it returns an error if the lock ends with its holder
// and cannot be released, as those of the backend pg. With any other lock id, it is an error if the state is not locked
// by this lock. If the local backend has no state, Unlock does nothing. Other errors are those of opening the
// workspace, of running OpenTofu, and of the Audit.
func (m *Manager) Unlock(ctx context.Context, kind Kind, id, lock string) error {
	return m.changeAny(ctx, workspaceByIDOrName(kind, id), func(
		ctx context.Context, space *workspace.Workspace, reader opentofu.Installation,
	) error {
		return space.Unlock(ctx, reader, lock)
	})
}

// Reencrypt encrypts the state of the workspace with this name with the current key, unless it already is. It reports
// whether the state changed. Only the storing of the state is audited, so that the audit log contains the states that
// Reencrypt changed or failed to store. See workspace.Workspace.Reencrypt for the errors; others are those of opening
// the workspace and of the Audit.
func (m *Manager) Reencrypt(ctx context.Context, name string) (changed bool, err error) {
	err = withoutAudit(m).changeAny(ctx, name, func(
		ctx context.Context, space *workspace.Workspace, reader opentofu.Installation,
	) (err error) {
		changed, err = space.Reencrypt(ctx, reader, func(state *statestore.State, store func() error) error {
			if m.Audit == nil {
				return store()
			}
			return m.Audit(ctx, newStored(name, state, nil).Entry, func(func(Entry)) error { return store() })
		})
		return err
	})
	return changed, err
}

// SaveUnsaved stores the state that an earlier run of the workspace with this name could not store in the backend, and
// kept in a file of its scratch directory. If there is no such file, SaveUnsaved only reads the state. If the kept
// state is incomplete, or another run has changed or deleted the stored one since, SaveUnsaved moves the file to the
// cache directory instead, logs a warning and returns nil. It returns an error if the workspace cannot be opened, if
// the state cannot be stored, or if the stored one cannot be read.
func (m *Manager) SaveUnsaved(ctx context.Context, name string) error {
	return m.changeAny(ctx, name, func(
		ctx context.Context, space *workspace.Workspace, reader opentofu.Installation,
	) error {
		_, err := space.State(ctx, reader)
		return err
	})
}

// UpToDate reports whether an upgrade of a binding or an instance would do nothing. It returns false if the condition
// is Unreadable, if no installed pak has the recorded name, if the upgrade path of the pak does not lead to its default
// OpenTofu, or if a pak is unreadable. It uses only the entry, so the entries that List returns are enough.
func (m *Manager) UpToDate(stored *Stored) bool {
	if stored.Condition == Unreadable {
		return false
	}
	_, versions, err := m.upgradePlan(stored)
	return err == nil && len(versions) == 0
}

// upgradePlan returns the newest installed pak with the recorded name, and the OpenTofu versions with which its
// template must be applied, in that order. The list is empty if there is nothing to upgrade. It returns an error if a
// pak is unreadable, because that pak may be the newest one, if no installed pak has that name, or if the upgrade path
// of the pak does not lead to its default OpenTofu.
func (m *Manager) upgradePlan(stored *Stored) (*brokerpak.Pak, []string, error) {
	if m.Unreadable != nil {
		return nil, nil, m.Unreadable
	}
	pak := m.findPak(stored.Pak, "")
	if pak == nil {
		return nil, nil, fmt.Errorf("no installed pak is named %q, as the record requires; add it to `paks`",
			stored.Pak)
	}
	versions, err := upgradePath(pak, stored.Tofu, stored.Condition)
	return pak, versions, err
}

// UpgradeStored upgrades the state of a binding or an instance to the default OpenTofu version of the newest installed
// pak with the recorded name. It applies the recorded template and inputs. It returns the OpenTofu versions before and
// after the upgrade, which are equal if the state was already up to date. After a failed upgrade, to is the version
// that was not reached. Both are "" if the upgrade failed before its steps were determined. See Lookup for the
// workspace names that are accepted as the id.
//
// The error wraps ErrNotStored if the state backend has no such workspace. It is also an error if the record cannot be
// read, if no installed pak has the recorded name, if a pak is unreadable, if the upgrade path does not lead to the
// default version, and if there is something to upgrade but a creation, an import or a deletion was not finished. If a
// step of the upgrade fails, its error is returned (see ApplyUpgrade), the state stays at the version that was reached,
// and the next call continues from there. If the condition is then Changing, the record in the state contains the error
// as its Failure, unless OpenTofu was killed or ctx was canceled. Other errors are those of opening the workspace, of
// reading its state and of the Audit.
func (m *Manager) UpgradeStored(ctx context.Context, kind Kind, id string) (from, to string, err error) {
	err = m.ChangeRecorded(ctx, kind, id, nil, func(
		ctx context.Context, space *workspace.Workspace, stored *Stored,
	) error {
		pak, versions, err := m.upgradePlan(stored)
		if err != nil {
			return err
		}
		from, to = stored.Tofu, stored.Tofu
		if len(versions) == 0 {
			return nil
		}
		if err := checkUpgradable(stored.Condition); err != nil {
			return err
		}
		to = versions[len(versions)-1]
		if err := completeInputs(m, stored.Record); err != nil {
			return err
		}
		if err = m.ApplyUpgrade(ctx, space, stored.State, pak, stored.Record); err != nil {
			if recordErr := recordUpgradeFailure(ctx, m, space, pak, err); recordErr != nil {
				m.Logger.Warn("storing why the upgrade failed", string(kind), id, "error", recordErr)
			}
			return err
		}
		stored.Tofu, stored.PakVersion = to, pak.Manifest.Version
		return nil
	})
	return from, to, err
}

// checkUpgradable returns an error if a creation, an import or a deletion was not finished.
func checkUpgradable(condition Condition) error {
	if condition == Complete || condition == Changing {
		return nil
	}
	return fmt.Errorf("it is %s: finish or delete it first", condition)
}

// checkCondition returns an error if the allowed conditions do not contain the condition. An empty list allows every
// condition. The condition can differ from the one in a list that was read earlier, because another run may have
// changed the binding or the instance.
func checkCondition(condition Condition, allowed []Condition) error {
	if len(allowed) == 0 || slices.Contains(allowed, condition) {
		return nil
	}
	return fmt.Errorf("it is %s by now", condition)
}

// DestroyStored destroys all resources of a binding or an instance, with the recorded inputs, and removes its state.
// See DestroyWithInputs for the ids that are accepted, the allowed conditions and the errors.
func (m *Manager) DestroyStored(ctx context.Context, kind Kind, id string, allowed ...Condition) error {
	recorded := func(_ context.Context, record *StateRecord) (map[string]any, map[string]error, error) {
		return record.Inputs, nil, nil
	}
	return DestroyWithInputs(ctx, m, kind, id, recorded, allowed...)
}

// DestroyWithInputs destroys all resources of a binding or an instance and removes its state. The function inputs
// returns the values of the template's variables for the record, and the reasons why ephemeral ones have no value; its
// error ends DestroyWithInputs before anything is changed. See Lookup for the workspace names that are accepted as the
// id. The allowed conditions restrict the call; without any, every condition is allowed.
//
// The error wraps ErrNotStored if the state backend has no such workspace. It is also an error if the record cannot be
// read or the condition is not allowed. Otherwise it is an error of inputs or of Manager.Destroy. Unless the context
// has ended, DestroyWithInputs adds to the latter the addresses of the resources that remain in the state.
func DestroyWithInputs(
	ctx context.Context, m *Manager, kind Kind, id string,
	inputs func(context.Context, *StateRecord) (values map[string]any, unevaluated map[string]error, err error),
	allowed ...Condition,
) error {
	return m.ChangeRecorded(ctx, kind, id, allowed, func(
		ctx context.Context, space *workspace.Workspace, stored *Stored,
	) error {
		values, unevaluated, err := inputs(ctx, stored.Record)
		if err != nil {
			return err
		}
		err = m.Destroy(ctx, Destruction{
			Space: space, State: stored.State, Record: stored.Record, Inputs: values, Unevaluated: unevaluated,
		})
		if err == nil || ctx.Err() != nil {
			return err
		}
		if remaining := remainingResources(ctx, m, space); len(remaining) > 0 {
			err = fmt.Errorf("%w; these are left: %s", err, strings.Join(remaining, ", "))
		}
		return err
	})
}

// remainingResources returns the addresses of the resources in the state of an open workspace, and nil if the state
// cannot be read or does not exist.
func remainingResources(ctx context.Context, m *Manager, space *workspace.Workspace) []string {
	reader, err := m.StateReader(ctx, nil)
	if err != nil {
		return nil
	}
	state, err := space.State(ctx, reader)
	if err != nil || state == nil {
		return nil
	}
	return state.Resources
}

// ApplyStored applies the recorded template of a binding or an instance again, with the recorded inputs. It reverts
// changes that were made outside of OpenTofu and finishes an interrupted creation or change. It reverts an unfinished
// deletion: the resources that were destroyed are created again. With dryRun it applies nothing, is not audited, and
// returns the changes that an apply would make; without dryRun, changes is nil.
//
// The error wraps ErrNotStored if the state backend has no such workspace. ApplyStored also returns an error if the
// record cannot be read or its template cannot be prepared, if an import was not finished, if resources of the record
// are in no state (*LostResourcesError), and if an older OpenTofu than the pak's wrote the state, which must then be
// upgraded first. Other errors are those of ApplyRecord and, with dryRun, of workspace.Workspace.Plan. After a
// successful apply, the record has no Failure.
func (m *Manager) ApplyStored(
	ctx context.Context, kind Kind, id string, dryRun bool,
) (changes []tfjson.Change, err error) {
	if dryRun {
		m = withoutAudit(m)
	}
	err = m.changeWithTemplate(ctx, kind, id, func(
		ctx context.Context, space *workspace.Workspace, prepared *templates.Prepared, stored *Stored,
	) (err error) {
		switch version := prepared.Installation().Version; {
		case len(stored.Record.Lost) > 0:
			return stored.Record.CheckLost()
		case stored.Condition == Importing:
			return errors.New("its import was not finished: the next update of the instance imports again")
		case opentofu.Older(stored.State.TofuVersion, version):
			return fmt.Errorf("its state was written by OpenTofu %s and the pak has %s: upgrade it first",
				stored.Tofu, version)
		}
		if err := completeInputs(m, stored.Record); err != nil {
			return err
		}
		switch {
		case dryRun:
			changes, err = space.Plan(ctx, prepared, stored.Record.Inputs, false)
			return err
		case stored.Record.Failure != nil:
			stored.Record.Failure = nil
			if err := stored.Record.AssignTo(space, m.AdapterVersion); err != nil {
				return err
			}
		}
		return m.ApplyRecord(ctx, space, prepared, stored.Record)
	})
	return changes, err
}

// Drift returns the differences between the real resources of a binding or an instance and its state, with the recorded
// inputs. It changes nothing and is not audited. If the condition is not Complete, Drift does not compare anything and
// returns nil changes, because the resources that should exist are unknown. With the condition Complete, an empty list
// means that the resources equal the state.
//
// The error wraps ErrNotStored if the state backend has no such workspace. It is also an error if the record cannot be
// read or the recorded template cannot be prepared. Other errors are those of opening the workspace and of
// workspace.Workspace.Plan.
func (m *Manager) Drift(
	ctx context.Context, kind Kind, id string,
) (changes []tfjson.Change, condition Condition, err error) {
	err = withoutAudit(m).changeWithTemplate(ctx, kind, id, func(
		ctx context.Context, space *workspace.Workspace, prepared *templates.Prepared, stored *Stored,
	) (err error) {
		if condition = stored.Condition; condition == Complete {
			if err := completeInputs(m, stored.Record); err != nil {
				return err
			}
			changes, err = space.Plan(ctx, prepared, stored.Record.Inputs, true)
		}
		return err
	})
	return changes, condition, err
}

// withoutAudit returns a copy of the manager that audits nothing, for work that changes nothing or calls Audit itself.
func withoutAudit(m *Manager) *Manager {
	unaudited := *m
	unaudited.Audit = nil
	return &unaudited
}

// PushState stores the content of a file as the state of a binding or an instance, which does not have to exist. The
// file contains an unencrypted state, or a copy that PushState or ExecState wrote. The previous state is first copied
// to a file, whose path is returned even if the push fails; backup is "" if the workspace had no state.
//
// PushState returns an error, and stores nothing, unless the file contains a state with a record of this binding or
// instance that the installed OpenTofu can read. The error wraps workspace.ErrNewerState if a newer OpenTofu wrote it.
// It is also an error if the previous state cannot be read or copied. Unless force is set, OpenTofu rejects a state
// with another lineage or an older serial than the stored one. Other errors are those of opening the workspace, of
// workspace.Workspace.Push and of the Audit.
func (m *Manager) PushState(
	ctx context.Context, kind Kind, id string, file []byte, force bool,
) (backup string, err error) {
	name := workspaceByIDOrName(kind, id)
	err = m.changeAny(ctx, name, func(
		ctx context.Context, space *workspace.Workspace, reader opentofu.Installation,
	) error {
		text := m.Engine.DecryptState(file)
		state, err := statestore.Parse(text)
		if err != nil || state == nil {
			return cmp.Or(err, errors.New("the file holds no state"))
		}
		record, err := DecodeRecord(state.Record)
		switch {
		case err != nil:
			return err
		case state.Nonce == "" || Workspace(record.KindAndID()) != name:
			return errors.New("it is the state of another binding or instance")
		case opentofu.Older(reader.Version, state.TofuVersion):
			return fmt.Errorf("%w: by %s, and this is %s", workspace.ErrNewerState, state.TofuVersion, reader.Version)
		}
		stored, err := space.State(ctx, reader)
		if err == nil && stored != nil {
			backup, err = space.Backup(stored)
		}
		if err != nil {
			return err
		}
		return space.Push(ctx, reader, text, force)
	})
	return backup, err
}

// ExecState runs an OpenTofu command in the workspace of a binding or an instance, with the recorded template and
// inputs. The args are the command and its arguments, and the terminal is that of the operator, who sees the output
// with its secrets. The command may wait for a person, so only the end of ctx interrupts it; the work before it has the
// time of other changes.
//
// It returns the path of a copy of the previous state if the command changed the state, even if the command failed, and
// "" otherwise. The copy stays until the caller removes it. The error wraps ErrNotStored if the state backend has no
// such workspace, and an *opentofu.Error if the command failed. It is also an error if the record or, after the
// command, the state cannot be read, if its template cannot be prepared, or if the previous state cannot be copied; in
// the last two cases the command is not run. Other errors are those of opening the workspace and of the Audit.
func (m *Manager) ExecState(
	ctx context.Context, kind Kind, id string, terminal opentofu.Terminal, args ...string,
) (backup string, err error) {
	err = m.changeWithTemplate(ctx, kind, id, func(
		_ context.Context, space *workspace.Workspace, prepared *templates.Prepared, stored *Stored,
	) error {
		if backup, err = space.Backup(stored.State); err != nil {
			return err
		}
		if err := completeInputs(m, stored.Record); err != nil { // most commands do not need the values
			m.Logger.Warn("running OpenTofu without the value of an ephemeral variable", "error", err)
		}
		changed, err := space.Exec(ctx, prepared, stored.Record.Inputs, terminal, args...)
		if !changed {
			err, backup = errors.Join(err, os.Remove(backup)), ""
		}
		return err
	})
	return backup, err
}

// SetAside renames the workspace of a binding or an instance whose state cannot be read, so that the id can be used
// again. It returns the new name. Resources and the content of the state do not change. It returns an error if the
// state can be read or does not exist, if another run holds its lock (*statelock.Error), if only OpenTofu can access
// the states of the backend, or if the backend cannot be reached. See Lookup for the workspace names that are accepted
// as the id.
func (m *Manager) SetAside(ctx context.Context, kind Kind, id string) (name string, err error) {
	err = m.changeAny(ctx, workspaceByIDOrName(kind, id), func(
		ctx context.Context, space *workspace.Workspace, reader opentofu.Installation,
	) (err error) {
		name, err = space.SetAside(ctx, reader)
		return err
	})
	return name, err
}
