// Package statelock waits for the lock of a workspace's state while another run holds it. The lock is OpenTofu's own,
// so it also excludes runs on other machines.
package statelock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"service-adapter/internal/ctxio"
	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
)

// An Error reports that another run holds the lock of a workspace's state. An Error of Waiter.Retry means that the lock
// was held for the whole time that the operation could wait. The operation has changed neither resources nor the state.
// If the context ended during the wait, the Error wraps an error that satisfies errors.Is with the context's error. ID,
// Who and Operation are "" and Created is the zero time if the holder is not known: the backend does not report it, as
// on pg, or the lock changed hands before OpenTofu could read its holder.
type Error struct {
	Workspace string
	statestore.HeldError

	cause error // the cause of the context's end, if that ended the waiting
}

// Error returns a message that names the workspace. If the backend reports the holder of the lock, so that ID is not
// "", the message also contains the holder, the time, the operation, the id of the lock and the adapter's command that
// releases the lock. Otherwise it asks the reader to try again later.
func (e *Error) Error() string {
	text := fmt.Sprintf("the state of workspace %q is locked", e.Workspace)
	if e.ID == "" {
		return text + " by another run; try again when that has ended"
	}
	return fmt.Sprintf("%s by %s since %s (%s, lock %s); "+
		"if that run is dead, release the lock with `service-adapter %s`",
		text, e.Who, e.Created.UTC().Format(time.RFC3339), e.Operation, e.ID, e.unlockCommand())
}

// unlockCommand returns the adapter's command that releases the lock, without the program. For the workspaces b-ID and
// i-ID it is "bindings unlock ID" and "instance unlock ID". Any other workspace name is itself the argument, because
// the commands also accept the names that begin with bh- or ih-, which contain a hash instead of the id. The command is
// then "instance unlock" for a name that begins with i, and "bindings unlock" otherwise.
func (e *Error) unlockCommand() string {
	id := e.Workspace
	if prefix, rest, found := strings.Cut(id, "-"); found && (prefix == "b" || prefix == "i") {
		id = rest
	}
	if strings.HasPrefix(e.Workspace, "i") {
		return "instance unlock " + id
	}
	return "bindings unlock " + id
}

// Unwrap returns the error with which the context ended, as ctxio.Err returns it, if the end of the context ended the
// waiting. Otherwise it returns nil.
func (e *Error) Unwrap() error { return e.cause }

// IsLocked reports whether an error is or wraps an *Error. It is false for nil.
func IsLocked(err error) bool {
	var held *Error
	return errors.As(err, &held)
}

// How long to wait for a lock that another run holds. OpenTofu's -lock-timeout is not used, because it does not apply
// to the lock that is taken when a workspace is created, and its attempts are 1, 2, 4 and 8 seconds apart.
const (
	shortestPause = 50 * time.Millisecond
	longestPause  = time.Second
	// unnamedWait is how long an operation waits before it logs a lock whose holder the backend does not report. On
	// pg, OpenTofu also fails while another run takes the lock of a different state, because each run tries to take the
	// lock for the creation of workspaces at the same time.
	unnamedWait = time.Second
	// defaultWait applies if the context has no deadline. Otherwise half of the remaining time is used.
	defaultWait = 15 * time.Second
)

// waitEnd returns the time until which an operation that starts now waits for a lock: after half of the time that the
// context has left until its deadline, or after defaultWait, 15 seconds, if the context has no deadline. The time is
// not in the future if the deadline has passed.
func waitEnd(ctx context.Context) time.Time {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Now().Add(time.Until(deadline) / 2)
	}
	return time.Now().Add(defaultWait)
}

// A Waiter repeats operations on one workspace while another run holds the lock of the state, and logs the first wait.
// NewWaiter returns one; the zero value cannot be used. It is not safe for concurrent use.
type Waiter struct {
	workspace   string
	hidesHolder bool
	logger      *slog.Logger
	logged      bool // whether the log already says that an operation waits
}

// NewWaiter returns a new Waiter for the workspace of this name in the backend b. The logger, which must not be nil,
// receives one warning, the first time that an operation waits: at once if the holder of the lock is known, otherwise
// after a second. Later operations of the Waiter wait silently. NewWaiter does not access the backend.
func NewWaiter(workspace string, b backend.Backend, logger *slog.Logger) *Waiter {
	return &Waiter{workspace: workspace, hidesHolder: b.HidesLockHolder(), logger: logger}
}

// HeldBy returns a description of the lock because of which an operation failed. err is the error of one attempt: the
// *opentofu.Error of a run of OpenTofu, the *statestore.HeldError of a direct access to the state, or an error that
// wraps one of them. If the backend hides the holder from a run of OpenTofu, only Workspace is set in the result.
// HeldBy returns nil if err is nil or reports no held lock, and also for an *Error that Retry has returned; see
// IsLocked.
func (w *Waiter) HeldBy(err error) *Error {
	var held *statestore.HeldError
	var failure *opentofu.Error
	switch {
	case errors.As(err, &held):
	case !errors.As(err, &failure) || failure.HeldLock == nil:
		return nil
	case w.hidesHolder:
		held = &statestore.HeldError{}
	default:
		held = failure.HeldLock
	}
	return &Error{Workspace: w.workspace, HeldError: *held}
}

// Retry calls work at least once, even if the context has ended, and calls it again while its error means that another
// run holds the lock of the state; see HeldBy. It pauses between calls, for 25 milliseconds up to a second. Any result
// of work without a held lock, nil or an error, is returned at once and unchanged.
//
// Retry waits for about half of the time that the context has left, or 15 seconds if the context has no deadline. If
// the lock is still held then, it returns an *Error. It also does so when the context ends during a pause; that *Error
// wraps the error of ctxio.Err. Retry does not interrupt work. The first wait of the Waiter is logged, as NewWaiter
// describes.
func (w *Waiter) Retry(ctx context.Context, work func() error) error {
	began, end := time.Now(), waitEnd(ctx)
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		err := work()
		locked := w.HeldBy(err)
		if locked == nil {
			return err
		}
		if time.Now().After(end) {
			return locked
		}
		if locked.ID != "" || time.Since(began) >= unnamedWait {
			w.logOnce(locked)
		}
		select {
		case <-ctx.Done():
			locked.cause = ctxio.Err(ctx)
			return locked
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// logOnce logs a warning that the operation waits for a lock, with the workspace, unless this Waiter has logged one
// already. The warning contains the holder if locked.ID is not "".
func (w *Waiter) logOnce(locked *Error) {
	if w.logged {
		return
	}
	w.logged = true
	logger := w.logger.With("workspace", w.workspace)
	if locked.ID != "" {
		logger = logger.With("who", locked.Who, "operation", locked.Operation, "id", locked.ID)
	}
	logger.Warn("waiting for a lock of the state")
}
