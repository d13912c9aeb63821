package tofu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Reencrypt stores the workspace's state once more, encrypted with the current key, when it is encrypted with an old one, or not
// encrypted and Encryption.AcceptUnencrypted is set. It reports whether it did. Resources are not touched and no provider is
// started; the state keeps its lineage and gets a higher serial. A state that somebody else changes meanwhile is not overwritten.
// Of the local backend it also removes OpenTofu's backup of the state, which an old key encrypted or none.
func (w *Workspace) Reencrypt(ctx context.Context, i Installation) (changed bool, err error) {
	c := w.engine.options.Encryption
	if c == nil {
		return false, w.failed("encrypting", errors.New("state.encryption is not set"))
	}
	if err := w.begin(ctx, i); err != nil {
		return false, w.failed("encrypting", err)
	}
	if changed, err = w.reencrypt(ctx, i, keyID(c.Key)); err != nil {
		return false, w.failed("encrypting", err)
	}
	return changed, nil
}

func (w *Workspace) reencrypt(ctx context.Context, i Installation, current string) (changed bool, err error) {
	before, err := w.pullWithKey(ctx, i)
	if err != nil {
		return false, err
	}
	if before.state == nil {
		return false, w.discard(ctx, i, before)
	}
	if before.key == current {
		return false, w.removeBackup()
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
	return true, w.removeBackup()
}

// pullWithKey reads the state with the id of the key that encrypts it.
func (w *Workspace) pullWithKey(ctx context.Context, i Installation) (found, error) {
	if err := w.forgetAsked(); err != nil {
		return found{}, err
	}
	now, err := w.pull(ctx, i)
	if err == nil && !now.direct {
		now.key, err = w.askedKey()
	}
	return now, err
}

// rewrite stores a state with a higher serial in the place of the one that was found, under the lock of the state; it fails when that
// was changed since. OpenTofu's local backend empties its file before it writes it, so a copy is kept as long as it may be empty.
func (w *Workspace) rewrite(ctx context.Context, i Installation, before found, text []byte) error {
	next, err := nextSerial(text)
	if err != nil {
		return err
	}
	if before.direct && w.store != nil {
		return w.replace(ctx, before, next)
	}
	if err := w.keepCopy(); err != nil {
		return fmt.Errorf("copying the state: %w", err)
	}
	return errors.Join(w.pushText(ctx, i, next), w.restoreCopy())
}

// pushText stores a state. The file that OpenTofu reads, since it does not decrypt what it pushes, is there only for that time.
func (w *Workspace) pushText(ctx context.Context, i Installation, text []byte) error {
	path := filepath.Join(w.dir, "push.tfstate")
	if err := writeFile(path, text); err != nil {
		return err
	}
	_, err := w.runBase(ctx, i, lookPlace, nil, "state", "push", "-no-color", path)
	return errors.Join(err, remove(path))
}

// nextSerial raises the serial of a state, and changes nothing else.
func nextSerial(text []byte) ([]byte, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("reading state: %w", err)
	}
	serial, err := strconv.ParseUint(string(file["serial"]), 10, 64)
	if err != nil {
		return nil, errors.New("reading state: it has no serial")
	}
	file["serial"] = strconv.AppendUint(nil, serial+1, 10)
	return json.Marshal(file)
}

// reencryptPlace holds the copy of a local state that is being encrypted anew; nothing runs there.
const reencryptPlace place = "reencrypt"

// localState is the path of the state of the local backend, "" with another backend.
func (w *Workspace) localState() string {
	dir := w.engine.options.Backend.directory()
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, w.name, "terraform.tfstate")
}

// keepCopy copies the stored, encrypted state of the local backend to where unsaved finds it.
func (w *Workspace) keepCopy() error {
	stored := w.localState()
	if stored == "" {
		return nil
	}
	text, err := os.ReadFile(stored)
	if err != nil {
		return err
	}
	dir := filepath.Join(w.dir, string(reencryptPlace))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, erroredState), text)
}

// removeBackup removes what the local backend keeps of the state before the last change.
func (w *Workspace) removeBackup() error {
	if stored := w.localState(); stored != "" {
		return remove(stored + ".backup")
	}
	return nil
}

// restoreCopy puts the copy of a rewrite back where OpenTofu was killed while it wrote the state, and removes it in any case.
func (w *Workspace) restoreCopy() error {
	kept := filepath.Join(w.dir, string(reencryptPlace), erroredState)
	text, err := os.ReadFile(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// A state that is not there was removed since, by an adapter with another cache directory.
	stored, err := os.ReadFile(w.localState())
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && !json.Valid(stored):
		if err := writeFile(w.localState(), text); err != nil {
			return fmt.Errorf("restoring the state: %w", err)
		}
		w.engine.logger.Warn("restored the state that was being encrypted", "workspace", w.name)
	}
	return os.Remove(kept)
}

// readUnsaved returns the text of a state that OpenTofu could not save. It encrypts that as well, and only a directory of its own,
// without configuration and backend, reads such a file.
func (w *Workspace) readUnsaved(ctx context.Context, i Installation, path string) ([]byte, error) {
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
