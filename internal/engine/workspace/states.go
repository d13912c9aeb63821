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

// A states reads and changes the state of one workspace: without OpenTofu if possible, otherwise by running OpenTofu in
// a scratch directory. It also remembers the state that was read last and the addresses of the instances in it. If a
// read, a reservation or a deletion without OpenTofu fails unexpectedly, OpenTofu repeats it, because users can search
// for the messages of OpenTofu. If replacing a state fails unexpectedly, the error is returned, because the new state
// may have been stored. The zero value is not usable. A states is not safe for concurrent use.
type states struct {
	*direct
	scratch  *scratch.Directory
	lastRead snapshot // the result of the last read; the zero value if the state may have changed since
	// tracked are the addresses of the instances in the state that was read last. Changing the state does not reset
	// them.
	tracked []string
}

// states returns an object that reads and changes the state of the named workspace, and runs OpenTofu for that in the
// scratch directory, which must be that of the workspace or a temporary one. It reads nothing; the first operation
// does.
func (e *Engine) states(workspace string, directory *scratch.Directory) *states {
	return &states{scratch: directory, direct: &direct{
		engine: e, name: workspace, secrets: directory.Secrets, lock: directory.Lock, store: e.store,
	}}
}

// setLastRead remembers stored, the state that was read or written last, for operations that use it instead of
// reading the state again, and the addresses of the instances in it. If stored has a decoded state but no text,
// operations that need the text read the state again. A zero snapshot means that the state must be read again and
// that no instances are known. The secrets in the state are masked from now on in errors and log entries.
func (s *states) setLastRead(stored snapshot) {
	s.lastRead, s.tracked = stored, nil
	if stored.state != nil {
		s.tracked = stored.state.Instances
	}
	s.maskSecrets(stored.state)
}

// read reads the state of the workspace, without OpenTofu if possible, otherwise with "tofu state pull" of the
// OpenTofu i. It takes no lock of an existing state. If there is no state, or an empty one, the field state of the
// snapshot is nil. Reading a missing workspace with OpenTofu may create it. If the field direct of the snapshot is
// set, the state was read without OpenTofu, and the snapshot of a missing workspace has no text. Otherwise the field
// absent reports that the workspace is missing and was not created. read does not change lastRead; see setLastRead.
//
// With an error the field state is nil as well. The error wraps statestore.ErrIncomplete if the state file of the
// backend local is incomplete or the row of the workspace in pg has no data. It is an *opentofu.Error if OpenTofu could
// not read the state, also because ctx ended, a *statelock.Error if OpenTofu had to wait too long for a lock in order
// to create a missing workspace, and any other error if the state cannot be parsed, the file cannot be read, OpenTofu
// cannot be prepared or started, or ctx ended before that.
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

// readExisting reads the state without OpenTofu if possible, otherwise with the OpenTofu i. It deletes the workspace if
// it has no state or an empty one, because reading it with OpenTofu may have created it; the field state of the
// snapshot is then nil. If the deletion fails, and another run that reserved or deleted the workspace meanwhile may be
// the cause, readExisting reads again, at most maxConflicts (10) times in all. The error is that of read if the state
// cannot be read, and that of deleteIfUnchanged if the empty workspace cannot be deleted; the field state is then nil.
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

// replaceState stores text, a state in clear text, instead of before, the snapshot that was read, under the lock of
// the state. It increases the serial number in text by one. before must have a state; storeState can create one. A
// local state is copied first. Afterwards lastRead may be zero or still contain the replaced state, so the caller
// must set it.
//
// If the state has been changed since it was read, the error is statestore.ErrChanged or, if OpenTofu noticed it, an
// *opentofu.Error. An *opentofu.Error may have another cause, though; compareAndSwap reads the state again to
// determine the cause. The error is a *statelock.Error if another run holds the lock for too long, and a plain error
// if text has no serial number. It is any other error if text cannot be encrypted, a file cannot be read or written,
// the backend fails, or OpenTofu cannot be started. After an error the new state may be stored, except after
// statestore.ErrChanged and a *statelock.Error, and if text has no serial number.
func (s *states) replaceState(ctx context.Context, i opentofu.Installation, before snapshot, text []byte) error {
	next, err := statestore.NextSerial(text)
	if err != nil {
		return err
	}
	return s.storeState(ctx, i, before, scratch.Inspect, next)
}

