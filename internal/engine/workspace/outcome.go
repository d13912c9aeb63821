package workspace

import (
	"context"
	"fmt"
	"strings"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
)

// A LostError reports that resources exist, or may exist, that the stored state does not contain, because the state
// was removed or replaced after this run read or wrote it. It contains the addresses of these resources. It also
// states whether the stored state still has the guard of this run, and whether another run may have destroyed the
// resources and removed the workspace. Such a loss happens when a database fails over to a replica that lags behind,
// or when another machine takes the state's lock.
//
// Apply and Destroy return an error that wraps a *LostError, also if they found the loss before OpenTofu changed a
// resource. A LostError is neither an ErrExists nor an ErrTakenOver, so a caller cannot mistake it for a workspace
// that only belongs to another run.
type LostError struct {
	// Resources are the addresses of the instances that exist, or may exist. They contain no secrets.
	Resources []string
	// Owned reports that the stored state still has the guard of this run, so that StoreRecord can record the
	// addresses. Otherwise the workspace must be reserved again, which fails with ErrExists if another run owns it.
	Owned bool
	// Unconfirmed reports that the error is one of Destroy, and that this run had neither reserved the workspace nor
	// taken it over: another run may have destroyed the resources and removed the workspace.
	Unconfirmed bool
}

// Error returns a sentence that says that the stored state was removed or replaced while OpenTofu worked, and that
// lists the addresses of the resources that are in no state, separated by commas.
func (e *LostError) Error() string {
	return "the stored state was removed or replaced while OpenTofu worked, and these resources are not recorded in " +
		"any state: " +
		strings.Join(e.Resources, ", ")
}

// checkStored reads the state after a run has ended, and compares it with progress, the changes that the run reported,
// and with before, the addresses of the instances that the state contained before the run. A zero progress stands for
// no run, or for a run that reported no change. The state that it reads becomes w.lastRead, and its secrets are masked
// from now on.
//
// The error is a *LostError if instances count as lost, and ErrTakenOver if none does and another run owns the
// workspace. These instances count as lost:
//   - If the run created the guard although before is not empty: all of before.
//   - Otherwise, if this run still owns the stored state: those whose creation completed and that are not in it, unless
//     a newer state waits to be saved.
//   - Otherwise, because the state is missing, has no guard or has that of another run: those that exist or may exist
//     after the run and are not in the stored state.
//
// With a *LostError or ErrTakenOver, the stored state, which may be nil, is returned as well. After ErrTakenOver, or
// after a *LostError that is not Owned, the caller must read or reserve the workspace again, because the guard and
// w.lastRead may have been forgotten. With any other error, the state cannot be read, the result is nil, and w.lastRead
// does not change.
//
// Without an error, the state is nil if the workspace is empty or no longer exists. A nil error does not mean that this
// run owns the workspace, because a stored state without a guard is not an error either if no instances count as lost:
// the caller must compare the nonce of a state that is not nil.
func (w *Workspace) checkStored(
	ctx context.Context, i opentofu.Installation, progress opentofu.Progress, before []string,
) (*statestore.State, error) {
	now, err := w.read(ctx, i)
	if err != nil {
		return nil, fmt.Errorf("reading the state of workspace %q: %w", w.name, err)
	}
	w.setLastRead(now)
	stored := now.state
	if progress.GuardCreated && len(before) > 0 {
		// The state had disappeared before the run, so OpenTofu may have created everything a second time.
		owned := stored != nil && stored.Nonce == w.guard.nonce
		return stored, &LostError{Resources: w.missingFrom(nil, before), Owned: owned}
	}
	if stored != nil && stored.Nonce == w.guard.nonce {
		// A restored replica may have an older state of this run. A state that waits to be saved is newer than the
		// stored one.
		if missing := w.missingFrom(stored, progress.Created); len(missing) > 0 && !w.HasUnsavedState() {
			return stored, &LostError{Resources: missing, Owned: true}
		}
		return stored, nil
	}
	missing := w.missingFrom(stored, progress.Remaining(before))
	switch {
	case len(missing) > 0:
		err = &LostError{Resources: missing}
	case stored == nil || stored.Nonce == "":
		return stored, nil
	default:
		err = ErrTakenOver
	}
	w.forgetGuard()
	return stored, err
}
