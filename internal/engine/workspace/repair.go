package workspace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/scratch"
	"service-adapter/internal/engine/statelock"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/privatefs"
)

// Backup writes a state that State has returned, which must not be nil, to a new private file in the cache directory,
// and returns the absolute path, such as "/var/cache/backup-b-1234-1700000000000000000.tfstate". The number is the time
// in nanoseconds. The file is encrypted like the states themselves, that is, not at all without Options.Encryption, and
// stays until the caller removes it. Backup returns "" and an error if the state cannot be encrypted or the file cannot
// be written.
func (w *Workspace) Backup(state *statestore.State) (path string, err error) {
	sealed, err := w.engine.options.Encryption.Seal(state.Text)
	if err == nil {
		path = filepath.Join(w.engine.options.CacheDir, w.unique("backup")+".tfstate")
		err = privatefs.WriteFile(path, sealed)
	}
	if err != nil {
		return "", w.wrapError("keeping a copy of", err)
	}
	return path, nil
}

// Push runs "tofu state push" to store text, a state in clear text, whether the workspace has a state or not; a missing
// workspace is created. Before that, it saves a state that an earlier run could not save, and copies a local state.
// State must be called again before the workspace can be used. After a success, what this Workspace knows of the guard
// is forgotten, together with a record of SetRecord that is not stored yet; after an error it still knows the guard.
//
// Unless force is true, OpenTofu rejects a state with another lineage, with a lower serial number, or with the same
// serial number and another content. The error is an *opentofu.Error then, and also if OpenTofu fails for another
// reason. It is a *statelock.Error if another run holds the lock of the state for too long. It is any other error if
// the OpenTofu i does not support the backend or the encryption or cannot be started, if an earlier state cannot be
// saved, if the file for text cannot be written or removed, or if a local state cannot be copied or is damaged and
// cannot be restored (statestore.ErrIncomplete).
//
// If OpenTofu rejects text, or another run holds the lock, text is not stored. After any other error of the push itself
// it may be stored.
func (w *Workspace) Push(ctx context.Context, i opentofu.Installation, text []byte, force bool) error {
	err := w.perform(ctx, i, "storing", func() error {
		if err := w.keepCopyOrMarkEmpty(ctx); err != nil {
			return err
		}
		return w.push(ctx, i, scratch.CreateMissing, text, fmt.Sprintf("-force=%t", force))
	})
	if err == nil {
		w.forgetGuard()
	}
	return err
}

// Unlock releases the lock of the workspace's state, whichever run holds it. The id identifies the lock, as OpenTofu
// reports it; "" stands for the current lock. The caller must make sure that the run that took the lock is dead,
// because otherwise two runs could change the state at the same time. If the local backend has no state for the
// workspace, Unlock does nothing.
//
// With the id "", Unlock first tries to take the lock with a command that does not change the state, but may create a
// missing workspace. If the state is not locked, Unlock does what State does: it saves a state that an earlier run
// could not save, deletes an empty workspace, uses the guard in the state, and returns the errors of State. If OpenTofu
// does not report the holder of the lock, it returns an error that wraps a *statelock.Error: the locks of pg end with
// the run that holds them, and any other lock was just taken or released.
//
// Unlock returns an *opentofu.Error if the state is not locked by the lock with this id, or if OpenTofu fails for
// another reason. It returns another error if OpenTofu cannot be prepared or started, and one that wraps
// statestore.ErrIncomplete if the state of the local backend is not complete.
func (w *Workspace) Unlock(ctx context.Context, i opentofu.Installation, id string) error {
	if absent, err := w.absentLocally(ctx); absent || err != nil {
		return err
	}
	if id == "" {
		lock, err := w.scratch.ProbeLock(ctx, i)
		switch {
		case err != nil:
			return w.wrapError("unlocking", err)
		case lock == nil:
			_, err := w.State(ctx, i) // probing creates a missing workspace, and State deletes it again
			return err
		case lock.ID == "":
			err := fmt.Errorf("%w; locks of the state backend %s end with the run that holds them "+
				"and cannot be released", lock, w.engine.options.Backend.Type)
			return w.wrapError("unlocking", err)
		}
		id = lock.ID
	}
	return w.wrapError("unlocking", w.scratch.Unlock(ctx, i, id))
}

