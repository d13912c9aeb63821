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

// Forget removes the state of a binding or an instance, with its record, and destroys none of its resources, which are
// then in no state. It returns the content that it removed, in which the record may be nil because it is unreadable.
// Instead of the id, the name of its workspace is accepted if that contains a hash, for example "bh-" and 64
// hexadecimal digits; see Lookup. The allowed conditions restrict the call; without any, every condition is allowed. A
// state that an earlier run could not save is saved first. The removal is audited, and has the time limit of the kind.
//
// The error wraps ErrNotStored if the state backend has no such workspace or an empty one, which is deleted. It is
// also an error if the condition is not allowed, if no pak has a usable OpenTofu, if the workspace cannot be opened
// within the limit, if its state cannot be read, changed or removed, or if the Audit fails.
//
// With an error, dropped is nil if the error occurred before the removal began, for example because no state is
// stored, the state cannot be read or its condition is not allowed; no resource was removed from a state then. After
// any later error dropped is set, because the resources may already be missing from the state, or the state may be
// removed, so that only dropped names them.
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

// Unlock releases the lock of the state of a binding or an instance. lock is the id of that lock, as the error of a
// locked state shows it, or "" for whichever lock is held. The caller must make sure that the run that took the lock
// is dead. If a run of this machine works on the workspace, Unlock waits for it within the budget, and returns an
// error if the run does not end in that time. Instead of the id, the name of its workspace is accepted if that
// contains a hash, for example "bh-" and 64 hexadecimal digits; see Lookup. The release is audited; for the audit
// log, the state is read after a success, which may delete an empty workspace.
//
// The workspace does not have to exist, and Unlock never returns ErrNotStored. If the local backend has no state,
// Unlock releases nothing and returns nil, whatever lock is.
//
// With the lock id "", Unlock succeeds if the state is not locked. It then reads the state, which saves one that an
// earlier run could not save and deletes an empty workspace. It returns an error that wraps a *statelock.Error if
// OpenTofu does not report the holder of the lock: the locks of the backend pg end with their holders and cannot be
// released, and any other lock was just taken or released. With a lock id, Unlock returns an error if the state is
// not locked by this lock.
//
// In both cases it also returns an error if no pak has a usable OpenTofu, if the workspace cannot be opened, if
// OpenTofu or reading the state fails, if the state of the local backend is incomplete, or if the Audit fails.
func (m *Manager) Unlock(ctx context.Context, kind Kind, id, lock string) error {
	return m.changeAny(ctx, workspaceByIDOrName(kind, id), func(
		ctx context.Context, space *workspace.Workspace, reader opentofu.Installation,
	) error {
		return space.Unlock(ctx, reader, lock)
	})
}

// Reencrypt encrypts the state of the workspace with this name, which may be one that the adapter did not choose, with
// the current key, unless it already is. It first saves a state that an earlier run could not save; that does not count
// as a change. For the backend local it also replaces the copy from which a damaged state is restored, even if the
// state already has the current key. An empty workspace is deleted. Only the storing with the current key is audited,
// so that the audit log contains the states that Reencrypt encrypted or failed to encrypt.
//
// Reencrypt reports whether it stored the state encrypted anew. Without an error, changed is false if the state already
// has the current key, if the workspace does not exist, and if it is empty. With an error, changed is true if the state
// was stored anew and only a later step failed, such as replacing the copy; if changed is false, the new state may be
// stored nevertheless.
//
// Reencrypt returns an error if the engine has no encryption, if no key fits the state, if the state is not encrypted
// and Encryption.AcceptUnencrypted is not set, if no pak has a usable OpenTofu, if the workspace cannot be opened
// within the budget, if the state or its copy cannot be read or stored, if an empty workspace cannot be deleted, if
// another run changes the state at the same time, or if the Audit fails. The error is a *statelock.Error if another run
// holds the lock of the state for too long.
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
// kept in a file of its scratch directory. The file is then removed. Then, also if there is no such file, SaveUnsaved
// reads the state, and deletes the workspace if it is empty. With the backend local, it first restores an incomplete
// state file. The work is audited.
//
// In three cases SaveUnsaved does not store the kept state, but moves its file to the cache directory, logs a warning
// and returns nil:
//   - The kept state is incomplete.
//   - Another run has changed the stored state since.
//   - Another run has deleted the stored state. A kept state without resources is then only removed. The backend local
//     is an exception: a missing state counts as lost there, so the kept state is stored.
//
// SaveUnsaved returns an error if no pak has a usable OpenTofu, if the workspace cannot be opened within the budget, if
// the state cannot be stored, if the stored one cannot be read, or if the Audit fails. If the state could not be
// stored, the file stays.
func (m *Manager) SaveUnsaved(ctx context.Context, name string) error {
	return m.changeAny(ctx, name, func(
		ctx context.Context, space *workspace.Workspace, reader opentofu.Installation,
	) error {
		_, err := space.State(ctx, reader)
		return err
	})
}

