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

// State reads the workspace's state with the OpenTofu i, or without OpenTofu if possible. Before that, it saves a state
// that an earlier run could not save. The result is nil if the workspace does not exist, is empty, or cannot be read;
// an empty workspace is deleted. From now on this Workspace uses the guard in the state, whichever run created it, and
// knows none if the state has none; if the result is nil, what it knows of the guard does not change. Secrets in the
// state are masked in later errors and log entries.
//
// The error wraps statestore.ErrIncomplete if the state file of the backend local is damaged and cannot be restored, or
// if the row of the workspace in pg has no data. It is a *statelock.Error if a change that is necessary before the
// read, or the deletion of an empty workspace, has to wait too long for another run, and an *opentofu.Error if OpenTofu
// could not read or save a state. It is any other error if the OpenTofu does not support the backend or the encryption
// or cannot be started, if a state cannot be parsed, if a file cannot be read or written, or if the context ends.
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

// Reserve creates the workspace with a guard, the resource that contains the record, a text of the caller in UTF-8.
// OpenTofu stores the text in the Unicode normal form C. Reserve makes this run the owner of the workspace. Before
// that, it saves a state that an earlier run could not save. If the workspace already has a guard, it is not changed
// and the error is ErrExists. A workspace with resources but without a guard gets one, and its resources stay as they
// are.
//
// The error is ErrNewerState if this Workspace has read a state of a newer OpenTofu than i. Reserve does not detect a
// newer state that was not read: a workspace without a guard gets one, and the version in its state becomes that of i.
// Callers that must prevent this call State first. The error is a *statelock.Error if another run holds the lock of the
// state for too long, and statestore.ErrIncomplete if the state is damaged. After any other error, such as an
// *opentofu.Error, the reservation may have succeeded, which State shows.
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

// reserveWithOpenTofu runs "tofu apply" to create the guard with this record and this nonce, the random text that
// identifies the reservation. Before that it makes a copy of a local state or, if the local workspace does not exist,
// creates it with a mark that it is empty. After a failure it saves a state that OpenTofu could not store, reads the
// stored state to find the reason, and deletes an empty workspace unless another run held its lock.
//
// ours is true if the workspace is reserved by this nonce. That may be so although reserveWithOpenTofu returns an
// error, because OpenTofu may be interrupted after it has stored the state. If one of the steps after a failure fails
// as well, the error wraps both errors, and ours is false although the guard may be stored.
//
// Otherwise the error is ErrExists if the workspace has the guard of another run, a *statelock.Error if another run
// holds the lock of the state for too long, and an *opentofu.Error if OpenTofu failed. It is any other error if the
// local state cannot be copied, if the mark cannot be written, or if OpenTofu cannot be prepared.
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

// stateAfterFailedReservation returns the stored state after a run that should have created the guard ended with the
// error failure. It first saves a state that this run could not save. The result is nil without an error if there is no
// state or an empty one; an empty workspace is deleted unless failure is a *statelock.Error.
//
// It returns nil and an error if the unsaved state cannot be saved, if the state cannot be read, or if the empty
// workspace cannot be deleted, for example because another run has reserved it meanwhile. The work may take the grace
// period of the engine even if the context has ended.
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

// Apply runs "tofu apply" with the prepared directory p of a template, in a workspace that is reserved and whose guard
// Reserve has created or State has read. It first stores the record of SetRecord, if there is one. vars are the values
// of the template's variables; those that the template does not declare are ignored, and a missing one without a
// default is null. Secrets in vars and in the state are masked from now on. Afterwards Started and State show how far
// the apply came, also if it failed. A state that OpenTofu could not save is saved, if possible; see HasUnsavedState.
//
// Apply compares the stored state with the resources that OpenTofu reported. The error is ErrTakenOver if another run
// owns the workspace, or if OpenTofu succeeded and the stored state has no guard. It is a *LostError if resources exist
// or may exist that are in no state. If the state had disappeared before the apply, the *LostError names all resources
// that it contained, and the template may not have been applied. If OpenTofu was killed and this run still owns the
// workspace, missing resources are not reported as lost, because a later apply may still add them. Both errors are also
// returned if OpenTofu succeeded, and replace its error. The workspace must then be read or reserved again, unless the
// *LostError is Owned.
//
// Otherwise the error is an *opentofu.Error if OpenTofu failed, also because ctx ended, ErrNewerState if the OpenTofu
// is older than the state, and a *statelock.Error if another run holds the lock of the state for too long. OpenTofu's
// message is removed from the *opentofu.Error if it could show generated secrets that are not known. It is any other
// error if the guard is not known, if the workspace no longer exists, if a state cannot be read, saved or copied, or if
// OpenTofu cannot be started or does not support the backend or the encryption. The template may have been applied then
// as well.
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

// maskFailure masks in err, the error of a failed apply, the secrets that the apply generated. It changes the
// *opentofu.Error that err wraps, and does nothing if there is none. readable states whether the stored state could be
// read after the apply, so that mask contains the values that the state marks as sensitive. If it is false and
// progress, the changes that the apply reported, contains a resource that may exist, OpenTofu's message is removed from
// the error, unless the message concerns the state backend.
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

// Started reports whether the last Apply may have begun to change a resource. It is false before the first Apply, and
// if OpenTofu could not be started or ended before it began to change one, for example because it could not evaluate
// the template. It is true if Apply did not run the template because it could not store the record of SetRecord, or
// because the state had disappeared. An Apply that fails because the guard is not known does not change the result.
func (w *Workspace) Started() bool { return w.started }

// change runs an OpenTofu command, which may change the state and resources, in the working directory wd of the
// prepared template p. The first of args is the subcommand, and vars are the values of all variables that the command
// gets. Their secrets are the values of the variables that the template declares sensitive or ephemeral, and the values
// that redact.Secrets.AddValues recognises. Before that, change saves an unsaved state, copies a state of the local
// backend, registers the secrets in vars for masking, and forgets the state that was read last.
//
// If the command fails and could not store the new state in the backend, change tries once to store it, within the
// grace period of the engine. The error of the command is returned even if that succeeds, and joined with the error of
// storing the state if that fails. The error names the operation doing, such as "applying". It is an *opentofu.Error if
// the command failed, also because ctx ended, and a *statelock.Error if another run holds the lock for too long. It is
// any other error if the OpenTofu does not support the backend or the encryption, if an unsaved state cannot be saved
// or a local state not copied, if a file cannot be written, or if OpenTofu cannot be started.
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

// Outputs returns the values of all outputs of the template in the state by name, including sensitive ones. An output
// that is null is absent, and the map is empty if there are none; the caller must not change it. Outputs uses the state
// that was read last, for example at the end of Apply, and reads the state as State does only if it may have changed
// since. Of p, it uses only the OpenTofu.
//
// With an error the result is nil. It returns an error if the workspace does not exist or if the state does not contain
// the mark of a complete last apply. If it reads the state, the error is ErrTakenOver if another run owns the workspace
// or this Workspace has neither read nor created its guard, and otherwise that of State. After ErrTakenOver this
// Workspace no longer knows the guard.
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
