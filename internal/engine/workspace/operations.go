package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/scratch"
	"service-adapter/internal/engine/statelock"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/redact"
)

// State reads the workspace's state, after saving a state that an earlier run could not save. The result is nil if the
// workspace does not exist or is empty; an empty workspace is deleted. From now on this Workspace uses the guard in the
// state, whichever run created it; if the result is nil, what it knows of the guard does not change. Secrets in the
// state are masked in later errors.
//
// The error wraps statestore.ErrIncomplete if the state file of the local backend is damaged and has no copy. It is a
// *statelock.Error if a change that is necessary before the read, or the deletion of an empty workspace, has to wait
// too long for another run, and an *opentofu.Error if OpenTofu could not read or save a state. It is any other error if
// the OpenTofu does not support the backend or the encryption, or if a state cannot be parsed or a file cannot be
// written.
func (w *Workspace) State(ctx context.Context, i opentofu.Installation) (*statestore.State, error) {
	err := w.perform(ctx, i, "reading", func() (err error) {
		stored, err := w.readExisting(ctx, i)
		w.setLastRead(stored)
		return err
	})
	state := w.lastRead.state
	if err != nil || state == nil {
		return nil, err
	}
	w.guard.owner = w.guard.owner && w.guard.nonce == state.Nonce
	w.guard.record, w.guard.nonce, w.guard.tofuVersion = state.Record, state.Nonce, state.TofuVersion
	return state, nil
}

// Reserve creates the workspace with a guard that contains the record. It makes this run the owner of the workspace. If
// the workspace already has a guard, it is not changed and the error is ErrExists. The error is ErrNewerState if this
// Workspace has read a state of a newer OpenTofu, a *statelock.Error if another run holds the lock of the state for too
// long, and statestore.ErrIncomplete if the state is damaged. After any other error the reservation may have succeeded,
// which State shows.
func (w *Workspace) Reserve(ctx context.Context, i opentofu.Installation, record []byte) error {
	if err := w.guard.requireNotOlder(i); err != nil {
		return w.wrapError("reserving", err)
	}
	return w.perform(ctx, i, "reserving", func() error {
		w.setLastRead(snapshot{})
		nonce := rand.Text()
		ours, err := w.reserveDirectly(ctx, i, record, nonce)
		if !ours && err == nil {
			ours, err = w.reserveWithOpenTofu(ctx, i, record, nonce)
		}
		if ours {
			w.guard.record, w.guard.nonce, w.guard.tofuVersion, w.guard.owner = record, nonce, i.Version, true
		}
		return err
	})
}

// reserveWithOpenTofu has OpenTofu create the guard with this record and nonce. It reports whether the workspace is
// reserved by this nonce, which may be true although it returns an error: OpenTofu may be interrupted after it has
// stored the state. The error is ErrExists if the workspace has the guard of another run, a *statelock.Error if another
// run holds the lock of the state for too long, and an *opentofu.Error if OpenTofu failed. It is any other error if a
// local state cannot be marked or copied. If the state cannot be read after a failure, the error wraps both errors.
func (w *Workspace) reserveWithOpenTofu(
	ctx context.Context, i opentofu.Installation, record []byte, nonce string,
) (ours bool, err error) {
	vars := map[string]any{templates.RecordVariable: string(record), templates.NonceVariable: nonce}
	if err := w.keepCopyOrMarkEmpty(ctx); err != nil {
		return false, err
	}
	// The target is only the guard, so that no resource of a workspace that lost its guard is changed.
	args := []string{"apply", "-json", "-input=false", "-auto-approve", "-target=" + statestore.GuardAddress}
	_, runErr := w.scratch.RunBase(ctx, i, scratch.Reserve, vars, w.withoutBackup(args)...)
	if runErr == nil {
		return true, nil
	}
	// The reason is read from the state, not from the text of the error.
	state, err := w.stateAfterFailedReservation(ctx, i, runErr)
	switch {
	case err != nil:
		return false, errors.Join(runErr, err)
	case state != nil && state.Nonce != "" && state.Nonce != nonce:
		return false, ErrExists
	default:
		return state != nil && state.Nonce == nonce, runErr
	}
}

// stateAfterFailedReservation returns the stored state after a run that should have created the guard ended with
// failure. It first saves a state that this run could not save. The result is nil if there is no state or an empty one;
// an empty workspace is deleted unless failure is a *statelock.Error. The errors are those of pushUnsaved, read and
// deleteIfUnchanged. The work may take the grace period of the engine even if the context has ended.
func (w *Workspace) stateAfterFailedReservation(
	ctx context.Context, i opentofu.Installation, failure error,
) (*statestore.State, error) {
	ctx, cancel := w.graceContext(ctx)
	defer cancel()
	if err := w.pushUnsaved(ctx, i); err != nil {
		return nil, err
	}
	now, err := w.read(ctx, i)
	var held *statelock.Error
	if err != nil || now.state != nil || errors.As(failure, &held) {
		return now.state, err
	}
	return nil, w.deleteIfUnchanged(ctx, i, now)
}

