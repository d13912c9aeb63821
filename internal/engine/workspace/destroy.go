package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/scratch"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/value"
)

// Destroy runs "tofu destroy" for all resources in the workspace's state except the guard, the resource that holds
// the caller's record. The guard stays until Remove deletes the workspace. p is the prepared directory of the
// template and selects the OpenTofu, which may be newer than the one that applied the template. vars are the values
// of the template's variables; those that the template does not declare are ignored, and a missing one without a
// default is null. Destroying a workspace that does not exist is not an error, unless it contained resources when
// this Workspace read it. A state that State, TakeOver or Apply has just read is not read again before the run. If
// this Workspace does not know the guard, Destroy uses the guard in the state, whichever run created that. Before the
// run, a state that an earlier run could not save is saved; after it, so is one that this run could not save, if
// possible (see HasUnsavedState).
//
// If OpenTofu cannot evaluate the template against the real resources or read a data source, and has not begun to
// change a resource, a warning is logged and the destroy is repeated without refreshing them. Afterwards Destroy reads
// the state and compares it with the resources that OpenTofu reported, also if OpenTofu failed or ctx ended. The error
// is ErrTakenOver if another run owns the workspace; no resource is destroyed then, unless that run became the owner
// after the state was read last. It is a *LostError if resources that may still exist are in no state, with the field
// Unconfirmed set if this run has neither reserved the workspace nor taken it over. These two errors replace the error
// of OpenTofu, and the workspace must then be read or reserved again.
//
// Otherwise the error is ErrNewerState if the OpenTofu is older than the state, a *statelock.Error if another run holds
// the lock of the state for too long, and an *opentofu.Error if OpenTofu failed, also because ctx ended. It is any
// other error if a state cannot be read, saved or copied, if the OpenTofu does not support the backend or the
// encryption, if OpenTofu cannot be started, or if ctx ended before that.
func (w *Workspace) Destroy(ctx context.Context, p *templates.Prepared, vars map[string]any) error {
	before, owner := w.tracked, w.guard.owner
	if w.guard.nonce != "" && w.lastRead.state == nil {
		stored, err := w.checkStored(ctx, p.Installation(), opentofu.Progress{}, before)
		if err != nil || stored == nil {
			return w.wrapError("destroying", unconfirmed(err, owner))
		}
		before = w.tracked
	}
	options, err := w.destroyOptions(ctx, p.Installation())
	if err != nil || options == nil {
		return err
	}
	w.scratch.DropMessages("destroy")
	runErr := w.destroy(ctx, p, vars, options)
	checking, cancel := w.graceContext(ctx)
	defer cancel()
	_, err = w.checkStored(checking, p.Installation(), w.scratch.Progress("destroy"), before)
	switch lost := new(LostError); {
	case errors.As(err, &lost) || errors.Is(err, ErrTakenOver):
		return w.wrapError("destroying", unconfirmed(err, owner))
	case runErr != nil:
		return runErr
	}
	return w.wrapError("destroying", err)
}

// unconfirmed returns err, an error of checkStored, unchanged or with one field set. If err is or wraps a *LostError
// and owner is false, it sets the field Unconfirmed of that *LostError: another run may have destroyed the resources
// and removed the workspace. owner states whether this run had reserved or taken over the workspace. The result is
// nil if err is nil.
func unconfirmed(err error, owner bool) error {
	var lost *LostError
	if !owner && errors.As(err, &lost) {
		lost.Unconfirmed = true
	}
	return err
}

// destroy runs "tofu destroy" with the prepared directory p of the template, the values vars of its variables, and
// additional options such as "-exclude=terraform_data._binding". The command needs the resource blocks of the
// template, because their destroy-time provisioners may be what deletes an account. Variables that the template does
// not declare are ignored. If the workspace does not exist, OpenTofu may create an empty one. If the command fails
// because OpenTofu cannot evaluate the template or read a data source (opentofu.Error.InEvaluation), before it begins
// to change a resource and before the context ends, destroy logs a warning and repeats the command with the option
// -refresh=false.
//
// Before each command, a state that an earlier run could not save is saved, a local state is copied, and the state
// that was read last is forgotten. If a command fails and could not save the new state, destroy tries once to save
// it.
//
// The error is that of the last command: an *opentofu.Error if the command failed, a *statelock.Error if another run
// holds the lock of the state for too long, and any other error if a state cannot be saved or copied, or if the
// command cannot be prepared or started.
func (w *Workspace) destroy(ctx context.Context, p *templates.Prepared, vars map[string]any, options []string) error {
	args := append([]string{"destroy", "-json", "-input=false", "-auto-approve"}, options...)
	err := w.change(ctx, p, "destroying", scratch.Destroy, p.DeclaredVariables(vars), args...)
	var run *opentofu.Error
	if !errors.As(err, &run) || !run.InEvaluation() || w.scratch.Progress("destroy").Started || ctx.Err() != nil {
		return err
	}
	w.engine.logger.Warn("destroying without a refresh, because the template cannot be evaluated",
		"workspace", w.name, "error", err)
	return w.change(ctx, p, "destroying", scratch.Destroy, p.DeclaredVariables(vars), append(args, "-refresh=false")...)
}

