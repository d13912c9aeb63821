package tofu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
)

// supportsEncryption refuses an OpenTofu that cannot ask another program for keys.
func supportsEncryption(c *statestore.Encryption, i opentofu.Installation) error {
	if c == nil || i.AtLeast(1, 10) {
		return nil
	}
	return fmt.Errorf("state.encryption needs OpenTofu 1.10 or newer, and this is %s", i.Version)
}

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

// askedKey returns the id of the key that OpenTofu asked for since forgetAsked, "" when it read no encrypted state.
func (s *session) askedKey() (string, error) {
	id, err := os.ReadFile(s.keysPath() + statestore.AskedSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(id)), err
}

func (s *session) forgetAsked() error { return remove(s.keysPath() + statestore.AskedSuffix) }
