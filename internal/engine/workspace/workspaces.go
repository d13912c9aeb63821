package workspace

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
)

// Workspaces returns the sorted names of all workspaces of the state backend, whoever created them, except the
// workspace "default". The result is empty, possibly nil, if there are none. If the adapter cannot list them or that
// fails, the OpenTofu i lists them, and the failure is only logged. With an error the result is nil.
//
// The error wraps an *opentofu.Error if OpenTofu failed, for example because the backend is down or because ctx ended
// while OpenTofu was running. It is any other error if OpenTofu cannot be prepared or started, if the temporary scratch
// directory cannot be created or removed, or if ctx ends before OpenTofu is started.
func (e *Engine) Workspaces(ctx context.Context, i opentofu.Installation) ([]string, error) {
	if e.store != nil && e.canAccessDirectly(i) {
		names, err := e.store.List(ctx)
		if err == nil {
			return names, nil
		}
		e.logger.Debug("listing workspaces with OpenTofu", "error", e.newSecrets().Clean(err.Error()))
	}
	var names []string
	err := e.withScratch(ctx, "", func(s *states) (err error) {
		names, err = s.list(ctx, i)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	return names, nil
}

// peekBatch is the number of states that PeekAll reads with one query, if the backend can read several at once.
const peekBatch = 16

// PeekAll reads the states of several workspaces, as Peek does, without their leases. It reads batches of 16
// workspaces concurrently, at most as many batches at once as the process has CPUs, and the workspaces of a batch one
// after another. Unless the backend or the OpenTofu i prevents that, it reads the states of a batch with one query.
// PeekAll calls report once per name, with the index of the name in names and the result of Peek: a nil state without
// an error means that the workspace does not exist or is empty. The calls may be concurrent and in any order. PeekAll
// returns after the last call of report. The end of ctx makes the remaining reads fail, except for states that a
// query has already returned, but report is still called for each name.
func (e *Engine) PeekAll(
	ctx context.Context, i opentofu.Installation, names []string,
	report func(n int, state *statestore.State, err error),
) {
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for first := 0; first < len(names); first += peekBatch {
		group.Go(func() error {
			batch := names[first:min(first+peekBatch, len(names))]
			var prefetched map[string][]byte
			if batchReader, ok := e.store.(interface {
				ReadAll(ctx context.Context, workspaces []string) (map[string][]byte, error)
			}); ok && e.canAccessDirectly(i) {
				// After an error, each state is read on its own, so that report receives an error for the states that
				// it concerns.
				prefetched, _ = batchReader.ReadAll(ctx, batch)
			}
			for n, name := range batch {
				state, err := e.peek(ctx, i, name, prefetched)
				report(first+n, state, err)
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return nil; report has received the errors
}

// Locks returns the locks of states that are held at this moment, sorted by workspace. listed reports whether the
// backend can list locks; if only OpenTofu can access the states, listed is false and the result is nil without an
// error, because OpenTofu does not list locks. If listed is true, a nil result means that no lock is held; that is also
// so for a database without the table of the states. Locks returns an error if the backend cannot be read or the
// context ends; listed is then false, and locks must not be used.
func (e *Engine) Locks(ctx context.Context) (locks []statestore.Lock, listed bool, err error) {
	if e.store == nil {
		return nil, false, nil
	}
	locks, err = e.store.Locks(ctx)
	if errors.Is(err, statestore.ErrUnprepared) {
		return nil, true, nil
	}
	return locks, err == nil, err
}

// Peek reads the state of the named workspace without taking its lease, so it waits for a run that is under way only if
// that holds the lock of an incomplete, empty or missing state, or prepares the directory in which OpenTofu runs. The
// state is nil if the workspace does not exist or is empty, and with an error. If the OpenTofu i has to read the state,
// an empty workspace is deleted, because the read may have created it. The deletion waits for the lock of the state for
// about half of the time that ctx has left or, without a deadline, for 15 seconds.
//
// If the state file of the backend local is incomplete, Peek takes its lock, waiting at most about two seconds for a
// run that may be writing it, and restores the copy or else a state that an earlier run could not save. The error is a
// *statelock.Error if the lock is not released in that time or before ctx ends, and statestore.ErrIncomplete if there
// is neither, or if the row of the workspace in pg has no data.
//
// Peek also returns an error if the name is not valid (1 to 200 letters, digits, hyphens and underscores), an
// *opentofu.Error if OpenTofu could not read the state or delete the empty workspace, also because ctx ended, a
// *statelock.Error if another run holds the lock of an empty or missing workspace for too long or until ctx ends, and
// any other error if the state cannot be parsed, if a file cannot be read or written, if OpenTofu cannot be prepared or
// started, or if ctx ends at any other time.
func (e *Engine) Peek(ctx context.Context, i opentofu.Installation, name string) (*statestore.State, error) {
	return e.peek(ctx, i, name, nil)
}

// peek reads the state of the named workspace without its lease, as Peek does, and returns nil if the workspace does
// not exist or is empty. prefetched contains contents of the backend that have already been read, by workspace, and may
// be nil; an empty content means that the workspace does not exist. The state of a workspace that prefetched does not
// contain is read. If OpenTofu has to read the state, an empty workspace is deleted. An incomplete state of the backend
// local is restored from its copy, or else from a state that an earlier run could not save, under its lock.
//
// peek returns an error if the name is not valid, an *opentofu.Error if OpenTofu could not read the state or delete the
// empty workspace, also because ctx ended, a *statelock.Error if the lock of an incomplete state is not released within
// about two seconds, or another run holds that of an empty workspace for too long, or either is held until ctx ends,
// statestore.ErrIncomplete if an incomplete state cannot be restored or its row in pg has no data, and any other error
// if the state cannot be parsed, if a file cannot be read or written, if OpenTofu cannot be prepared or started, or if
// ctx ends at any other time.
func (e *Engine) peek(
	ctx context.Context, i opentofu.Installation, name string, prefetched map[string][]byte,
) (*statestore.State, error) {
	if !isWorkspaceName(name) {
		return nil, fmt.Errorf("reading workspace %q: the name must consist of letters, digits, - and _", name)
	}
	access := direct{
		engine: e, name: name, secrets: e.newSecrets(), lock: e.scratch.Waiter(name), store: e.store,
		prefetched: prefetched,
	}
	now, ok, err := access.readDirectly(ctx, i)
	if !ok && err == nil {
		ok, err = access.absentLocally(ctx)
	}
	if errors.Is(err, statestore.ErrIncomplete) {
		// A run may be writing it at this moment.
		brief, cancel := context.WithTimeout(ctx, peekTimeout)
		defer cancel()
		if err = access.repair(brief); err == nil {
			now, ok, err = access.readDirectly(ctx, i)
		}
	}
	if !ok && err == nil {
		err = e.withScratch(ctx, name, func(s *states) (err error) {
			now, err = s.readExisting(ctx, i)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("reading workspace %q: %w", name, err)
	}
	return now.state, nil
}

// peekTimeout limits the time in which Peek repairs a state that is incomplete, because a run may be writing it. The
// wait for the lock of the state takes at most half of that time; see statelock.Waiter.Retry.
const peekTimeout = 4 * time.Second

// withScratch calls work with an object that reads the state of a workspace only by running OpenTofu, in a new
// temporary scratch directory. The workspace is "" if work does not select one. withScratch does not take the lease
// of the workspace, so work must change nothing except delete an empty workspace. A run of OpenTofu in work may have
// to wait for another run in two cases: OpenTofu creates or deletes an empty workspace while the other run holds the
// lock of its state, or the other run is building the prepared directory that OpenTofu needs.
//
// withScratch removes the scratch directory afterwards, except a state in it that could not be saved. It returns the
// error of work, joined with an error if the directory cannot be removed, and another error, without calling work, if
// the directory cannot be created.
func (e *Engine) withScratch(ctx context.Context, workspace string, work func(*states) error) (err error) {
	directory, err := e.scratch.OpenTemporary(ctx, workspace)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, directory.Close()) }()
	s := e.states(workspace, directory)
	s.store = nil
	return work(s)
}

// UnsavedWorkspaces returns the sorted names of the workspaces that have a state in the scratch directories of
// CacheDir, because it could not be saved in the backend. Opening such a workspace and calling State saves it. A
// temporary scratch directory with such a state is listed by its own name, which begins with "look-". The result is
// empty, possibly nil, if there are none or if the directories cannot be read.
func (e *Engine) UnsavedWorkspaces() []string { return e.scratch.UnsavedWorkspaces() }
