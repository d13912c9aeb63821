package tofu

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"slices"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
)

// states reads and changes the state of one workspace. Of the backends local and pg it knows where a state is stored, how it is encrypted
// and which lock guards it. So it reads a state, makes a reservation and deletes a workspace itself, under OpenTofu's lock, in a
// millisecond where OpenTofu needs thirty to start. Anything unexpected, and every other backend, goes through OpenTofu, whose errors
// users know.
type states struct {
	*session
	store statestore.Store  // nil where OpenTofu has to be asked
	ahead map[string][]byte // what was read already, by workspace
	last  snapshot          // what was read last; empty once anything may have changed
}

// snapshot is a workspace's state as the backend stores it.
type snapshot struct {
	text  []byte            // the state; OpenTofu tells another version in it, and other spaces, than those that are stored
	state *statestore.State // nil when there is none or it holds nothing
	key   string            // the id of the key that encrypts it, "" without one
	// stored is what the backend stores, nil when there is nothing. It is known when direct is true: OpenTofu was not asked.
	stored []byte
	direct bool
	absent bool // there is no workspace, and to look for it made none
}

// maxConflicts bounds retries after a concurrent change. More conflicts than this mean that the database does not do what it is asked.
const maxConflicts = 10

// read reads the state.
func (s *states) read(ctx context.Context, i opentofu.Installation) (snapshot, error) {
	if now, ok, err := s.readDirectly(ctx, i); ok || err != nil {
		return now, err
	}
	if absent, err := s.absent(ctx); absent || err != nil {
		return snapshot{absent: true}, err
	}
	text, err := s.runBase(ctx, i, readPlace, nil, "state", "pull", "-no-color")
	if err != nil {
		return snapshot{}, err
	}
	if !statestore.Exists(text) {
		return snapshot{absent: true}, nil
	}
	state, err := statestore.Parse(text)
	return snapshot{text: text, state: state}, err
}

// readDirectly reads the stored state without OpenTofu; false where only OpenTofu can read it or tell what is wrong with it. OpenTofu's
// "state pull" does no more: it takes no lock and knows no more than what is stored. It is an error when a local state is not whole.
func (s *states) readDirectly(ctx context.Context, i opentofu.Installation) (snapshot, bool, error) {
	if s.store == nil || !s.engine.knows(i) {
		return snapshot{}, false, nil
	}
	stored, known := s.ahead[s.name]
	var err error
	if !known {
		stored, err = s.store.Read(ctx, s.name)
	}
	switch {
	case errors.Is(err, statestore.ErrIncomplete): // a local state that is not whole
		return snapshot{}, false, err
	case err != nil:
		s.distrust(ctx, err)
		return snapshot{}, false, nil
	case len(stored) == 0:
		return snapshot{direct: true}, true, nil
	}
	state, text, key, ok := s.engine.options.Encryption.Open(stored)
	if !ok {
		return snapshot{}, false, nil
	}
	return snapshot{text: text, state: state, key: key, stored: stored, direct: true}, true, nil
}

// distrust leaves the rest of the work on this workspace to OpenTofu, whose errors everybody knows.
func (s *states) distrust(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.engine.logger.Debug("leaving the state to OpenTofu", "workspace", s.name, "error", s.mask.Clean(err.Error()))
		s.store = nil
	}
}

// replaceDirectly puts a state in the place of the one that was read. The error is statestore.ErrChanged when that changed since, and
// statestore.ErrUnsupported where OpenTofu has to do it. After another error nobody knows what is stored.
func (s *states) replaceDirectly(ctx context.Context, before snapshot, text []byte) error {
	sealed, err := s.engine.options.Encryption.Seal(text)
	if err != nil {
		return err
	}
	return s.whileHeld(ctx, func() error { return s.store.Replace(ctx, s.name, before.stored, sealed) })
}

// existing returns the stored state; when there is none, or it is empty, no workspace exists afterwards: to have OpenTofu look at one makes
// it.
func (s *states) existing(ctx context.Context, i opentofu.Installation) (snapshot, error) {
	var err error
	for range maxConflicts {
		now, readErr := s.read(ctx, i)
		if readErr != nil || now.state != nil {
			return now, readErr
		}
		err = s.delete(ctx, i, now)
		var failure *opentofu.Error
		contested := errors.Is(err, statestore.ErrChanged) || errors.As(err, &failure) && failure.Backend == ""
		if !contested || isLocked(err) || ctx.Err() != nil {
			return snapshot{}, err
		}
		// Another run reserved it in this moment, or deleted it first.
	}
	return snapshot{}, err
}

