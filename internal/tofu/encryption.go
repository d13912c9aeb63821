package tofu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
)

// Seal returns a state as this engine stores it: encrypted with the current key, or without encryption as it is.
func (e *Engine) Seal(state []byte) ([]byte, error) { return e.options.Encryption.Seal(state) }

// Unseal returns the state that Seal made something of, with one of the keys that this engine has.
func (e *Engine) Unseal(sealed []byte) (*statestore.State, error) {
	state, _, _, ok := e.options.Encryption.Open(sealed)
	switch {
	case !ok:
		return nil, errors.New("its state cannot be read with `state.encryption`: add the key of the backup to old_keys, or accept one that is not encrypted")
	case state == nil:
		return nil, errors.New("its state is empty")
	}
	return state, nil
}

// keysFile is the file of a scratch directory that gives OpenTofu the keys.
const keysFile = "keys.sh"

// keysPath is where the keys are while another run works on the workspace.
func (s *session) keysPath() string { return filepath.Join(s.dir, keysFile) }

// writeKeys puts the keys where the key provider finds them. The file is written anew by every Open, so that a run which outlives
// the adapter has it, and one that nobody removed is replaced.
func (s *session) writeKeys() error {
	c := s.engine.options.Encryption
	if c == nil {
		return nil
	}
	return writeFile(s.keysPath(), c.Script())
}

// encrypt adds to the environment of a run what encrypts its states.
func (s *session) encrypt(env map[string]string) error {
	c := s.engine.options.Encryption
	if c == nil {
		return nil
	}
	setting, err := c.Setting(s.keysPath())
	if err != nil {
		return fmt.Errorf("encoding the state encryption: %w", err)
	}
	env["TF_ENCRYPTION"] = setting
	return nil
}

// readWithKey reads the state with the id of the key that encrypts it, which OpenTofu asks for only where it is encrypted.
func (s *states) readWithKey(ctx context.Context, i opentofu.Installation) (snapshot, error) {
	asked := s.keysPath() + statestore.AskedSuffix
	if err := remove(asked); err != nil {
		return snapshot{}, err
	}
	now, err := s.read(ctx, i)
	if err != nil || now.direct || now.absent {
		return now, err
	}
	id, err := os.ReadFile(asked)
	if now.key = strings.TrimSpace(string(id)); errors.Is(err, fs.ErrNotExist) {
		return now, nil
	}
	return now, err
}

// Reencrypt stores the workspace's state once more, encrypted with the current key, when it is encrypted with an old one, or not
// encrypted and Encryption.AcceptUnencrypted is set. It reports whether it did. Resources are not touched and no provider is
// started; the state keeps its lineage and gets a higher serial. A state that another run changes meanwhile is not overwritten.
// Of the local backend it also replaces the copy of the state, which an old key encrypted or none.
func (w *Workspace) Reencrypt(ctx context.Context, i opentofu.Installation) (changed bool, err error) {
	c := w.engine.options.Encryption
	if c == nil {
		return false, w.failed("encrypting", errors.New("state.encryption is not set"))
	}
	err = w.while(ctx, i, "encrypting", func() (err error) {
		changed, err = w.reencrypt(ctx, i, statestore.KeyID(c.Key))
		return err
	})
	return changed, err
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
