package tofu

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"

	"service-adapter/internal/opentofu"

	"service-adapter/internal/statestore"
)

// Reencrypt stores the workspace's state once more, encrypted with the current key, when it is encrypted with an old one, or not
// encrypted and Encryption.AcceptUnencrypted is set. It reports whether it did. Resources are not touched and no provider is
// started; the state keeps its lineage and gets a higher serial. A state that somebody else changes meanwhile is not overwritten.
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
	before, err := w.pullWithKey(ctx, i)
	if err != nil {
		return false, err
	}
	if before.state == nil {
		return false, w.discard(ctx, i, before)
	}
	if before.key == current {
		return false, w.keepCopy(ctx)
	}
	if err := w.rewrite(ctx, i, before, before.text); err != nil {
		return false, err
	}
	// OpenTofu's local backend does not report every failure to write, and the old key may be thrown away after this.
	now, err := w.pullWithKey(ctx, i)
	if err != nil {
		return false, err
	}
	if now.key != current {
		return false, errors.New("the state was not stored with the current key")
	}
	return true, w.keepCopy(ctx)
}

// pullWithKey reads the state with the id of the key that encrypts it.
func (w *Workspace) pullWithKey(ctx context.Context, i opentofu.Installation) (found, error) {
	if err := w.forgetAsked(); err != nil {
		return found{}, err
	}
	now, err := w.pull(ctx, i)
	if err == nil && !now.direct && !now.absent {
		now.key, err = w.askedKey()
	}
	return now, err
}

// rewrite stores a state with a higher serial in the place of the one that was found, under the lock of the state; it fails when that
// was changed since.
func (w *Workspace) rewrite(ctx context.Context, i opentofu.Installation, before found, text []byte) error {
	next, err := statestore.NextSerial(text)
	if err != nil {
		return err
	}
	if before.direct && w.store != nil {
		if err := w.replace(ctx, before, next); !errors.Is(err, statestore.ErrUnsupported) {
			return err
		}
	}
	if err := w.keepCopy(ctx); err != nil {
		return err
	}
	return w.pushText(ctx, i, next)
}

// pushText stores a state. The file that OpenTofu reads, since it does not decrypt what it pushes, is there only for that time.
func (w *Workspace) pushText(ctx context.Context, i opentofu.Installation, text []byte) error {
	path := filepath.Join(w.dir, "push.tfstate")
	if err := writeFile(path, text); err != nil {
		return err
	}
	_, err := w.runBase(ctx, i, lookPlace, nil, "state", "push", "-no-color", path)
	return errors.Join(err, remove(path))
}

// readUnsaved returns the text of a state that OpenTofu could not save. It encrypts that as well, and only a directory of its own,
// without configuration and backend, reads such a file.
func (w *Workspace) readUnsaved(ctx context.Context, i opentofu.Installation, path string) ([]byte, error) {
	if w.engine.options.Encryption == nil {
		return os.ReadFile(path) //nolint:gosec // in the scratch directory
	}
	dir := filepath.Join(w.dir, "unsaved")
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Symlink(path, filepath.Join(dir, "terraform.tfstate")); err != nil {
		return nil, err
	}
	text, err := w.execute(ctx, i, dir, "state", "pull", "-no-color")
	if err == nil && len(bytes.TrimSpace(text)) == 0 {
		err = errors.New("it is empty")
	}
	return text, err
}