// reserveDirectly makes the reservation without OpenTofu. It is not done where OpenTofu has to do it, which with the same nonce does
// no harm when it was done after all.
func (s *states) reserveDirectly(ctx context.Context, i opentofu.Installation, record []byte, nonce string) (done bool, err error) {
	for range maxConflicts {
		before, ok, err := s.readDirectly(ctx, i)
		switch {
		case err != nil || !ok:
			return false, err
		case before.state != nil && before.state.Nonce == nonce:
			return true, nil // An earlier try was stored although it failed.
		case before.state != nil && before.state.Nonce != "":
			return false, ErrExists
		case before.state != nil:
			return false, nil // It lost its guard; OpenTofu adds one.
		}
		text, err := statestore.Reservation(before.text, i.Version, record, nonce)
		if err == nil {
			err = s.replaceDirectly(ctx, before, text)
		}
		switch {
		case err == nil || isLocked(err):
			return err == nil, err
		case !errors.Is(err, statestore.ErrChanged):
			s.distrust(ctx, err)
			return false, nil
		}
	}
	s.distrust(ctx, statestore.ErrChanged)
	return false, nil
}

// replace stores a state with a higher serial in the place of the one that was read, under the lock of the state. The error is
// statestore.ErrChanged, or one of OpenTofu's, when that was changed since.
func (s *states) replace(ctx context.Context, i opentofu.Installation, before snapshot, text []byte) error {
	next, err := statestore.NextSerial(text)
	if err != nil {
		return err
	}
	return s.put(ctx, i, before, readPlace, next)
}

// put stores a state in the place of the one that was read, and where there was none in the named place.
func (s *states) put(ctx context.Context, i opentofu.Installation, before snapshot, in place, text []byte) error {
	if before.direct && s.store != nil {
		if err := s.replaceDirectly(ctx, before, text); !errors.Is(err, statestore.ErrUnsupported) {
			return err
		}
	}
	if err := s.keepCopy(ctx); err != nil {
		return err
	}
	return s.push(ctx, i, in, text)
}

// swap stores a state in the place of the one that was found. The error is ErrExists when that was changed since. Done tells of what is
// stored after a failure whether it is the new one all the same.
func (s *states) swap(ctx context.Context, i opentofu.Installation, before snapshot, after []byte, done func(now *statestore.State) bool) error {
	err := s.replace(ctx, i, before, after)
	if err == nil || isLocked(err) || ctx.Err() != nil {
		return err
	}
	// The state, not the text of the error, tells why.
	now, readErr := s.read(ctx, i)
	switch {
	case readErr != nil:
		return errors.Join(err, readErr)
	case done(now.state):
		return nil
	case statestore.Changed(before.text, now.text) || errors.Is(err, statestore.ErrChanged):
		return ErrExists
	default:
		return err
	}
}

// delete deletes the workspace when it still holds what was read: nothing, or the guard alone. The error is statestore.ErrChanged or
// ErrExists when it holds something else by now.
func (s *states) delete(ctx context.Context, i opentofu.Installation, before snapshot) error {
	switch {
	case before.absent && s.engine.files == nil:
		return s.releaseLeft(ctx, i)
	case before.absent:
		return s.whileHeld(ctx, func() error { return s.engine.files.Delete(ctx, s.name, nil) })
	}
	if before.direct && s.store != nil {
		err := s.whileHeld(ctx, func() error { return s.store.Delete(ctx, s.name, before.stored) })
		if err == nil || errors.Is(err, statestore.ErrChanged) || isLocked(err) || ctx.Err() != nil {
			return err
		}
		// Perhaps it was deleted all the same; if not, OpenTofu tries.
		s.distrust(ctx, err)
		now, err := s.read(ctx, i)
		if err != nil {
			return err
		}
		if now.state != nil && (before.state == nil || now.state.Nonce != before.state.Nonce || statestore.Changed(before.text, now.text)) {
			return statestore.ErrChanged
		}
		before = now
	}
	if before.state == nil {
		return s.deleteEmpty(ctx, i)
	}
	return s.deleteSlowly(ctx, i, before)
}

// deleteSlowly has OpenTofu drop the guard by a push that is refused when anything was changed since the state was read, and then delete the
// empty workspace, which OpenTofu refuses when another run made something in it. Forced, it would delete what was made while it waited
// for the lock.
func (s *states) deleteSlowly(ctx context.Context, i opentofu.Installation, before snapshot) error {
	empty, err := statestore.WithoutContent(before.text)
	if err != nil {
		return err
	}
	if err := s.swap(ctx, i, before, empty, func(now *statestore.State) bool { return now == nil }); err != nil {
		return err
	}
	if err := s.deleteEmpty(ctx, i); err != nil {
		now, readErr := s.read(ctx, i)
		switch {
		case readErr != nil:
			return err
		case now.state == nil:
			return s.deleteEmpty(ctx, i) // Another run made something in it and removed it again.
		}
		// Another run reserved it since it was empty: what was ours is gone.
	}
	return nil
}

