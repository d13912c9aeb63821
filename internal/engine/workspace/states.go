package workspace

import (
	"context"
	"errors"
	"slices"
	"strings"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/scratch"
	"service-adapter/internal/engine/statelock"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/privatefs"
)

// states reads and changes the state of one workspace: without OpenTofu if possible, otherwise by running OpenTofu in a
// scratch directory. OpenTofu, whose error messages users can search for, is also used after an unexpected error of a
// read, a reservation or a deletion. An unexpected error of replacing a state is returned, because the new state may
// have been stored. A states is not safe for concurrent use.
type states struct {
	*direct
	scratch  *scratch.Directory
	lastRead snapshot // the result of the last read; the zero value if the state may have changed since
	// tracked are the addresses of the instances in the state that was read last. Changing the state does not reset
	// them.
	tracked []string
}

// states returns an object that reads and changes the state of a workspace in the directory, which must be that of the
// workspace or a temporary one. It has not read the state.
func (e *Engine) states(workspace string, directory *scratch.Directory) *states {
	return &states{scratch: directory, direct: &direct{
		engine: e, name: workspace, secrets: directory.Secrets, lock: directory.Lock, store: e.store,
	}}
}

// setLastRead stores the result of a read, for operations that use it instead of reading the state again, and the
// addresses of the instances in it. A zero snapshot means that the state must be read again and that no instances are
// known. The secrets in the state are masked from now on.
func (s *states) setLastRead(stored snapshot) {
	s.lastRead, s.tracked = stored, nil
	if stored.state != nil {
		s.tracked = stored.state.Instances
	}
	s.maskSecrets(stored.state)
}

// read reads the state, without OpenTofu if possible. If there is no state, or an empty one, the snapshot has no state.
// Reading a missing workspace with OpenTofu may create it, unless the snapshot is absent. The error is
// statestore.ErrIncomplete if the state file of the local backend is incomplete, an *opentofu.Error if OpenTofu could
// not read the state, and any other error if the state cannot be parsed or OpenTofu cannot be prepared. read does not
// change lastRead; see setLastRead.
func (s *states) read(ctx context.Context, i opentofu.Installation) (snapshot, error) {
	if now, ok, err := s.readDirectly(ctx, i); ok || err != nil {
		return now, err
	}
	if absent, err := s.absentLocally(ctx); absent || err != nil {
		return snapshot{absent: true}, err
	}
	text, err := s.scratch.RunBase(ctx, i, scratch.Inspect, nil, "state", "pull", "-no-color")
	if err != nil {
		return snapshot{}, err
	}
	if !statestore.IsStored(text) {
		return snapshot{absent: true}, nil
	}
	state, err := statestore.Parse(text)
	return snapshot{text: text, state: state}, err
}

// readExisting reads the state as read does, and deletes the workspace if it has no state or an empty one, because
// reading it with OpenTofu may have created it. The snapshot then has no state. If another run interferes, it tries
// again, up to maxConflicts times in all. The error is that of read or deleteIfUnchanged.
func (s *states) readExisting(ctx context.Context, i opentofu.Installation) (snapshot, error) {
	var err error
	for range maxConflicts {
		now, readErr := s.read(ctx, i)
		if readErr != nil || now.state != nil {
			return now, readErr
		}
		err = s.deleteIfUnchanged(ctx, i, now)
		var failure *opentofu.Error
		contested := errors.Is(err, statestore.ErrChanged) || errors.As(err, &failure) && failure.Backend == ""
		if !contested || statelock.IsLocked(err) || ctx.Err() != nil {
			return snapshot{}, err
		}
		// Another run has just reserved the workspace, or deleted it first.
	}
	return snapshot{}, err
}

// replaceState stores text instead of before, the state that was read, with the next serial number and under the lock
// of the state. If the state has been changed since it was read, the error is statestore.ErrChanged or an error of
// OpenTofu. It is a *statelock.Error if another run holds the lock for too long, and a plain error if text has no
// serial number. After any other error the new state may be stored.
func (s *states) replaceState(ctx context.Context, i opentofu.Installation, before snapshot, text []byte) error {
	next, err := statestore.NextSerial(text)
	if err != nil {
		return err
	}
	return s.storeState(ctx, i, before, scratch.Inspect, next)
}

