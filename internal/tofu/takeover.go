package tofu

import (
	"bytes"
	"context"
	"crypto/rand"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
)

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