// UpToDate reports whether an upgrade of a binding or an instance would do nothing. An upgrade leads to the default
// OpenTofu of the installed pak with the recorded name, of several the newest such OpenTofu. UpToDate reads no state
// and uses only the Entry of stored, so the results of List are enough.
//
// It returns false if there is something to upgrade: if an older OpenTofu wrote the state, or if that default OpenTofu
// wrote it and the condition is Changing, which also follows a failed upgrade. It also returns false if that cannot be
// determined: if the condition is Unreadable, if no installed pak with an OpenTofu has the recorded name, or if a pak
// is unreadable. In all other cases it returns true, also if a newer OpenTofu wrote the state, or if the version of the
// OpenTofu that wrote it is not valid.
func (m *Manager) UpToDate(stored *Stored) bool {
	if stored.Condition == Unreadable {
		return false
	}
	_, versions, err := m.upgradePlan(stored)
	return err == nil && len(versions) == 0
}

// upgradePlan returns the installed pak with the recorded name, of several the one with the newest default OpenTofu,
// and the OpenTofu versions with which the template of the binding or the instance must be applied, in that order. The
// list is empty if there is nothing to upgrade. upgradePlan reads only the Entry of stored. It returns an error if a
// pak is unreadable, because that pak may have a newer one, if no installed pak with an OpenTofu has that name, or if
// the upgrade path of the pak does not lead to its default OpenTofu. The versions are nil after an error; the pak is
// set only in the last case.
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

// UpgradeStored upgrades the state of a binding or an instance to the default OpenTofu version of the installed pak
// with the recorded name, of several the newest such version. It applies the recorded template and inputs with each
// OpenTofu of the upgrade path; ephemeral inputs, whose values are not recorded, are evaluated again with
// Manager.Reevaluate. Instead of the id, the name of its workspace is accepted if that contains a hash, for example
// "bh-" and 64 hexadecimal digits; see Lookup. The upgrade is audited, and has the time limit of the kind.
//
// It returns the OpenTofu versions before and after the upgrade, such as "1.9.4" and "1.10.6". They are equal,
// without an error, if there is nothing to upgrade because the default version or a newer one wrote the state; an
// unfinished creation, import or deletion is no error then. They are also equal if a failed upgrade or change with
// the default version is only applied again, and, with an error, if an unfinished creation, import or deletion
// prevents the upgrade. If the upgrade fails later, to is the version that was not reached. Both are "" if the
// upgrade failed before its steps were determined.
//
// The error wraps ErrNotStored if the state backend has no such workspace or an empty one, which is deleted, and a
// *LostResourcesError if resources are in no state. It is also an error if the record cannot be read, if no installed
// pak with an OpenTofu has the recorded name, if a pak is unreadable, if the upgrade path does not lead to the default
// version, if there is something to upgrade but a creation, an import or a deletion was not finished, and if an
// ephemeral variable that a provider block may read has no value.
//
// If a step of the upgrade fails, its error is returned (see ApplyUpgrade), the state stays at the version that was
// reached, and the next call continues from there. The record in the state then contains the error as its Failure,
// unless the failed step changed no resource, OpenTofu was killed, ctx was canceled, resources are in no state, another
// run took over the workspace, or the record cannot be stored, which is only logged. Other errors are those of opening
// the workspace, of reading its state and of the Audit.
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