// storeState stores text instead of the state before, without changing the serial number. wd is the working directory
// for OpenTofu; if before has no state, it must be scratch.CreateMissing, see push. The errors are those of
// replaceState, and those of keepCopy if OpenTofu has to store the state.
func (s *states) storeState(
	ctx context.Context, i opentofu.Installation, before snapshot, wd scratch.WorkingDir, text []byte,
) error {
	if before.direct && s.store != nil {
		if err := s.replaceDirectly(ctx, before, text); !errors.Is(err, statestore.ErrUnsupported) {
			return err
		}
	}
	if err := s.keepCopy(ctx); err != nil {
		return err
	}
	return s.push(ctx, i, wd, text)
}

// compareAndSwap stores text, with the next serial number, if the stored state still is the expected one. After a
// failed attempt it reads the state, and succeeds if isStored reports that this is the new state; if the context has
// ended, it does not. The argument of isStored is nil if the workspace has no state. The error is ErrTakenOver if the
// state has been changed since it was read, a *statelock.Error if another run holds the lock for too long, and
// otherwise that of replaceState, joined with that of the read.
func (s *states) compareAndSwap(
	ctx context.Context, i opentofu.Installation, expected snapshot, text []byte,
	isStored func(now *statestore.State) bool,
) error {
	err := s.replaceState(ctx, i, expected, text)
	if err == nil || statelock.IsLocked(err) || ctx.Err() != nil {
		return err
	}
	// The reason is read from the state, not from the text of the error.
	now, readErr := s.read(ctx, i)
	switch {
	case readErr != nil:
		return errors.Join(err, readErr)
	case isStored(now.state):
		return nil
	case statestore.Changed(expected.text, now.text) || errors.Is(err, statestore.ErrChanged):
		return ErrTakenOver
	default:
		return err
	}
}

// deleteIfUnchanged deletes the workspace if its state is still the one in the snapshot. The caller must have checked
// that the snapshot contains no resource but the guard, because any other resource would be forgotten and not
// destroyed. If the snapshot is absent, deleteIfUnchanged only removes leftovers, and the caller need not know whether
// their run is dead: a stale lock that a run under this lease left or, with the local backend and under its lock, the
// directory of a workspace without a state.
//
// If the state has been changed, the error is statestore.ErrChanged, or ErrTakenOver if OpenTofu noticed the change. If
// the snapshot contains no state and OpenTofu finds that the workspace is no longer empty, the error is an
// *opentofu.Error. It is a *statelock.Error if another run holds the lock of the state for too long, and any other
// error if the state cannot be read or changed.
func (s *states) deleteIfUnchanged(ctx context.Context, i opentofu.Installation, before snapshot) error {
	switch {
	case before.absent && s.engine.files == nil:
		return s.scratch.ReleaseLeftLock(ctx, i)
	case before.absent:
		return s.lock.Retry(ctx, func() error { return s.engine.files.Delete(ctx, s.name, nil) })
	}
	if before.direct && s.store != nil {
		remaining, deleted, err := s.deleteDirectly(ctx, i, before)
		if deleted || err != nil {
			return err
		}
		before = remaining
	}
	if before.state == nil {
		return s.deleteEmpty(ctx, i)
	}
	return s.deleteWithOpenTofu(ctx, i, before)
}

// deleteDirectly deletes the workspace without OpenTofu, if its state is still the snapshot before, which must have
// been read without OpenTofu. s.store must not be nil. deleteDirectly reports whether it deleted the workspace. If
// OpenTofu must do it, it returns false, no error, and a new snapshot of the state, which is unchanged or gone; the
// states uses OpenTofu for all further operations then. The errors are those of deleteIfUnchanged and read.
func (s *states) deleteDirectly(
	ctx context.Context, i opentofu.Installation, before snapshot,
) (remaining snapshot, deleted bool, err error) {
	err = s.lock.Retry(ctx, func() error { return s.store.Delete(ctx, s.name, before.stored) })
	switch {
	case err == nil:
		return snapshot{}, true, nil
	case errors.Is(err, statestore.ErrChanged) || statelock.IsLocked(err) || ctx.Err() != nil:
		return snapshot{}, false, err
	}
	// The workspace may have been deleted nevertheless, which the new snapshot shows.
	s.fallBackToOpenTofu(ctx, err)
	remaining, err = s.read(ctx, i)
	if err != nil || remaining.state == nil {
		return remaining, false, err
	}
	if before.state == nil || remaining.state.Nonce != before.state.Nonce ||
		statestore.Changed(before.text, remaining.text) {
		return snapshot{}, false, statestore.ErrChanged
	}
	return remaining, false, nil
}