// SetAside renames a workspace whose state cannot be read, so that it is no longer the workspace of a binding or a
// service instance. It returns the new name, such as "aside-b-1234-1700000000000000000", in which the number is the
// time in nanoseconds. First it tries to save a state that an earlier run left, and to read the state. Any failure of
// that, except a lock of another run, counts as a sign that the state cannot be read, even if the cause is an OpenTofu
// that does not support the encryption or cannot be started. States that could not be saved are moved from the scratch
// directory to the cache directory, with a warning that names the file, because they would block the id.
//
// The name is "" with an error. SetAside returns an error if the state can be read or does not exist, a
// *statelock.Error if another run holds its lock for too long, an error that wraps that of reading the state if only
// OpenTofu can access the states of the backend, and any other error if the workspace cannot be renamed, a state cannot
// be moved or ctx ends. After an error of the backend or of moving, or the end of ctx, the workspace may have been
// renamed.
func (w *Workspace) SetAside(ctx context.Context, i opentofu.Installation) (name string, err error) {
	err = w.begin(ctx, i)
	if err == nil {
		_, err = w.read(ctx, i)
	}
	switch {
	case err == nil:
		err = errors.New("its state can be read, or there is none")
	case statelock.IsLocked(err): // another run holds the lock, so the state may be intact
	case w.engine.store == nil:
		err = fmt.Errorf("OpenTofu cannot rename it, so use the tools of the backend %s: %w",
			w.engine.options.Backend.Type, err)
	default:
		name = w.unique("aside")
		err = w.lock.Retry(ctx, func() error { return w.engine.store.SetAside(ctx, w.name, name) })
		for err == nil && w.HasUnsavedState() {
			err = setUnsavedAside(w.states)
		}
	}
	if err != nil {
		return "", w.wrapError("setting aside", err)
	}
	return name, nil
}

// Exec runs any OpenTofu command, args, with the prepared template p, the values vars of its variables, the guard's
// variables, the providers, the backend and the encryption, connected to a user's terminal. The first of args is the
// subcommand, such as "state" in ["state", "list"]. Secrets in the output are not masked. The workspace must be
// reserved, and State must have read its state since the last change, otherwise Exec returns an error. Unless args
// request it, the command does not wait for the lock of the state: if it needs the lock and another run holds it, it
// fails. Afterwards Exec reads the state as State does, within the grace period of the engine.
//
// It reports whether the state has another lineage or serial number afterwards, or may have. The error is an
// *opentofu.Error if the command failed. It is ErrNewerState if the OpenTofu is older than the state, and a plain error
// if the workspace is not reserved, its state has not been read, or a local state cannot be copied; the command is not
// run then. It is also an error if OpenTofu cannot be started, if the state cannot be read afterwards, or if the
// command removed or replaced the guard. A nil error and false mean that both are the same as before.
func (w *Workspace) Exec(
	ctx context.Context, p *templates.Prepared, vars map[string]any, terminal opentofu.Terminal, args ...string,
) (changed bool, err error) {
	before := w.lastRead.state
	err = w.guard.requireReserved(p.Installation())
	if err == nil && before == nil {
		err = errors.New("its state has not been read")
	}
	if err = errors.Join(err, w.keepCopy(ctx)); err != nil {
		return false, w.wrapError("working on", err)
	}
	err = w.scratch.RunInTerminal(ctx, p, w.guard.variables(p, vars), terminal, args...)
	ctx, cancel := w.graceContext(ctx)
	defer cancel()
	after, readErr := w.State(ctx, p.Installation())
	switch {
	case readErr != nil:
		return true, errors.Join(err, readErr)
	case after == nil || after.Nonce != before.Nonce:
		return true, errors.Join(err, w.wrapError("working on", errors.New("the state no longer contains its record")))
	default:
		return statestore.Changed(before.Text, after.Text), err
	}
}

// Restore stores the decoded state of a backup, including its lineage, in a workspace that does not exist or is empty.
// It reports whether it stored the state. If a state with the same lineage, outputs and resources is already stored,
// for example by an earlier call that was killed, Restore returns false and no error. Before that, it saves a state
// that an earlier run could not save. What this Workspace knows of the guard does not change; State reads it.
//
// The error is ErrExists if the workspace contains another state, a *statelock.Error if another run holds the lock of
// the state for too long, and an *opentofu.Error if OpenTofu failed. It is any other error if the OpenTofu i does not
// support the backend or the encryption, or if a state cannot be read, replaced, saved or copied. stored is true
// together with an error only if the state was stored and the copy of a local state cannot be written. If it is false
// after an error of the backend or OpenTofu, the state may have been stored; Restore can be called again.
func (w *Workspace) Restore(
	ctx context.Context, i opentofu.Installation, state *statestore.State,
) (stored bool, err error) {
	err = w.perform(ctx, i, "restoring", func() error {
		before, err := w.read(ctx, i)
		switch {
		case err != nil:
			return err
		case before.state != nil && statestore.SameContent(before.state, state):
			return nil
		case before.state != nil:
			return ErrExists
		}
		err = w.storeState(ctx, i, before, scratch.CreateMissing, state.Text)
		switch {
		case errors.Is(err, statestore.ErrChanged):
			return ErrExists
		case err != nil:
			return err
		}
		stored = true
		return w.keepCopy(ctx)
	})
	return stored, err
}

// unique returns a name for a file or a workspace that is derived from this workspace: kind, a word that states the
// purpose, the name of the workspace, and the current time in nanoseconds since 1970, such as
// "backup-b-1234-1700000000000000000". It creates no file and does not check that the name is free.
func (d *direct) unique(kind string) string {
	return fmt.Sprintf("%s-%s-%d", kind, d.name, time.Now().UnixNano())
}
