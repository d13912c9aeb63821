package tofu

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
)

// TakeOver makes the workspace that State read one's own: whoever reserved it, perhaps on another machine and still alive, cannot apply
// it any more, and what is done from now on cannot end as another run's success. It waits for a run that holds the lock. The error is
// ErrExists when the state was changed since it was read; then nothing is changed here. What the workspace tracks stays the same.
func (w *Workspace) TakeOver(ctx context.Context, i opentofu.Installation) error {
	if err := w.refuseOlder(i); err != nil {
		return w.failed("taking over", err)
	}
	if err := w.begin(ctx, i); err != nil {
		return w.failed("taking over", err)
	}
	if w.nonce == "" {
		return w.failed("taking over", errors.New("it is not reserved"))
	}
	nonce := rand.Text()
	state, err := w.replaceNonce(ctx, i, nonce)
	if err != nil {
		return w.failed("taking over", err)
	}
	w.nonce, w.last = nonce, snapshot{state: state}
	w.hide(state)
	return nil
}

// replaceNonce stores the state with another nonce, which then is that of no reservation, and returns what is stored then.
func (w *Workspace) replaceNonce(ctx context.Context, i opentofu.Installation, nonce string) (*statestore.State, error) {
	now, err := w.last, error(nil)
	if now.text == nil {
		now, err = w.read(ctx, i)
	}
	state := now.state
	switch {
	case err != nil:
		return nil, err
	case state == nil || state.Nonce != w.nonce:
		return nil, ErrExists
	}
	// A nonce is random, so nothing else in the state is the same.
	after := bytes.ReplaceAll(now.text, []byte(w.nonce), []byte(nonce))
	err = w.swap(ctx, i, now, after, func(stored *statestore.State) bool { return stored != nil && stored.Nonce == nonce })
	if err != nil {
		return nil, err
	}
	state.Nonce = nonce
	return state, nil
}

// StoreRecord stores the record of SetRecord at once, and changes nothing else. The error is ErrExists when the workspace is another
// run's by now.
func (w *Workspace) StoreRecord(ctx context.Context, i opentofu.Installation) error {
	err := w.begin(ctx, i)
	if err == nil {
		err = w.replaceRecord(ctx, i, w.nonce, w.next)
	}
	if err != nil {
		return w.failed("recording", err)
	}
	w.record, w.last = w.next, snapshot{}
	return nil
}

// replaceRecord stores the state of a reservation with another record.
func (s *states) replaceRecord(ctx context.Context, i opentofu.Installation, nonce string, record []byte) error {
	now, err := s.read(ctx, i)
	switch {
	case err != nil:
		return err
	case now.state == nil || now.state.Nonce != nonce:
		return ErrExists
	}
	after, err := statestore.WithRecord(now.text, record)
	if err != nil {
		return err
	}
	return s.swap(ctx, i, now, after, func(stored *statestore.State) bool { return stored != nil && bytes.Equal(stored.Record, record) })
}

// Unsaved tells whether OpenTofu could not save the state of the workspace, which then is in its scratch directory; Save tries again to
// put it into the backend.
func (s *session) Unsaved() bool {
	path, err := s.unsaved()
	return err == nil && path != ""
}

// Save puts the state into the backend that OpenTofu could not save.
func (s *states) Save(ctx context.Context, i opentofu.Installation) error {
	if err := s.pushUnsaved(ctx, i); err != nil {
		return s.failed("saving", err)
	}
	return nil
}