// deleteWithOpenTofu deletes a workspace that contains the guard, if its state is still the snapshot. First it stores
// an empty state, which OpenTofu rejects if the state has been changed since it was read; the error is ErrTakenOver
// then. Then it deletes the empty workspace, which OpenTofu rejects if another run has created a resource in it; that
// is not an error, because the workspace in the snapshot no longer exists. A forced delete would also delete resources
// that were created while it waited for the lock. The other errors are those of compareAndSwap and deleteEmpty.
func (s *states) deleteWithOpenTofu(ctx context.Context, i opentofu.Installation, before snapshot) error {
	empty, err := statestore.WithoutContent(before.text)
	if err != nil {
		return err
	}
	isEmpty := func(now *statestore.State) bool { return now == nil }
	if err := s.compareAndSwap(ctx, i, before, empty, isEmpty); err != nil {
		return err
	}
	if err := s.deleteEmpty(ctx, i); err != nil {
		now, readErr := s.read(ctx, i)
		switch {
		case readErr != nil:
			return err
		case now.state == nil:
			return s.deleteEmpty(ctx, i) // another run has reserved and removed the workspace meanwhile
		}
		// Another run has reserved the empty workspace. The one that was to be deleted does not exist any longer.
	}
	return nil
}

// deleteEmpty has OpenTofu delete an empty workspace. It succeeds if another run has deleted it first. The error is a
// *statelock.Error if another run holds the lock for too long, and an *opentofu.Error if the workspace is not empty or
// OpenTofu failed for another reason.
//
// OpenTofu checks under the lock of the state that the workspace is empty, but releases the lock just before it deletes
// the workspace. A run that reserves the workspace in that moment loses its guard. Its apply creates the guard again,
// with the same nonce and record, so this is harmless unless the apply also ends between these two requests to the
// backend.
func (s *states) deleteEmpty(ctx context.Context, i opentofu.Installation) error {
	_, err := s.scratch.RunBase(ctx, i, scratch.Unselected, nil, "workspace", "delete", "-no-color", s.name)
	var failure *opentofu.Error
	if errors.As(err, &failure) && failure.Backend == "" && ctx.Err() == nil {
		if names, listErr := s.list(ctx, i); listErr == nil && !slices.Contains(names, s.name) {
			return nil
		}
	}
	return err
}

// push has OpenTofu store text, a state in clear text, with further options of "tofu state push", and forgets the state
// that was read last. If the workspace has no state, the working directory must be scratch.CreateMissing, because
// OpenTofu keeps the lineage only of a state that replaces another one. OpenTofu reads the state from a file, which is
// removed afterwards. The error is an *opentofu.Error if OpenTofu rejects the state, a *statelock.Error if another run
// holds the lock for too long, and any other error if the file cannot be written or removed.
func (s *states) push(
	ctx context.Context, i opentofu.Installation, wd scratch.WorkingDir, text []byte, options ...string,
) error {
	s.lastRead = snapshot{}
	path := s.scratch.Path("push.tfstate")
	if err := privatefs.WriteFile(path, text); err != nil {
		return err
	}
	args := append([]string{"state", "push", "-no-color"}, options...)
	_, err := s.scratch.RunBase(ctx, i, wd, nil, append(args, path)...)
	return errors.Join(err, privatefs.Remove(path))
}

// list has OpenTofu list the workspaces, and returns the sorted names of all but the default workspace. The result is
// nil if there are none. The error is an *opentofu.Error if OpenTofu failed.
func (s *states) list(ctx context.Context, i opentofu.Installation) ([]string, error) {
	text, err := s.scratch.RunBase(ctx, i, scratch.Unselected, nil, "workspace", "list", "-no-color")
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		name := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "*"))
		if name != "" && name != "default" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// begin prepares an operation on the workspace with an OpenTofu. It returns an error if the OpenTofu does not support
// the backend or the encryption. Then it saves a state that an earlier run could not save; see pushUnsaved for the
// errors.
func (s *states) begin(ctx context.Context, i opentofu.Installation) error {
	if err := s.engine.templates.CheckSupport(i); err != nil {
		return err
	}
	return s.pushUnsaved(ctx, i)
}

// perform calls begin and, if that succeeded, work. An error of either is returned with the name of the workspace and
// the operation doing, such as "applying".
func (s *states) perform(ctx context.Context, i opentofu.Installation, doing string, work func() error) error {
	err := s.begin(ctx, i)
	if err == nil {
		err = work()
	}
	return s.wrapError(doing, err)
}