// storeState stores text, a state in clear text, instead of the state before, under the lock of the state. It stores
// the serial number that text contains. If before was read without OpenTofu and the backend supports that, storeState
// replaces the state without OpenTofu. It then checks only that the stored state still is before, and not that text
// follows it. Otherwise it copies the state of an existing local workspace, and then runs "tofu state push" in the
// working directory wd. OpenTofu rejects a text that does not follow the stored state. If before has no state, wd
// must be scratch.CreateMissing, because OpenTofu keeps the lineage of text only there. Afterwards lastRead may be
// zero or still contain the replaced state, so the caller must set it.
//
// If the state has been changed since it was read, the error is statestore.ErrChanged or, if OpenTofu noticed it, an
// *opentofu.Error. It is also an *opentofu.Error if OpenTofu rejects text for another reason or fails. It is a
// *statelock.Error if another run holds the lock for too long, and any other error if text cannot be encrypted, a
// file cannot be read or written, the backend fails, or OpenTofu cannot be started. After an error the new state may
// be stored, except after statestore.ErrChanged and a *statelock.Error.
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

// compareAndSwap stores text, with the serial number in text increased by one, if the stored state still is expected,
// the snapshot that was read, which must contain a state. Afterwards lastRead may still contain the replaced state.
// If another run holds the lock for too long, the error is a *statelock.Error. If storing fails after ctx has ended,
// it is that of replaceState.
//
// After any other failure, compareAndSwap reads the state again. It succeeds if isStored reports that this is the new
// state; the parameter of isStored is nil if the workspace has no state. The error is ErrTakenOver if the state has
// been changed since expected was read. Otherwise it is that of replaceState, such as an *opentofu.Error, joined with
// the error of reading the state if that fails.
//
// The new state may be stored after an error other than a *statelock.Error and ErrTakenOver.
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

// deleteIfUnchanged deletes the workspace if its state is still the one in the snapshot before, without OpenTofu if
// possible, otherwise with the OpenTofu i. The caller must have checked that the snapshot contains no resource except
// the guard, because any other resource would be forgotten and not destroyed. Afterwards lastRead may still contain
// the deleted state. If the snapshot is absent, so that no workspace exists, deleteIfUnchanged only removes leftovers
// of dead runs: with the local backend, and under its lock, the directory of a workspace without a state, and with
// other backends a stale lock that a run under this lease or an earlier one left.
//
// If the state has been changed, the error is statestore.ErrChanged, or ErrTakenOver if OpenTofu noticed the change.
// It is an *opentofu.Error if the snapshot contains no state and OpenTofu finds that the workspace is no longer
// empty, or if OpenTofu fails for another reason. It is a *statelock.Error if another run holds the lock of the state
// for too long, and any other error if the state cannot be read or changed. After a *statelock.Error, the workspace
// may exist with an empty state; after a failure of OpenTofu or of the backend, it may also have been deleted.
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
// been read without OpenTofu. s.store must not be nil. It waits for the lock of the state. deleteDirectly reports
// whether it deleted the workspace; remaining is then zero. If OpenTofu must delete it, because the backend failed or
// does not support that, deleted is false, the error is nil, and remaining is a new snapshot, read with the OpenTofu i
// if necessary. The state in it has the lineage, the serial number and the nonce of before, unless the workspace is
// empty or missing by then. s then uses OpenTofu for all further operations.
//
// The error is statestore.ErrChanged if the state has been changed, a *statelock.Error if another run holds the lock
// for too long, the error of the backend if the context has ended, and that of read if the new snapshot cannot be read.
// The workspace may have been deleted after the last two.
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

