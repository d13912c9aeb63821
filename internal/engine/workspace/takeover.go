package workspace

import (
	"bytes"
	"context"
	"crypto/rand"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
)

// TakeOver makes this run the owner of the workspace, whose guard State has read or Reserve has created, by replacing
// the nonce of its guard, the random text that identifies the owner. The run that reserved the workspace, possibly on
// another machine and still alive, can no longer apply it, and cannot mistake later changes for its own. The resources
// in the state stay the same. Before that, a state that an earlier run could not save is saved.
//
// TakeOver waits for a run that holds the lock of the state; the error is a *statelock.Error if that takes too long. It
// is ErrTakenOver if the guard is another one, or the state has been changed or deleted since it was read,
// ErrNewerState if the OpenTofu i is older than the state, and any other error if this Workspace knows no guard, if the
// OpenTofu does not support the backend or the encryption, or if the state cannot be read or stored. After an error
// this Workspace still knows the old guard; the state may contain the new one unless the error is one of the three
// types.
func (w *Workspace) TakeOver(ctx context.Context, i opentofu.Installation) error {
	if err := w.guard.requireReserved(i); err != nil {
		return w.wrapError("taking over", err)
	}
	nonce := rand.Text()
	// A nonce is random, so the state contains these bytes nowhere else.
	transform := func(text []byte) ([]byte, error) {
		return bytes.ReplaceAll(text, []byte(w.guard.nonce), []byte(nonce)), nil
	}
	isStored := func(stored *statestore.State) bool { return stored.Nonce == nonce }
	state, err := w.rewrite(ctx, i, "taking over", transform, isStored)
	if err != nil {
		return err
	}
	state.Nonce = nonce
	w.guard.nonce, w.guard.owner = nonce, true
	w.setLastRead(snapshot{state: state})
	return nil
}

// StoreRecord stores the record that SetRecord has set in the guard immediately. It changes no resource, and nothing
// else in the state except the serial number and the version of OpenTofu. SetRecord must have been called with a
// record; without one, StoreRecord stores an empty record. First, a state that an earlier run could not save is saved,
// and an incomplete state of the backend local is repaired. An OpenTofu i that is older than the state is accepted.
//
// The error is ErrTakenOver if another run owns the workspace or has changed the state at the same time, or if the
// workspace no longer exists or its guard has not been read. It is a *statelock.Error if another run holds the lock of
// the state for too long, and an *opentofu.Error if OpenTofu could not read or store the state. It is any other error
// if the state has no guard, if the OpenTofu i does not support the backend or the encryption, or if a state cannot be
// read or saved. After an error the record is still pending, although the state may contain it already unless the error
// is ErrTakenOver or a *statelock.Error. After a success the record is pending as well until the next Apply.
func (w *Workspace) StoreRecord(ctx context.Context, i opentofu.Installation) error {
	transform := func(text []byte) ([]byte, error) { return statestore.WithRecord(text, w.guard.pendingRecord) }
	isStored := func(stored *statestore.State) bool { return bytes.Equal(stored.Record, w.guard.pendingRecord) }
	_, err := w.rewrite(ctx, i, "recording", transform, isStored)
	if err != nil {
		return err
	}
	w.guard.record, w.lastRead = w.guard.pendingRecord, snapshot{}
	return nil
}

// rewrite replaces the text of the workspace's state by the result of transform, with the serial number increased by
// one, and returns the state as it was before. transform receives the text in clear text. rewrite uses the state that
// was read last, or reads it with the OpenTofu i, which also stores the new one if the adapter cannot. If storing
// fails, rewrite reads the state again and succeeds if isStored, whose parameter is not nil, reports that this is the
// new state. Before all that, an unsaved state of an earlier run is saved. After a success the caller must set
// w.lastRead, which may still contain the replaced state.
//
// The error names the operation doing. It is ErrTakenOver if the guard in the state is not the one that this
// Workspace knows, if another run has changed the state since it was read, or if the workspace does not exist or is
// empty. If this Workspace knows no guard, only a state without one is rewritten. The error is a *statelock.Error if
// another run holds the lock for too long, and that of transform if transform fails. Other errors are those of saving
// the unsaved state and of reading and storing the state; the new state may be stored after them. After an error the
// returned state, which may be nil, must not be used.
func (w *Workspace) rewrite(
	ctx context.Context, i opentofu.Installation, doing string,
	transform func([]byte) ([]byte, error), isStored func(*statestore.State) bool,
) (*statestore.State, error) {
	var before snapshot
	err := w.perform(ctx, i, doing, func() (err error) {
		if before = w.lastRead; before.text == nil {
			before, err = w.read(ctx, i)
		}
		switch {
		case err != nil:
			return err
		case before.state == nil || before.state.Nonce != w.guard.nonce:
			return ErrTakenOver
		}
		text, err := transform(before.text)
		if err != nil {
			return err
		}
		return w.compareAndSwap(ctx, i, before, text, func(now *statestore.State) bool {
			return now != nil && isStored(now)
		})
	})
	return before.state, err
}