// deleteEmpty has OpenTofu delete an empty workspace; one that another run deleted first is fine. OpenTofu looks under the state's lock
// whether it is empty, but gives the lock back right before it deletes. Whoever reserves an empty workspace in that moment
// loses the guard; the apply that follows makes it anew with the same nonce and record, so it does no harm unless that apply
// ends within the moment as well, the time between two requests to the backend.
func (s *states) deleteEmpty(ctx context.Context, i opentofu.Installation) error {
	_, err := s.runBase(ctx, i, outsidePlace, nil, "workspace", "delete", "-no-color", s.name)
	var failure *opentofu.Error
	if errors.As(err, &failure) && failure.Backend == "" && ctx.Err() == nil {
		if names, listErr := s.list(ctx, i); listErr == nil && !slices.Contains(names, s.name) {
			return nil
		}
	}
	return err
}

func isLocked(err error) bool {
	var held *LockError
	return errors.As(err, &held)
}

// push stores a state, with further options. Where there is none it must be in the named place: OpenTofu keeps the lineage of a state that it
// pushes over another one only. The file that OpenTofu reads, since it does not decrypt what it pushes, is there only for that
// time.
func (s *states) push(ctx context.Context, i opentofu.Installation, in place, text []byte, options ...string) error {
	s.last = snapshot{}
	path := filepath.Join(s.dir, "push.tfstate")
	if err := writeFile(path, text); err != nil {
		return err
	}
	args := append([]string{"state", "push", "-no-color"}, options...)
	_, err := s.runBase(ctx, i, in, nil, append(args, path)...)
	return errors.Join(err, remove(path))
}

// TakeOver makes the workspace that State read one's own: whoever reserved it, perhaps on another machine and still alive, cannot apply
// it any more, and what is done from now on cannot end as another run's success. It waits for a run that holds the lock. The error is
// ErrExists when the state was changed since it was read; then nothing is changed here. What the workspace tracks stays the same.
func (w *Workspace) TakeOver(ctx context.Context, i opentofu.Installation) error {
	if err := w.refuse(i); err != nil {
		return w.failed("taking over", err)
	}
	nonce := rand.Text()
	// A nonce is random, so nothing else in the state is the same.
	after := func(text []byte) ([]byte, error) { return bytes.ReplaceAll(text, []byte(w.nonce), []byte(nonce)), nil }
	state, err := w.rewrite(ctx, i, "taking over", after, func(stored *statestore.State) bool { return stored.Nonce == nonce })
	if err != nil {
		return err
	}
	state.Nonce = nonce
	w.nonce, w.last = nonce, snapshot{state: state}
	w.hide(state)
	return nil
}

// StoreRecord stores the record of SetRecord at once, and changes nothing else. The error is ErrExists when the workspace is another
// run's by now.
func (w *Workspace) StoreRecord(ctx context.Context, i opentofu.Installation) error {
	after := func(text []byte) ([]byte, error) { return statestore.WithRecord(text, w.next) }
	_, err := w.rewrite(ctx, i, "recording", after, func(stored *statestore.State) bool { return bytes.Equal(stored.Record, w.next) })
	if err != nil {
		return err
	}
	w.record, w.last = w.next, snapshot{}
	return nil
}

// rewrite stores the state of a reservation, as State told it or as it is now, with other content, and returns what it was before. Done
// tells whether a state is the new one. The error is ErrExists when the workspace is another run's, or was changed since.
func (w *Workspace) rewrite(
	ctx context.Context, i opentofu.Installation, doing string, after func([]byte) ([]byte, error), done func(*statestore.State) bool,
) (*statestore.State, error) {
	var before snapshot
	err := w.while(ctx, i, doing, func() (err error) {
		if before = w.last; before.text == nil {
			before, err = w.read(ctx, i)
		}
		switch {
		case err != nil:
			return err
		case before.state == nil || before.state.Nonce != w.nonce:
			return ErrExists
		}
		text, err := after(before.text)
		if err != nil {
			return err
		}
		return w.swap(ctx, i, before, text, func(now *statestore.State) bool { return now != nil && done(now) })
	})
	return before.state, err
}
