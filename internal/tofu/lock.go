package tofu

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
)

// LockError says that another run holds the lock of a workspace's state, and held it for as long as was waited. Nothing was
// changed. ID, Who, Operation and Created are empty where the backend does not tell them, as pg does not.
type LockError struct {
	Workspace string
	statestore.HeldError

	cause error // the end of the context, if it was that
}

// Error tells who holds the lock and what to do.
func (e *LockError) Error() string {
	text := fmt.Sprintf("the state of workspace %q is locked", e.Workspace)
	if e.ID == "" {
		return text + " by another run; try again when that has ended"
	}
	return fmt.Sprintf("%s by %s since %s (%s, lock %s); when that run is dead, release the lock with `service-adapter %s`",
		text, e.Who, e.Created.UTC().Format(time.RFC3339), e.Operation, e.ID, e.unlock())
}

// unlock is the adapter's command that releases the lock. The workspaces of bindings are named b-ID, those of instances i-ID; one that is
// named bh- or ih- and a hash is known to the command by this name.
func (e *LockError) unlock() string {
	id := e.Workspace
	if prefix, rest, found := strings.Cut(id, "-"); found && (prefix == "b" || prefix == "i") {
		id = rest
	}
	if strings.HasPrefix(e.Workspace, "i") {
		return "instance unlock " + id
	}
	return "bindings unlock " + id
}

// Unwrap returns the error of the context that ended the waiting, if one did.
func (e *LockError) Unwrap() error { return e.cause }

// askLock is the command that only asks who holds a lock.
const askLock = "untaint"

// How a lock that another run holds is waited for. OpenTofu's -lock-timeout is not used: it does not count for the lock that
// creates a workspace, and its tries are 1, 2, 4, 8 seconds apart.
const (
	shortestPause = 50 * time.Millisecond
	longestPause  = time.Second
	// lockPatience is for how long where the context does not end; else it is half of the time that is left.
	lockPatience = 15 * time.Second
	// lockDelay is how long after its start a run takes its lock at the latest.
	lockDelay = 10 * time.Second
	// staleElsewhere is the least age of a stale lock of another host, which may have another budget and another clock.
	staleElsewhere = 10 * time.Minute
)

// patience is until when a lock is waited for.
func patience(ctx context.Context) time.Time {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Now().Add(time.Until(deadline) / 2)
	}
	return time.Now().Add(lockPatience)
}

// patiently runs a command of the workspace and waits while another run holds the lock of its state: a command that does not
// get the lock has changed nothing. A lock that was left behind is released.
func (s *session) patiently(ctx context.Context, i opentofu.Installation, c opentofu.Command) (output []byte, err error) {
	err = s.whileHeld(ctx, func() error {
		output, err = s.once(ctx, i, c)
		if held := s.heldBy(err); held != nil && s.stale(held) {
			s.engine.logger.Warn("releasing a lock that was left behind", "workspace", s.name, "id", held.ID, "who", held.Who,
				"created", held.Created, "operation", held.Operation)
			if s.unlock(ctx, i, held.ID) == nil {
				output, err = s.once(ctx, i, c)
			}
		}
		return err
	})
	return output, err
}

// once runs a command and keeps in mind whether it may have left a lock behind.
func (s *session) once(ctx context.Context, i opentofu.Installation, c opentofu.Command) ([]byte, error) {
	if s.lease == nil {
		return s.engine.again(ctx, i, c)
	}
	c.Started = s.lease.started
	lingers := s.engine.options.Backend.locksLinger()
	if err := s.lease.starts(lingers); err != nil {
		return nil, err
	}
	output, err := s.engine.again(ctx, i, c)
	if !lingers {
		return output, err
	}
	var failure *opentofu.Error
	inOrder := !errors.As(err, &failure) || failure.ExitCode >= 0 && !failure.NotReleased
	locks := slices.Contains([]string{"apply", "destroy", "import", "workspace delete", askLock}, opentofu.CommandName(c.Args))
	return output, errors.Join(err, s.lease.ended(inOrder, err == nil && locks))
}

