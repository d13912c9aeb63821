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

// Workspaces returns the sorted names of all workspaces of the state backend, except the default workspace, whoever
// created them. The result is empty if there are none. The installation's OpenTofu lists them if the adapter cannot.
// The error is an *opentofu.Error if OpenTofu failed, for example because the backend is down, and any other error if
// OpenTofu cannot be prepared or the context ends.
func (e *Engine) Workspaces(ctx context.Context, i opentofu.Installation) ([]string, error) {
	if e.store != nil && e.canAccessDirectly(i) {
		names, err := e.store.List(ctx)
		if err == nil {
			return names, nil
		}
		e.logger.Debug("leaving the list of workspaces to OpenTofu", "error", e.newSecrets().Clean(err.Error()))
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

// PeekAll calls Peek for several workspaces concurrently. It calls report once per workspace, with the index of the
// workspace in names and the result of Peek, and returns after the last call. The calls of report may be concurrent.
// The end of ctx makes the remaining calls of Peek fail, but report is still called for each. If the backend allows it,
// several states are read with one query.
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

// Locks returns the locks of states that are held at this moment, sorted by workspace. known is false, and the result
// is nil, if only OpenTofu can access the states, because it does not list locks. Locks returns an error if the backend
// cannot be read; known is then false. A database without the table of the states has no locks.
func (e *Engine) Locks(ctx context.Context) (locks []statestore.Lock, known bool, err error) {
	if e.store == nil {
		return nil, false, nil
	}
	locks, err = e.store.Locks(ctx)
	if errors.Is(err, statestore.ErrUnprepared) {
		return nil, true, nil
	}
	return locks, err == nil, err
}

// Peek reads the state of a workspace without taking its lease, so it does not wait for runs that are under way. The
// state is nil if the workspace does not exist or is empty. If OpenTofu has to read the state, an empty workspace is
// deleted, because the read may have created it. Peek returns an error if the name is not valid, an *opentofu.Error if
// OpenTofu could not read the state, and any other error if the state cannot be parsed or OpenTofu cannot be prepared.
//
// If the state file of the local backend is incomplete, Peek takes its lock, waiting a few seconds for a run that may
// be writing it, and restores the copy. The error is a *statelock.Error if the lock is not released in time, and
// statestore.ErrIncomplete if there is no copy.
func (e *Engine) Peek(ctx context.Context, i opentofu.Installation, name string) (*statestore.State, error) {
	return e.peek(ctx, i, name, nil)
}

// peek reads the state of a workspace without its lease; see Peek for the result, the side effects and the errors.
// prefetched are contents of the backend that have already been read, by workspace, and may be nil; the state of a
// workspace that it does not contain is read.
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

// peekTimeout is how long Peek waits for the lock of a state that is incomplete because a run may be writing it.
const peekTimeout = 4 * time.Second

// withScratch calls work with a new scratch directory, without taking the lease of the workspace, and closes the
// directory afterwards. work uses OpenTofu; it must change nothing but delete an empty workspace. Its error is
// returned, and another error if ctx ends before or the directory cannot be created or removed. The workspace is "" if
// work does not select one.
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

// UnsavedWorkspaces returns the sorted names of the workspaces that have a state in the cache directory, because it
// could not be saved in the backend. Opening such a workspace and calling State saves it. The result is empty if there
// are none or if the directory cannot be read. See scratch.Root.UnsavedWorkspaces for the error.
func (e *Engine) UnsavedWorkspaces() ([]string, error) { return e.scratch.UnsavedWorkspaces() }
