package scratch

import (
	"context"
	"errors"
	"slices"
	"time"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statelock"
	"service-adapter/internal/engine/statestore"
)

// probeCommand is an OpenTofu command that takes the lock of the state. With an address that does not exist, it changes
// nothing.
const probeCommand = "untaint"

// minStaleElsewhere is the minimum age of a stale lock of another host, whose configuration and clock may be different.
const minStaleElsewhere = 10 * time.Minute

// runWaiting runs a command and repeats it while another run holds the lock of the state. A command that does not get
// the lock has changed nothing. A stale lock is released, a warning is logged, and the command is repeated at once; if
// the lock cannot be released, runWaiting goes on waiting. The error is a *statelock.Error if the lock was not released
// in time, and that of runOnce if the command failed for another reason.
func (d *Directory) runWaiting(
	ctx context.Context, i opentofu.Installation, c opentofu.Command,
) (output []byte, err error) {
	err = d.Lock.Retry(ctx, func() error {
		output, err = d.runOnce(ctx, i, c)
		if held := d.Lock.HeldBy(err); held != nil && d.isStale(held) {
			d.root.options.Logger.Warn("releasing a lock that was left behind",
				"workspace", d.workspace, "id", held.ID, "who", held.Who,
				"created", held.Created, "operation", held.Operation)
			if d.Unlock(ctx, i, held.ID) == nil {
				output, err = d.runOnce(ctx, i, c)
			}
		}
		return err
	})
	return output, err
}

// runOnce runs a command without waiting for the lock of the state. Unless the directory is temporary, it records the
// run in the lease of the workspace, and whether the command may have left a lock behind. The errors are those of
// opentofu.Runner.Run, in particular an *opentofu.Error if the command fails, and a plain error if the lease cannot be
// written.
func (d *Directory) runOnce(ctx context.Context, i opentofu.Installation, c opentofu.Command) ([]byte, error) {
	runner := d.root.options.Runner
	if !d.recordsRuns {
		return runner.Run(ctx, i, c)
	}
	c.Started = d.lease.RecordProcess
	locksOutlive := d.root.options.Backend.LocksOutliveProcess()
	if err := d.lease.RecordStart(locksOutlive); err != nil {
		return nil, err
	}
	output, err := runner.Run(ctx, i, c)
	if !locksOutlive {
		return output, err
	}
	var failure *opentofu.Error
	inOrder := !errors.As(err, &failure) || failure.ExitCode >= 0 && !failure.NotReleased
	takesLock := slices.Contains(
		[]string{"apply", "destroy", "import", "workspace delete", probeCommand}, opentofu.CommandName(c.Args),
	)
	return output, errors.Join(err, d.lease.RecordEnd(inOrder, err == nil && takesLock))
}

// isStale reports whether the run that took a lock is considered dead: it was a run under this lease that did not end
// in order, or the lock is older than StaleLock, which for a lock of another host counts as at least minStaleElsewhere.
// A lock from the future, which a jump of the clock can cause, is never too old. isStale returns false for a lock
// without an id.
func (d *Directory) isStale(held *statelock.Error) bool {
	if held.ID == "" {
		return false
	}
	limit := d.root.options.StaleLock(d.workspace)
	if limit > 0 && held.Who != statestore.UserAtHost() {
		limit = max(limit, minStaleElsewhere)
	}
	if limit > 0 && time.Since(held.Created) > limit {
		return true
	}
	// The name of the holder alone proves nothing, because an adapter with another cache directory or in another
	// container has the same name.
	return d.recordsRuns && held.Who == statestore.UserAtHost() && d.lease.LeftLock(held.Created)
}

// ProbeLock returns the lock of the state if another run holds it, otherwise nil. It finds out by trying once to take
// the lock with a command that changes nothing, but may create a missing workspace. It returns nil and an error, that
// of RunBase, if the command failed for another reason.
func (d *Directory) ProbeLock(ctx context.Context, i opentofu.Installation) (*statelock.Error, error) {
	_, err := d.RunBase(ctx, i, unlockDir, nil, probeCommand, "-no-color", "-allow-missing", "terraform_data._nothing")
	if held := d.Lock.HeldBy(err); held != nil {
		return held, nil
	}
	return nil, err
}

// Unlock releases a lock of the state by its id, whichever run holds it. The error is an *opentofu.Error if the state
// is not locked by this lock, and otherwise that of RunBase.
func (d *Directory) Unlock(ctx context.Context, i opentofu.Installation, id string) error {
	_, err := d.RunBase(ctx, i, unlockDir, nil, "force-unlock", "-no-color", "-force", id)
	return err
}

// ReleaseLeftLock releases the lock of a run under this lease that died before it stored anything, so that its
// workspace does not exist. No later run would encounter that lock. ReleaseLeftLock does nothing if the directory is
// temporary, if every run under the lease ended in order, or if the lock is free or not stale. The errors are those of
// ProbeLock and Unlock.
func (d *Directory) ReleaseLeftLock(ctx context.Context, i opentofu.Installation) error {
	if !d.recordsRuns || !d.lease.MayHaveLeftLock() {
		return nil
	}
	lock, err := d.ProbeLock(ctx, i)
	if lock != nil && d.isStale(lock) {
		err = d.Unlock(ctx, i, lock.ID)
	}
	return err
}