// checkUpgradable returns an error that names the condition unless it is Complete or Changing: a creation, an import or
// a deletion that was not finished prevents an upgrade. Unreadable is an error as well.
func checkUpgradable(condition Condition) error {
	if condition == Complete || condition == Changing {
		return nil
	}
	return fmt.Errorf("it is %s: finish or delete it first", condition)
}

// checkCondition returns an error that names the condition if the allowed conditions do not contain it. A nil or empty
// list allows every condition. The condition can differ from the one in a list that was read earlier, because another
// run may have changed the binding or the instance.
func checkCondition(condition Condition, allowed []Condition) error {
	if len(allowed) == 0 || slices.Contains(allowed, condition) {
		return nil
	}
	return fmt.Errorf("its condition is now %s", condition)
}

// DestroyStored destroys all resources of a binding or an instance, with the recorded inputs, and removes its state.
// Values of ephemeral inputs are not recorded, and DestroyStored does not evaluate them again: their variables have
// their defaults or are null. Before the destroy, an interrupted creation or change is applied once more, and the
// resources of an unfinished import are dropped from the state; see Manager.Destroy. If the record has ephemeral
// inputs, every failure of the repeated apply ends DestroyStored. Instead of the id, the name of its workspace is
// accepted if that contains a hash, for example "bh-" and 64 hexadecimal digits; see Lookup. The allowed conditions
// restrict the call; without any, every condition is allowed. The work is audited, and has the time limit of the
// kind.
//
// The error wraps ErrNotStored if the state backend has no such workspace or an empty one, which is deleted. It is
// also an error if the record cannot be read, if the condition is not allowed, if no pak has a usable OpenTofu, if
// the workspace cannot be opened or its state cannot be read, or if an ephemeral variable that a provider block may
// read is missing. Otherwise it is that of Manager.Destroy, such as an *opentofu.Error or a *LostResourcesError, or
// of the Audit. Unless the context has ended, an error of Manager.Destroy is returned with the addresses of the
// resources that remain in the state.
func (m *Manager) DestroyStored(ctx context.Context, kind Kind, id string, allowed ...Condition) error {
	recorded := func(_ context.Context, record *StateRecord) (map[string]any, map[string]error, error) {
		return record.Inputs, nil, nil
	}
	return DestroyWithInputs(ctx, m, kind, id, recorded, allowed...)
}

// DestroyWithInputs destroys all resources of a binding or an instance and removes its state. The function inputs is
// called with the stored record and returns the values of the template's variables, and the reasons why ephemeral ones
// have no value, which may be nil; its error ends DestroyWithInputs before any resource or record is changed; only a
// state that an earlier run could not save has been saved then. Before the destroy, an interrupted creation or change
// is applied once more, and the resources of an unfinished import are dropped from the state; see Manager.Destroy.
// Instead of the id, the name of its workspace is accepted if that contains a hash, for example "bh-" and 64
// hexadecimal digits; see Lookup. The allowed conditions restrict the call; without any, every condition is allowed.
// The work is audited, and has the time limit of the kind.
//
// The error wraps ErrNotStored if the state backend has no such workspace or an empty one, which is deleted. It is also
// an error if the record cannot be read, if the condition is not allowed, if no pak has a usable OpenTofu, or if the
// workspace cannot be opened or its state cannot be read. Otherwise it is an error of inputs, of Manager.Destroy or of
// the Audit. Unless the context has ended, DestroyWithInputs adds to that of Manager.Destroy the addresses of the
// resources that remain in the state.
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
			err = fmt.Errorf("%w; these resources still exist: %s", err, strings.Join(remaining, ", "))
		}
		return err
	})
}

