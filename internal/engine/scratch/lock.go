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

// runWaiting runs the OpenTofu command c with the OpenTofu i, and repeats it while another run holds the lock of the
// state. It returns the standard output of the command. A command that does not get the lock has changed nothing. A
// stale lock, one of a run that is considered dead, is released, a warning is logged, and the command is repeated at
// once; if the lock cannot be released, runWaiting continues to wait.
//
// It waits for half of the time that ctx has left, or 15 seconds if ctx has no deadline. The error is a
// *statelock.Error if the lock was not released in that time or ctx ended during the wait. If the command failed for
// another reason, the error is that of runOnce: an *opentofu.Error if OpenTofu ended with a failure, and a plain
// error if it cannot be started, also because ctx has ended, its output cannot be stored, or the lease cannot be
// written. The output is nil with an error, unless the command succeeded and only the lease could not be written
// afterwards.
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

// runOnce runs the OpenTofu command c with the OpenTofu i once, without waiting for the lock of the state, and returns
// its standard output. Unless the directory is temporary, it records in the lease of the workspace that a run is under
// way, its process, and whether the command may have left a lock of the state behind.
//
// The error is an *opentofu.Error if OpenTofu ends with a failure, also because another run holds the lock. It is a
// plain error if OpenTofu cannot be started, also because ctx has ended, its output cannot be stored, or the lease
// cannot be written. If the lease cannot be written only after the run, the output is returned together with the error.
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

// isStale reports whether the run that took the lock held is considered dead. That is so in two cases:
//   - The lock is older than the result of Options.StaleLock. A lock of another user or host must also be older than 10
//     minutes. The age does not count if the result is 0, or if the lock is from the future, which a jump of the clock
//     can cause.
//   - The directory is not temporary, the holder of the lock is this user at this host, and a run that did not end in
//     order, under this lease or an earlier one of the workspace, can have taken the lock; see lease.Lease.LeftLock.
//
// isStale returns false for a lock without an id.
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

// ProbeLock returns a description of the lock of the state if another run holds it, and nil if the lock is free. The
// description has the ID "" if the backend does not report the holder, as pg does not, or if the lock is being taken or
// released. ProbeLock tries once to take the lock, by running "tofu untaint" with an address that does not exist; that
// does not change the state, but may create a missing workspace. It does not wait for the lock, but for builds of the
// prepared directory of the guard; see RunBase. If the command fails for another reason, ProbeLock returns nil and an
// error: an *opentofu.Error if OpenTofu failed, and any other error if OpenTofu cannot be prepared or started, or the
// lease cannot be written.
func (d *Directory) ProbeLock(ctx context.Context, i opentofu.Installation) (*statelock.Error, error) {
	_, err := d.RunBase(ctx, i, unlockDir, nil, probeCommand, "-no-color", "-allow-missing", "terraform_data._nothing")
	if held := d.Lock.HeldBy(err); held != nil {
		return held, nil
	}
	return nil, err
}

// Unlock runs "tofu force-unlock" to release the lock of the state with this id, as OpenTofu reports it, whichever run
// holds it. It does not check that the run is dead. The error is an *opentofu.Error if the state is not locked by this
// lock or OpenTofu fails for another reason, and any other error if OpenTofu cannot be prepared or started, or the
// lease cannot be written.
func (d *Directory) Unlock(ctx context.Context, i opentofu.Installation, id string) error {
	_, err := d.RunBase(ctx, i, unlockDir, nil, "force-unlock", "-no-color", "-force", id)
	return err
}

// ReleaseLeftLock releases the lock of the state if it is stale, which means that the run that took it is considered
// dead, and if a run under this lease or an earlier one of the workspace may have left a lock; see
// lease.Lease.MayHaveLeftLock. Otherwise, and always in a temporary directory, it releases nothing and returns nil.
// It is meant for a workspace that does not exist because the run died before it stored a state.
//
// If such a run may have left a lock, ReleaseLeftLock inspects the lock with OpenTofu, which may create the missing
// workspace. The error is an *opentofu.Error if OpenTofu failed, and any other error if OpenTofu cannot be prepared
// or started, or the lease cannot be written.
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
