package tofu

import (
	"context"
	"errors"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
)

// Reencrypt stores the workspace's state once more, encrypted with the current key, when it is encrypted with an old one, or not
// encrypted and Encryption.AcceptUnencrypted is set. It reports whether it did. Resources are not touched and no provider is
// started; the state keeps its lineage and gets a higher serial. A state that another run changes meanwhile is not overwritten.
// Of the local backend it also replaces the copy of the state, which an old key encrypted or none.
func (w *Workspace) Reencrypt(ctx context.Context, i opentofu.Installation) (changed bool, err error) {
	c := w.engine.options.Encryption
	if c == nil {
		return false, w.failed("encrypting", errors.New("state.encryption is not set"))
	}
	if err := w.begin(ctx, i); err != nil {
		return false, w.failed("encrypting", err)
	}
	if changed, err = w.reencrypt(ctx, i, statestore.KeyID(c.Key)); err != nil {
		return false, w.failed("encrypting", err)
	}
	return changed, nil
}

func (w *Workspace) reencrypt(ctx context.Context, i opentofu.Installation, current string) (changed bool, err error) {
	before, err := w.readWithKey(ctx, i)
	if err != nil {
		return false, err
	}
	if before.state == nil {
		return false, w.delete(ctx, i, before)
	}
	if before.key == current {
		return false, w.keepCopy(ctx)
	}
	if err := w.replace(ctx, i, before, before.text); err != nil {
		return false, err
	}
	// OpenTofu's local backend does not report every failure to write, and the old key may be thrown away after this.
	now, err := w.readWithKey(ctx, i)
	if err != nil {
		return false, err
	}
	if now.key != current {
		return false, errors.New("the state was not stored with the current key")
	}
	return true, w.keepCopy(ctx)
}