// remainingResources reads the state of an open workspace and returns the addresses of the resources in it, without
// instance keys. Before that, it saves a state that an earlier run could not save; an empty workspace is deleted. It
// returns nil if the state cannot be read, does not exist or contains no resources, or if no pak has a usable OpenTofu.
// It logs no error.
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

// ApplyStored applies the recorded template of a binding or an instance again, with the recorded inputs; ephemeral
// inputs, whose values are not recorded, are evaluated again with Manager.Reevaluate. It reverts changes that were made
// outside of OpenTofu and finishes an interrupted creation or change. It reverts an unfinished deletion: the resources
// that were destroyed are created again. A Failure is removed from the record before the apply. Instead of the id, the
// name of its workspace is accepted if that contains a hash, for example "bh-" and 64 hexadecimal digits; see Lookup.
// The work is audited, and has the time limit of the kind.
//
// With dryRun it applies nothing, is not audited, and returns the changes that an apply would make, which are empty if
// there are none; without dryRun, changes is nil. In both cases a state that an earlier run could not save is saved
// first.
//
// The error wraps ErrNotStored if the state backend has no such workspace or an empty one, which is deleted.
// ApplyStored also returns an error if the record cannot be read or its template cannot be prepared, if an import was
// not finished, if resources of the record are in no state (*LostResourcesError), if an older OpenTofu than the pak's
// wrote the state, which must then be upgraded first, and if an ephemeral variable that a provider block may read has
// no value. Other errors are those of opening the workspace and reading its state, of ApplyRecord, of the Audit and,
// with dryRun, of workspace.Workspace.Plan.
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

// Drift returns the differences between the real resources of a binding or an instance and its state, and its
// condition. The template has the recorded inputs; ephemeral inputs, whose values are not recorded, are evaluated again
// with Manager.Reevaluate. Drift changes no resource and is not audited, but first saves a state that an earlier run
// could not save. Instead of the id, the name of its workspace is accepted if that contains a hash, for example "bh-"
// and 64 hexadecimal digits; see Lookup.
//
// If the condition is not Complete, Drift prepares the template, but compares nothing and returns nil changes,
// because the resources that should exist are unknown. With the condition Complete, an empty list means that the
// resources equal the state.
//
// The error wraps ErrNotStored if the state backend has no such workspace or an empty one, which is deleted. It is
// also an error if the record cannot be read, if the recorded template cannot be prepared, or, with the condition
// Complete, if an ephemeral variable that a provider block may read has no value. Other errors are those of opening
// the workspace, of reading its state and of workspace.Workspace.Plan. After an error the condition is "" unless the
// template could be prepared.
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

// withoutAudit returns a shallow copy of the manager whose Audit is nil, for work that is not audited or that calls
// Audit itself. The manager m does not change.
func withoutAudit(m *Manager) *Manager {
	unaudited := *m
	unaudited.Audit = nil
	return &unaudited
}