// deleteWithOpenTofu deletes a workspace that contains the guard, if its state is still the snapshot before. The
// caller must have checked that the snapshot contains no other resource, because such a resource would be forgotten
// and not destroyed. First deleteWithOpenTofu stores an empty state, which OpenTofu rejects if the state has been
// changed since it was read; the error is ErrTakenOver then. Then it runs "tofu workspace delete" for the empty
// workspace, which OpenTofu rejects if another run has created a resource in it; that is not an error, because the
// workspace in the snapshot no longer exists. A forced delete would also delete resources that were created while it
// waited for the lock.
//
// The error is a *statelock.Error if another run holds the lock for too long, an *opentofu.Error if OpenTofu failed,
// and any other error if the text of the snapshot is not a state or a file cannot be written. The workspace may then
// exist with an empty state or have been deleted.
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

// deleteEmpty runs "tofu workspace delete" to delete an empty workspace. It succeeds if another run has deleted it
// first. It does not change lastRead. The error is a *statelock.Error if another run holds the lock for too long, an
// *opentofu.Error if the workspace is not empty or OpenTofu failed for another reason, and a plain error if OpenTofu
// cannot be prepared or started. If OpenTofu failed, the workspace may have been deleted nevertheless.
//
// OpenTofu checks under the lock of the state that the workspace is empty, but releases the lock just before it
// deletes the workspace. A run that reserves the workspace in that moment loses its guard. Its apply creates the
// guard again, with the same nonce and record, so this is harmless unless the apply also ends between these two
// requests to the backend.
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

// push runs "tofu state push" in the working directory wd to store text, a state in clear text, and forgets the state
// that was read last. It does not copy a local state first; see keepCopy. options are further options of that
// command, such as "-force=true". If the workspace has no state, wd must be scratch.CreateMissing, because OpenTofu
// keeps the lineage of text only there. OpenTofu reads text from a private file, which is removed afterwards.
//
// The error is an *opentofu.Error if OpenTofu rejects text or fails, a *statelock.Error if another run holds the lock
// for too long, and any other error if the file cannot be written or removed or OpenTofu cannot be started. After an
// error text may be stored, unless OpenTofu rejected it or another run held the lock.
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

// list runs "tofu workspace list", and returns the sorted names of all workspaces but the default one. The result is
// nil if there are none. The error is an *opentofu.Error if OpenTofu failed, for example because the backend is down or
// because ctx ended while OpenTofu was running, and a plain error if OpenTofu cannot be prepared or started, also
// because ctx has ended before.
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

// begin prepares an operation on the workspace with the OpenTofu i. It saves a state that an earlier run could not
// save, or moves it aside (see pushUnsaved), and repairs an incomplete state file of the local backend. It returns a
// plain error if the OpenTofu does not support the backend or the encryption. The error is statestore.ErrIncomplete if
// the local state cannot be repaired, a *statelock.Error if another run holds the lock for too long, an *opentofu.Error
// if OpenTofu could not save the earlier state, and any other error if that state cannot be read, decrypted or parsed.
func (s *states) begin(ctx context.Context, i opentofu.Installation) error {
	if err := s.engine.templates.CheckSupport(i); err != nil {
		return err
	}
	return s.pushUnsaved(ctx, i)
}

// perform prepares an operation on the workspace with the OpenTofu i, as begin does, and then calls work, which does
// the operation. If begin fails, work is not called. The error of begin or work is returned wrapped, with a text that
// names the operation doing, such as "applying", and the workspace. The result is nil if both succeed.
func (s *states) perform(ctx context.Context, i opentofu.Installation, doing string, work func() error) error {
	err := s.begin(ctx, i)
	if err == nil {
		err = work()
	}
	return s.wrapError(doing, err)
}
