package workspace

import (
	"context"
	"errors"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
)

// Seal returns a state as this engine stores it: encrypted with the current key, or unchanged and unchecked if the
// engine has no encryption. The parameter is the text of an unencrypted state. With an encryption, Seal returns nil and
// an error if the parameter is anything else, or if the current key has an unusable length.
func (e *Engine) Seal(state []byte) ([]byte, error) { return e.options.Encryption.Seal(state) }

// Unseal decrypts and parses the text of a state that Seal returned. It tries all keys of this engine, also the old
// ones; an engine without encryption parses the text as it is. It returns nil and an error if no key fits, if the state
// is not encrypted although the engine requires encryption, if the state has neither resources nor outputs, or if the
// text is not a state.
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

// readWithKey reads the state with the OpenTofu i, or without OpenTofu if possible, and sets the field key of the
// snapshot: to the id of the key that encrypts the state, or to "" if the state is not encrypted or does not exist.
// Reading a missing workspace with OpenTofu may create it. The error is that of read, such as statestore.ErrIncomplete
// or an *opentofu.Error, or a plain error if the file in which OpenTofu leaves the id of the key cannot be read or
// removed. The snapshot must not be used with an error.
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

// Reencrypt stores the workspace's state encrypted with the current key, if it is encrypted with an old key, or if it
// is not encrypted and Encryption.AcceptUnencrypted is set. First it saves a state that an earlier run could not save.
// Resources are not touched and no provider is started; the stored state keeps its lineage and gets a higher serial
// number. For the local backend, Reencrypt also replaces the copy of the state, which may be encrypted with an old key
// or not at all, even if the state itself already has the current key.
//
// Reencrypt reports whether it stored the state. Without an error, changed is false if the state already has the
// current key, if the workspace does not exist, and if it is empty. An empty workspace is deleted.
//
// Once Reencrypt has found that it must store the state, it calls storing with the decoded state and a function that
// stores it. storing must call that function and return its error. With a nil storing, Reencrypt stores the state
// itself.
//
// Reencrypt returns an error in these cases:
//   - The engine has no encryption, or the OpenTofu i does not support it.
//   - No key fits the state, or the state is not encrypted and Encryption.AcceptUnencrypted is not set.
//   - Another run has changed the state at the same time (statestore.ErrChanged, or an *opentofu.Error if OpenTofu
//     noticed it); Reencrypt does not overwrite that change.
//   - Another run holds the lock of the state for too long (a *statelock.Error).
//   - The state cannot be read, stored or copied, an earlier state cannot be saved, or an empty workspace cannot be
//     deleted.
//   - The state is not encrypted with the current key after it was stored.
//
// With an error, changed is true if the state was stored and only its copy could not be replaced; if changed is false,
// the new state may be stored nevertheless.
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

// reencrypt stores the state encrypted with the current key unless it already is, and reports whether it stored it.
// current is the id of the current key, as statestore.KeyID returns it. storing, which must not be nil, receives the
// decoded state and a function that stores it; it must call that function and return its error. The copy of a local
// state is replaced in both cases, and an empty workspace is deleted. Unlike Reencrypt, reencrypt does not save an
// unsaved state first, and its errors do not name the workspace.
//
// It returns an error if the state cannot be read, decrypted, stored or copied, if an empty workspace cannot be
// deleted, or if the state is not encrypted with the current key afterwards. The error is statestore.ErrChanged, or an
// *opentofu.Error if OpenTofu noticed it, if another run changed the state meanwhile, and a *statelock.Error if another
// run holds the lock for too long. With an error, changed is true if only the copy could not be replaced; if changed is
// false, the new state may be stored nevertheless.
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

// DecryptState returns the unencrypted text of the state in file, the content of a file that Backup wrote or of a state
// that a backend stores, encrypted or not. If the content cannot be decrypted with a key of the engine, is not a state,
// or is an unencrypted state that the engine does not accept, DecryptState returns it unchanged. It never fails.
func (e *Engine) DecryptState(file []byte) []byte {
	if _, text, _, ok := e.options.Encryption.Open(file); ok {
		return text
	}
	return file
}