// BeginDestroy stores in the state that a destroy has begun, by removing the mark of a complete apply, the resource
// terraform_data._complete, from the state. If an apply was ever complete, State.Destroying is true from then on, even
// if the process is killed before OpenTofu has saved the state of the destroy. No real resource is changed.
// BeginDestroy does nothing if the workspace does not exist or if its state does not contain the mark. It does not
// check which run owns the workspace.
//
// It uses the state that was read last. If that may have changed since, or if a state that could not be saved waits to
// be saved, it reads the state as State does, and returns the errors of State. The error is ErrNewerState if the
// OpenTofu i is older than the state, a *statelock.Error if another run holds the lock of the state for too long, an
// *opentofu.Error if OpenTofu could not read or store the state, and any other error if a state cannot be parsed, saved
// or copied. The mark may have been removed nevertheless, unless the error is ErrNewerState or a *statelock.Error.
func (w *Workspace) BeginDestroy(ctx context.Context, i opentofu.Installation) error {
	state, err := w.currentState(ctx, i, "destroying")
	if err != nil || state == nil || !state.HasCompleteMark {
		return err
	}
	return w.editState(ctx, i, "destroying", "rm", statestore.CompleteAddress)
}

// destroyOptions returns the options of "tofu destroy" that exclude the guard: ["-exclude=terraform_data._binding"].
// OpenTofu before 1.9 cannot exclude resources; for it, the options name all other resources as targets, such as
// "-target=aws_s3_bucket.b". destroyOptions needs the state only if the guard is not known, or for targets. It then
// reads the state, as State does, if that may have changed since the last read or if a state waits to be saved. The
// result is nil without an error, and the caller must not run a destroy, if that state does not exist or no target
// remains. The error is ErrNewerState if the OpenTofu i is older than the one that wrote the guard, even if the state
// is not read, and otherwise that of State.
func (w *Workspace) destroyOptions(ctx context.Context, i opentofu.Installation) ([]string, error) {
	exclude := []string{"-exclude=" + statestore.GuardAddress}
	if i.Excludes() && w.guard.tofuVersion != "" {
		if err := w.guard.requireNotOlder(i); err != nil {
			return nil, w.wrapError("destroying", err)
		}
		return exclude, nil
	}
	state, err := w.currentState(ctx, i, "destroying")
	if err != nil || state == nil {
		return nil, err
	}
	if i.Excludes() {
		return exclude, nil
	}
	targets := value.Convert(state.Resources, func(address string) string { return "-target=" + address })
	if state.HasCompleteMark {
		targets = append(targets, "-target="+statestore.CompleteAddress)
	}
	return targets, nil
}

// Remove deletes the workspace from the state backend, together with the guard that holds the caller's record, and
// forgets what this Workspace knows of the guard. Before that, it saves a state that an earlier run could not save.
// Removing a workspace that does not exist is not an error.
//
// The error is ErrNotEmpty if the state contains resources other than the guard. It is ErrTakenOver in three cases:
// another run owns the workspace; another run has changed the workspace since it was read, and it is not empty now; or
// the state contains a guard that this Workspace has neither read nor created. A state without a guard and without
// resources is removed. It is ErrNewerState if the OpenTofu i is older than the state, and a *statelock.Error if
// another run holds the lock of the state for too long. After any other error, such as one of reading the state or of
// OpenTofu, the workspace may have been deleted. After an error this Workspace still knows the guard.
func (w *Workspace) Remove(ctx context.Context, i opentofu.Installation) error {
	err := w.perform(ctx, i, "removing", func() error { return w.remove(ctx, i) })
	if err == nil {
		w.forgetGuard()
	}
	return err
}

// remove deletes the workspace with its guard unless it contains resources or another run owns it. Unlike Remove, it
// saves no unsaved state, its errors do not name the workspace, and it keeps what is known of the guard. It decides by
// the state that was read last, and reads the state only if none is remembered. It forgets that state before it deletes
// anything, and still remembers it if it refuses to delete the workspace. A workspace that does not exist is not an
// error.
//
// The error is ErrNotEmpty, which lists the resources, if the state contains resources other than the guard. It is
// ErrTakenOver if another run owns the workspace, if another run changed the state meanwhile and the workspace is not
// empty now or cannot be read, or if this Workspace has neither read nor created the guard in the state. It is
// ErrNewerState if the OpenTofu i is older than the state, a *statelock.Error if another run holds the lock for too
// long, and any other error if the state cannot be read or the workspace cannot be deleted. After a *statelock.Error,
// the workspace may exist with an empty state and without its guard. After an error of the last kind, it may also
// have been deleted.
func (w *Workspace) remove(ctx context.Context, i opentofu.Installation) error {
	stored, err := w.lastRead, error(nil)
	if stored.text == nil {
		stored, err = w.read(ctx, i)
	}
	switch state := stored.state; {
	case err != nil:
		return err
	case state == nil:
	case opentofu.Older(i.Version, state.TofuVersion):
		return newerStateError(state.TofuVersion, i)
	case state.Nonce != "" && state.Nonce != w.guard.nonce:
		return ErrTakenOver
	case len(state.Resources) > 0:
		return fmt.Errorf("%w: it contains %s", ErrNotEmpty, strings.Join(state.Resources, ", "))
	}
	w.lastRead = snapshot{}
	err = w.deleteIfUnchanged(ctx, i, stored)
	if !errors.Is(err, statestore.ErrChanged) && !errors.Is(err, ErrTakenOver) {
		return err
	}
	// Another run changed the state. If the workspace is empty, the workspace of this run has been removed.
	if stored, err := w.read(ctx, i); err != nil || stored.state != nil {
		return errors.Join(ErrTakenOver, err)
	}
	return nil
}
