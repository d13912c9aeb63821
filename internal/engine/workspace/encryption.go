package workspace

import (
	"context"
	"errors"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
)

// Seal returns a state as this engine stores it: encrypted with the current key, or unchanged if the engine has no
// encryption. With an encryption, it returns an error if the argument is not the text of an unencrypted state.
func (e *Engine) Seal(state []byte) ([]byte, error) { return e.options.Encryption.Seal(state) }

// Unseal decrypts and parses a state that Seal returned. It tries all keys of this engine; an engine without encryption
// parses the text as it is. It returns an error if no key fits, if the state is not encrypted but should be, if it is
// empty, or if the argument is not a state.
func (e *Engine) Unseal(sealed []byte) (*statestore.State, error) {
	state, _, _, ok := e.options.Encryption.Open(sealed)
	switch {
	case !ok:
		return nil, errors.New("its state cannot be read with `state.encryption`: " +
			"add the key of the backup to old_keys, or accept one that is not encrypted")
	case state == nil:
		return nil, errors.New("its state is empty")
	}
	return state, nil
}

// readWithKey reads the state as read does, and sets the key of the snapshot in any case: to the id of the key that
// encrypts the state, or to "" if the state is not encrypted or does not exist. The errors are those of read, and a
// plain error if the id of the key, which OpenTofu leaves in a file, cannot be read or removed.
func (s *states) readWithKey(ctx context.Context, i opentofu.Installation) (snapshot, error) {
	if err := s.scratch.ForgetRequestedKey(); err != nil {
		return snapshot{}, err
	}
	now, err := s.read(ctx, i)
	if err != nil || now.direct || now.absent {
		return now, err
	}
	now.key, err = s.scratch.RequestedKey()
	return now, err
}

// Reencrypt encrypts the workspace's state with the current key, if it is encrypted with an old key, or if it is not
// encrypted and Encryption.AcceptUnencrypted is set. It reports whether it stored the state. Resources are not touched
// and no provider is started; the state keeps its lineage and gets a higher serial number. For the local backend it
// also replaces the copy of the state, which may be encrypted with an old key or not at all. An empty workspace is
// deleted.
//
// It returns an error if the engine has no encryption, and if no key fits the state. If another run changes the state
// at the same time, Reencrypt does not overwrite that change but returns an error. It is a *statelock.Error if another
// run holds the lock of the state for too long, and any other error if the state cannot be read, stored or copied, or
// if it is not encrypted with the current key after it was stored. With these errors the new state may be stored
// although changed is false.
//
// Once Reencrypt has found that it must store the state, it calls storing with the state and a function that stores it.
// storing must call that function and return its error. A nil storing stores the state.
func (w *Workspace) Reencrypt(
	ctx context.Context, i opentofu.Installation, storing func(state *statestore.State, store func() error) error,
) (changed bool, err error) {
	c := w.engine.options.Encryption
	if c == nil {
		return false, w.wrapError("encrypting", errors.New("state.encryption is not set"))
	}
	err = w.perform(ctx, i, "encrypting", func() (err error) {
		if storing == nil {
			storing = func(_ *statestore.State, store func() error) error { return store() }
		}
		changed, err = w.reencrypt(ctx, i, statestore.KeyID(c.Key), storing)
		return err
	})
	return changed, err
}

// reencrypt stores the state encrypted with the current key unless it already is, and reports whether it stored it; see
// Reencrypt for storing, the side effects and the errors. current is the id of the current key, and storing must not be
// nil. Unlike Reencrypt, it does not save an unsaved state first, and its errors do not name the workspace.
func (w *Workspace) reencrypt(
	ctx context.Context, i opentofu.Installation, current string,
	storing func(state *statestore.State, store func() error) error,
) (changed bool, err error) {
	before, err := w.readWithKey(ctx, i)
	if err != nil {
		return false, err
	}
	if before.state == nil {
		return false, w.deleteIfUnchanged(ctx, i, before)
	}
	if before.key == current {
		return false, w.keepCopy(ctx)
	}
	err = storing(before.state, func() error { return w.replaceState(ctx, i, before, before.text) })
	if err != nil {
		return false, err
	}
	// OpenTofu's local backend does not report every write error, and the operator may discard the old key after this.
	now, err := w.readWithKey(ctx, i)
	if err != nil {
		return false, err
	}
	if now.key != current {
		return false, errors.New("the state was not stored with the current key")
	}
	return true, w.keepCopy(ctx)
}

// DecryptState returns the state in a file in clear text. The file may be one of Backup, or a state that a backend
// stores, encrypted or not. A file that cannot be decrypted is returned as it is.
func (e *Engine) DecryptState(file []byte) []byte {
	if _, text, _, ok := e.options.Encryption.Open(file); ok {
		return text
	}
	return file
}