// PushState stores file, the content of a file, as the state of a binding or an instance, which does not have to exist.
// The content is an unencrypted state, or a copy that PushState or ExecState wrote. Instead of the id, the name of its
// workspace is accepted if that contains a hash, for example "bh-" and 64 hexadecimal digits; see Lookup. The push is
// audited.
//
// Before the push, a state that an earlier run could not save is saved, an empty workspace is deleted, and the previous
// state is copied to a new file in the cache directory. The path of that file is returned even if the push fails; the
// caller may remove it. backup is "" if the workspace had no state or the copy failed.
//
// PushState returns an error, and stores nothing, unless the content is a state with a record of this binding or
// instance that the installed OpenTofu can read. The error wraps workspace.ErrNewerState if a newer OpenTofu wrote
// it. PushState also stores nothing if no pak has a usable OpenTofu, if the workspace cannot be opened within the
// budget, if the previous state cannot be read or copied, or if another run holds the lock of the state for too long
// (*statelock.Error). Unless force is set, OpenTofu rejects a state with another lineage or a lower serial number
// than the stored one, or with the same serial number and another content (*opentofu.Error). After any other error of
// workspace.Workspace.Push, for example because OpenTofu was interrupted, and after an error of the Audit, the state
// may have been stored.
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
			return cmp.Or(err, errors.New("the file does not contain a state"))
		}
		record, err := DecodeRecord(state.Record)
		switch {
		case err != nil:
			return err
		case state.Nonce == "" || Workspace(record.KindAndID()) != name:
			return errors.New("it is the state of another binding or instance")
		case opentofu.Older(reader.Version, state.TofuVersion):
			return fmt.Errorf("%w: version %s, and this is version %s",
				workspace.ErrNewerState, state.TofuVersion, reader.Version)
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
// inputs. The args are the command and its arguments, such as "state", "list". The terminal is that of the operator,
// who sees the output with its secrets. Instead of the id, the name of its workspace is accepted if that contains a
// hash, for example "bh-" and 64 hexadecimal digits; see Lookup. Ephemeral inputs, whose values are not recorded, are
// evaluated again with Manager.Reevaluate; a missing value is only logged. The work is audited.
//
// The command may wait for a person, so it has no time limit and is only interrupted when ctx ends; the work before it
// has the time limit of the kind. Unless the args request it, the command does not wait for the lock of the state: if
// it needs the lock and another run holds it, it fails.
//
// ExecState returns the path of a copy of the previous state, a new file in the cache directory, if the command changed
// the state or may have done so, even if the command failed. Otherwise it removes the copy and returns "". The caller
// may remove the copy.
//
// The error wraps ErrNotStored if the state backend has no such workspace or an empty one, which is deleted, and an
// *opentofu.Error if the command failed. It is also an error if the record cannot be read, if no OpenTofu can be found
// for it, if its template cannot be prepared, if the previous state cannot be copied, or if a newer OpenTofu wrote the
// state (workspace.ErrNewerState); the command is not run then. It is also an error if OpenTofu cannot be started and,
// after the command, if the state cannot be read or has lost its record, or if an unneeded copy cannot be removed.
// Other errors are those of opening the workspace and of the Audit.
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
// again. It first tries to save a state that an earlier run could not save, to restore an incomplete state file of the
// backend local, and to read the state. Every failure of that, except a lock of another run, counts as unreadable, even
// if the state is intact and the cause is a missing key or an unsuitable OpenTofu. SetAside returns the new name, such
// as "aside-b-1234-1700000000000000000" with a time in nanoseconds, which the adapter does not list as a binding or an
// instance. The renaming changes neither the resources nor the content of the state. Instead of the id, the name of its
// workspace is accepted if that contains a hash, for example "bh-" and 64 hexadecimal digits; see Lookup. The renaming
// is audited, and happens within the budget.
//
// SetAside returns "" and an error if the state can be read or does not exist, if another run holds its lock for too
// long (*statelock.Error), if only OpenTofu can access the states of the backend, if no pak has a usable OpenTofu, if
// the workspace cannot be opened, or if the backend cannot rename it. After an error of the backend, or if ctx or the
// budget ends, the workspace may have been renamed nevertheless. An error of the Audit may be returned with the new
// name.
func (m *Manager) SetAside(ctx context.Context, kind Kind, id string) (name string, err error) {
	err = m.changeAny(ctx, workspaceByIDOrName(kind, id), func(
		ctx context.Context, space *workspace.Workspace, reader opentofu.Installation,
	) (err error) {
		name, err = space.SetAside(ctx, reader)
		return err
	})
	return name, err
}
