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

// Destroy destroys all resources except the guard, which keeps the record until Remove deletes the workspace. The
// template may have been applied with an older OpenTofu. The variables may include ones that the template does not
// declare. Destroying a workspace that does not exist is not an error, unless it contained resources when this
// Workspace read it. A state that State, TakeOver or Apply has just read is not read again.
//
// If OpenTofu cannot evaluate the template against the real resources, the destroy is repeated without refreshing them,
// and a warning is logged. If another run owns the workspace, the error is ErrTakenOver; no resource is destroyed then,
// unless that run became the owner after the state was read last. It is a *LostError if a resource is in no state,
// ErrNewerState if the OpenTofu is older than the state, a *statelock.Error if another run holds the lock of the state
// for too long, and an *opentofu.Error if OpenTofu failed. It is any other error if a state cannot be read, saved or
// copied. A LostError and ErrTakenOver are returned in place of OpenTofu's error; the workspace must then be read or
// reserved again.
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

// unconfirmed returns err, an error of checkStored. If err is or wraps a *LostError and owner, which states whether
// this run owned the workspace, is false, it sets Unconfirmed in the error. It returns nil for nil.
func unconfirmed(err error, owner bool) error {
	var lost *LostError
	if !owner && errors.As(err, &lost) {
		lost.Unconfirmed = true
	}
	return err
}

// destroy runs "tofu destroy" with additional options. If that fails while OpenTofu evaluates the template, before it
// begins to change a resource and before the context ends, destroy logs a warning and repeats the command without a
// refresh. It uses the destroy variant, which contains the resource blocks, because the destroy-time provisioners in
// them may be what deletes an account. The errors are those of change.
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

// BeginDestroy stores in the state that a destroy has begun. From then on State.Destroying is true, even if the process
// is killed before OpenTofu has saved the state of the destroy. It does nothing if the workspace does not exist or if
// its state does not contain the mark of a complete apply. The errors are those of State, ErrNewerState if the OpenTofu
// is older than the state, a *statelock.Error if another run holds the lock of the state for too long, and an
// *opentofu.Error if OpenTofu could not store it. It is any other error if a local state cannot be copied.
func (w *Workspace) BeginDestroy(ctx context.Context, i opentofu.Installation) error {
	state, err := w.currentState(ctx, i, "destroying")
	if err != nil || state == nil || !state.HasCompleteMark {
		return err
	}
	return w.editState(ctx, i, "destroying", "rm", statestore.CompleteAddress)
}

// destroyOptions returns the options that exclude the guard from a destroy. OpenTofu before 1.9 cannot exclude
// resources; for it, the options name all other resources as targets. destroyOptions reads the state only if it needs
// it. The result is nil, and the caller must not run a destroy, if the state that it reads does not exist, or if there
// is no resource to name, so that there is nothing to destroy. The errors are ErrNewerState if the OpenTofu is older
// than the state, and those of State.
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

// Remove deletes the workspace with its record, and forgets what this Workspace knows of its guard. The error is
// ErrNotEmpty if the state contains resources other than the guard, ErrTakenOver if another run owns the workspace,
// ErrNewerState if the OpenTofu is older than the state, and a *statelock.Error if another run holds the lock of the
// state for too long. After any other error the workspace may have been deleted. Removing a workspace that does not
// exist is not an error. After an error this Workspace still knows the guard.
func (w *Workspace) Remove(ctx context.Context, i opentofu.Installation) error {
	err := w.perform(ctx, i, "removing", func() error { return w.remove(ctx, i) })
	if err == nil {
		w.forgetGuard()
	}
	return err
}

// remove deletes the workspace with its record unless it contains resources or another run owns it; see Remove for the
// errors. Unlike Remove, it saves no unsaved state, its errors do not name the workspace, and it keeps what is known of
// the guard. It decides by the state that was read last, and reads the state only if there is none. It forgets that
// state before it deletes anything; if it refuses to delete the workspace, it keeps it.
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
		return fmt.Errorf("%w: it holds %s", ErrNotEmpty, strings.Join(state.Resources, ", "))
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
