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

// Backup writes a state that State has returned, which must not be nil, to a new file in the cache directory, and
// returns the path of the file. The file is encrypted like the states themselves, that is, not at all without
// Options.Encryption, and stays until the caller removes it. Backup returns an error if the file cannot be written.
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

// Push stores text, a state in clear text, whether the workspace has a state or not. Unless force is true, OpenTofu
// rejects a state with another lineage, with a lower serial number, or with the same serial number and another content;
// the error is an *opentofu.Error. It is a *statelock.Error if another run holds the lock of the state for too long,
// and any other error if text cannot be written to a file or a local state cannot be copied. A state that an earlier
// run could not save is saved first; see SaveUnsaved for the errors. After a success State must be called before the
// workspace can be used, because what this Workspace knows of the guard is forgotten.
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

// Unlock releases the lock of the workspace's state, whichever run holds it. The id identifies the lock; "" stands for
// the current one. The caller must make sure that the run that took the lock is dead, because otherwise two runs could
// change the state at the same time.
//
// With the id "" and a state that is not locked, Unlock does what State does: it saves a state that an earlier run
// could not save, deletes an empty workspace, uses the guard in the state, and returns the errors of State. With the id
// "", it returns an error that wraps a *statelock.Error if the lock ends with the run that holds it, as those of pg do.
// With any other id, it returns an error if the state is not locked by this lock. If the local backend has no state for
// the workspace, it does nothing. It also returns an error if OpenTofu cannot be run, or if the state of the local
// backend is not complete.
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
// service instance, and returns the new name. It returns an error if the state can be read or does not exist, a
// *statelock.Error if another run holds its lock, the error of reading the state if only OpenTofu can access the states
// of the backend, and the errors of statestore.Store.SetAside. Any other failure to read the state, or to save one that
// an earlier run left, counts as a sign that the state cannot be read, even if the cause is an OpenTofu that does not
// support the encryption or cannot be started.
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
	}
	if err != nil {
		return "", w.wrapError("setting aside", err)
	}
	return name, nil
}

// Exec runs any OpenTofu command with the template, its variables, providers, backend and encryption, connected to a
// user's terminal. Secrets in its output are not masked. It reports whether the state is another one afterwards, or may
// be. The workspace must be reserved, and its state must have been read last by State. Unlike the other methods, Exec
// does not wait for the lock of the state.
//
// The error is an *opentofu.Error if the command failed. It is ErrNewerState if the OpenTofu is older than the state,
// and a plain error if the workspace is not reserved; the command is not run then. It is also an error if a local state
// cannot be copied, if the state cannot be read afterwards, or if the command removed or replaced the guard. A nil
// error and false mean that the command changed nothing.
func (w *Workspace) Exec(
	ctx context.Context, p *templates.Prepared, vars map[string]any, terminal opentofu.Terminal, args ...string,
) (changed bool, err error) {
	before := w.lastRead.state
	if err := errors.Join(w.guard.requireReserved(p.Installation()), w.keepCopy(ctx)); err != nil {
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
		return true, errors.Join(err, w.wrapError("working on", errors.New("its record is gone from the state")))
	default:
		return statestore.Changed(before.Text, after.Text), err
	}
}

// Restore stores the state of a backup, including its lineage, in a workspace that does not exist or is empty. It
// reports whether it stored the state. If the same state is already stored, for example by an earlier call that was
// killed, Restore returns false and no error. If the workspace contains another state, the error is ErrExists. It is a
// *statelock.Error if another run holds the lock of the state for too long, and an *opentofu.Error if OpenTofu failed.
// It is any other error if the stored state cannot be read or replaced. stored may be true together with an error if
// only the copy of a local state cannot be written. What this Workspace knows of the guard does not change; State reads
// it.
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

// unique returns a name for a file or a workspace that belongs to this workspace. It consists of kind, a word such as
// "backup" that tells the purpose, the name of the workspace and the time in nanoseconds.
func (d *direct) unique(kind string) string {
	return fmt.Sprintf("%s-%s-%d", kind, d.name, time.Now().UnixNano())
}