// Apply applies the template in a workspace that is reserved, and stores the record of SetRecord first, if there is
// one. The variables may include ones that the template does not declare; these are not passed on. Afterwards Started
// and State show how far the apply came, also if it failed.
//
// Apply compares the stored state with the resources that OpenTofu reported. The error is ErrTakenOver if another run
// owns the workspace, and a *LostError if a resource is in no state. Both are also returned if OpenTofu succeeded.
// Otherwise it is an *opentofu.Error if OpenTofu failed, ErrNewerState if the OpenTofu is older than the state, and a
// *statelock.Error if another run holds the lock of the state for too long. It is any other error if the workspace is
// not reserved, if it no longer exists, or if a state cannot be read, saved or copied. A state that OpenTofu could not
// save is saved, if possible; see HasUnsavedState.
func (w *Workspace) Apply(ctx context.Context, p *templates.Prepared, vars map[string]any) error {
	if w.guard.nonce == "" {
		return w.wrapError("applying", errors.New("it is not reserved"))
	}
	before := w.tracked
	w.started = true // until the messages of the run show that no resource was changed
	w.scratch.DropMessages("apply")
	if err := w.updateGuard(ctx, p, vars); err != nil {
		return err
	}
	if storing := w.scratch.Progress("apply"); storing.GuardCreated && len(before) > 0 {
		_, err := w.checkStored(ctx, p.Installation(), storing, before)
		return w.wrapError("applying", err)
	}
	w.scratch.DropMessages("apply")
	args := []string{"apply", "-json", "-input=false", "-auto-approve"}
	runErr := w.change(ctx, p, "applying", scratch.Apply, w.guard.variables(p, vars), args...)
	progress := w.scratch.Progress("apply")
	var run *opentofu.Error
	if errors.As(runErr, &run) && run.ExitCode < 0 {
		// OpenTofu was killed before it could save everything. The record stays, and a later command finishes the
		// creation.
		progress.Begun, progress.Created = slices.Concat(progress.Begun, progress.Created), nil
	}
	w.started = progress.Started
	checking, cancel := w.graceContext(ctx)
	defer cancel()
	stored, err := w.checkStored(checking, p.Installation(), progress, before)
	switch lost := new(LostError); {
	case errors.As(err, &lost) || errors.Is(err, ErrTakenOver):
		return w.wrapError("applying", err)
	case runErr != nil:
		maskFailure(runErr, w.secrets, err == nil, &progress)
		return errors.Join(runErr, err)
	case err == nil && stored == nil:
		err = errors.New("it no longer exists")
	case err == nil && stored.Nonce != w.guard.nonce:
		w.forgetGuard()
		err = ErrTakenOver
	case err == nil:
		err = w.keepCopy(ctx)
	}
	return w.wrapError("applying", err)
}

// maskFailure masks in the error of a failed apply the secrets that the apply generated, which the stored state marks.
// It changes the *opentofu.Error that err wraps, and does nothing if there is none. readable states whether the stored
// state could be read, so that mask contains these secrets. If it could not, and the apply may have created a resource,
// OpenTofu's message is removed from the error, unless the message is about the state backend.
func maskFailure(err error, mask *redact.Secrets, readable bool, progress *opentofu.Progress) {
	var run *opentofu.Error
	if !errors.As(err, &run) {
		return
	}
	switch {
	case readable:
		run.Mask(mask)
	case run.Backend == "" && len(progress.Remaining(nil)) > 0:
		run.ReplaceText("its message is left out, because it may show generated secrets, " +
			"and the state that marks them cannot be read")
	}
}

// Started reports whether the last Apply may have begun to change a resource. It is false if OpenTofu could not be
// started or ended before that, for example because it could not evaluate the template, and if Apply has not been
// called for a reserved workspace. It is true if Apply failed before it ran the template, for example because it could
// not store the record of SetRecord.
func (w *Workspace) Started() bool { return w.started }

// change runs an OpenTofu command, which may change the state, with a prepared template in a working directory; the
// first of args is the subcommand, and vars are all variables that the command gets. Before that, it saves an unsaved
// state, makes a copy of a state of the local backend, registers the values of sensitive and ephemeral variables for
// masking, and forgets the state that was read last.
//
// If the command fails and could not store the new state in the backend, change tries once to store it, within the
// grace period of the engine. The error of the command is returned even if that succeeds. The error names the operation
// doing, such as "applying". It is an *opentofu.Error if the command failed, and a *statelock.Error if another run
// holds the lock for too long. It is any other error if the command cannot be prepared; see begin, keepCopy and
// scratch.Directory.Run.
func (w *Workspace) change(
	ctx context.Context, p *templates.Prepared, doing string, wd scratch.WorkingDir,
	vars map[string]any, args ...string,
) error {
	return w.perform(ctx, p.Installation(), doing, func() error {
		if err := w.keepCopy(ctx); err != nil {
			return err
		}
		w.lastRead = snapshot{}
		w.secrets.AddValues(vars, p.SecretVariables()...)
		_, err := w.scratch.Run(ctx, p, wd, vars, w.withoutBackup(args)...)
		if err == nil {
			return nil
		}
		ctx, cancel := w.graceContext(ctx)
		defer cancel()
		return errors.Join(err, w.pushUnsaved(ctx, p.Installation()))
	})
}

// Outputs returns the values of all outputs in the state, including sensitive ones. An output that is null is absent,
// and the map is empty if there are none. Outputs uses the state that was read last, for example at the end of Apply,
// and reads the state as State does only if it may have changed since. It returns an error if the workspace does not
// exist or if its last apply was not complete, and the errors of State; the error is ErrTakenOver if another run owns
// the workspace.
func (w *Workspace) Outputs(ctx context.Context, p *templates.Prepared) (map[string]any, error) {
	if w.lastRead.state == nil {
		nonce := w.guard.nonce
		switch state, err := w.State(ctx, p.Installation()); {
		case err != nil:
			return nil, err
		case state == nil:
			return nil, w.wrapError("reading", errors.New("it does not exist"))
		case state.Nonce != nonce:
			w.forgetGuard()
			return nil, w.wrapError("reading", ErrTakenOver)
		}
	}
	if !w.lastRead.state.Complete {
		return nil, w.wrapError("reading", errors.New("its last apply is not stored as complete"))
	}
	return w.lastRead.state.Outputs, nil
}