// heldBy returns the lock because of which a run, or what is done without one, failed; nil when it did not.
func (s *session) heldBy(err error) *LockError {
	var held *statestore.HeldError
	var failure *opentofu.Error
	switch {
	case errors.As(err, &held):
	case !errors.As(err, &failure) || failure.Held == nil:
		return nil
	case s.engine.options.Backend.Type == pgType:
		held = &statestore.HeldError{} // OpenTofu tells about the one who tried
	default:
		held = failure.Held
	}
	return &LockError{Workspace: s.name, HeldError: *held}
}

// again runs a command once more when two machines prepared the backend at the same moment.
func (e *Engine) again(ctx context.Context, i opentofu.Installation, c opentofu.Command) ([]byte, error) {
	const tries = 5
	for try := 1; ; try++ {
		output, err := e.runner.Run(ctx, i, c)
		var failure *opentofu.Error
		if !errors.As(err, &failure) || !failure.SetupRace || try == tries {
			return output, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(rand.N(shortestPause)):
		}
	}
}

// stale tells whether the run that took a lock is dead: it was a run under this lease that did not end in order, or the lock is too
// old. One whose time lies in the future, because a clock jumped, is never old.
func (s *session) stale(held *LockError) bool {
	if held.ID == "" {
		return false
	}
	limit := s.engine.options.StaleLock(s.name)
	if limit > 0 && held.Who != statestore.Who() {
		limit = max(limit, staleElsewhere)
	}
	if limit > 0 && time.Since(held.Created) > limit {
		return true
	}
	// Who is not enough: an adapter with another cache directory, or in another container, has the same name.
	return s.lease != nil && held.Who == statestore.Who() && slices.ContainsFunc(s.lease.now.Left, func(began time.Time) bool {
		return !held.Created.Before(began) && held.Created.Before(began.Add(lockDelay))
	})
}

// Unlock releases the lock of the workspace's state, whoever holds it: the one with this id, or with "" whatever lock is held.
// That there is none is fine. The run that took it must be dead, else two would change the state at once.
func (w *Workspace) Unlock(ctx context.Context, i opentofu.Installation, id string) error {
	if absent, err := w.absent(ctx); absent || err != nil {
		return err
	}
	if id == "" {
		held, err := w.held(ctx, i)
		switch {
		case err != nil:
			return w.failed("unlocking", err)
		case held == nil:
			_, err := w.State(ctx, i) // To look at a workspace creates it; this removes it again.
			return err
		case held.ID == "":
			return w.failed("unlocking", fmt.Errorf("%w; locks of the state backend %s end with the run that holds them and cannot be released",
				held, w.engine.options.Backend.Type))
		}
		id = held.ID
	}
	return w.failed("unlocking", w.unlock(ctx, i, id))
}

// held asks who holds the lock by taking it, with a command that changes nothing.
func (s *session) held(ctx context.Context, i opentofu.Installation) (*LockError, error) {
	_, err := s.runBase(ctx, i, unlockPlace, nil, askLock, "-no-color", "-allow-missing", "terraform_data._nothing")
	if held := s.heldBy(err); held != nil {
		return held, nil
	}
	return nil, err
}

// unlock releases a lock by its id.
func (s *session) unlock(ctx context.Context, i opentofu.Installation, id string) error {
	_, err := s.runBase(ctx, i, unlockPlace, nil, "force-unlock", "-no-color", "-force", id)
	return err
}

// releaseLeft releases the lock of a run under this lease that died before it stored anything. Nothing else would come upon it.
func (s *session) releaseLeft(ctx context.Context, i opentofu.Installation) error {
	if s.lease == nil || len(s.lease.now.Left) == 0 {
		return nil
	}
	held, err := s.held(ctx, i)
	if held != nil && s.stale(held) {
		err = s.unlock(ctx, i, held.ID)
	}
	return err
}

// whileHeld tries something again as long as another run holds the lock of the state.
func (s *session) whileHeld(ctx context.Context, try func() error) error {
	end := patience(ctx)
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		err := try()
		locked := s.heldBy(err)
		if locked == nil {
			return err
		}
		if time.Now().After(end) {
			return locked
		}
		if !s.waits {
			s.waits = true
			s.engine.logger.Warn("waiting for a lock of the state", "workspace", s.name, "who", locked.Who, "operation", locked.Operation, "id", locked.ID)
		}
		select {
		case <-ctx.Done():
			locked.cause = opentofu.Ended(ctx)
			return locked
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}
