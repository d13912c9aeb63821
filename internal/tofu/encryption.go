package tofu

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// keySize is the length in bytes of a key of AES-256.
const keySize = 32

// Encryption has OpenTofu encrypt every state it stores, with AES-GCM. A state that is not encrypted, or with a key that is not
// known, is refused and never overwritten. It needs OpenTofu 1.10 and a shell.
type Encryption struct {
	// Key are 32 random bytes, with which states are encrypted from now on.
	Key []byte
	// OldKeys are keys of the same length with which stored states may be encrypted.
	OldKeys [][]byte
	// AcceptUnencrypted lets states be read that are not encrypted. It is only for encrypting what exists: OpenTofu then cannot tell
	// a state that somebody put in the place of an encrypted one.
	AcceptUnencrypted bool
}

// check refuses what cannot encrypt. No error shows a key.
func (c *Encryption) check() error {
	if c == nil {
		return nil
	}
	for _, key := range c.keys() {
		if len(key) != keySize {
			return fmt.Errorf("a key of the state encryption must have %d bytes, found %d", keySize, len(key))
		}
	}
	return nil
}

// keys are all keys, the current one first.
func (c *Encryption) keys() [][]byte { return append([][]byte{c.Key}, c.OldKeys...) }

// supports refuses an OpenTofu that cannot ask another program for keys.
func (c *Encryption) supports(i Installation) error {
	if c == nil || i.atLeast(1, 10) {
		return nil
	}
	return fmt.Errorf("state.encryption needs OpenTofu 1.10 or newer, and this is %s", i.Version)
}

// keyID names a key in the metadata of a state. It tells nothing about a key that is random.
func keyID(key []byte) string {
	sum := sha256.Sum256(append([]byte("service-adapter state key\n"), key...))
	return hex.EncodeToString(sum[:8])
}

// The files of a scratch directory that concern encryption.
const (
	keysFile = "keys.sh"
	// askedSuffix makes of the script's path that of the file that holds the id of the key which OpenTofu asked for last.
	askedSuffix = ".asked"
)

// setting is the content of TF_ENCRYPTION. It names the file with the keys and holds none. OpenTofu runs that file one to three times
// in each run; the shell reads it, because files of a scratch directory may not be executable.
func (c *Encryption) setting(file string) (string, error) {
	command, err := json.Marshal([]string{shell, file})
	if err != nil {
		return "", err
	}
	target := "enforced = true"
	unencrypted := ""
	if c.AcceptUnencrypted {
		unencrypted = "method \"unencrypted\" \"existing\" {}\n"
		target = "fallback {\n    method = method.unencrypted.existing\n  }"
	}
	// JSON's strings are those of HCL except for templates.
	list := strings.NewReplacer("${", "$${", "%{", "%%{").Replace(string(command))
	return fmt.Sprintf(`key_provider "external" "adapter" {
  command = %s
}
method "aes_gcm" "adapter" {
  keys = key_provider.external.adapter
}
%sstate {
  method = method.aes_gcm.adapter
  %s
}
`, list, unencrypted, target), nil
}

// keysPath is where the keys are while somebody works on the workspace.
func (w *Workspace) keysPath() string { return filepath.Join(w.dir, keysFile) }

// writeKeys puts the keys where the key provider finds them. The file is written anew by every Open, so that a run which outlives
// the adapter has it, and one that nobody removed is replaced.
func (w *Workspace) writeKeys() error {
	c := w.engine.options.Encryption
	if c == nil {
		return nil
	}
	return writeFile(w.keysPath(), c.script())
}

// encrypt adds to the environment of a run what encrypts its states.
func (w *Workspace) encrypt(env map[string]string) error {
	c := w.engine.options.Encryption
	if c == nil {
		return nil
	}
	setting, err := c.setting(w.keysPath())
	if err != nil {
		return fmt.Errorf("encoding the state encryption: %w", err)
	}
	env["TF_ENCRYPTION"] = setting
	return nil
}

// askedKey returns the id of the key that OpenTofu asked for since forgetAsked, "" when it read no encrypted state.
func (w *Workspace) askedKey() (string, error) {
	id, err := os.ReadFile(w.keysPath() + askedSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(id)), err
}

func (w *Workspace) forgetAsked() error { return remove(w.keysPath() + askedSuffix) }

// explainEncryption replaces OpenTofu's words about states that it must not or cannot decrypt by what to do. Texts that it does not
// know stay as they are.
func (e *RunError) explainEncryption() {
	said := e.Summary + " " + e.Detail
	instead := ""
	if begin := strings.Index(said, anotherKey); begin >= 0 {
		instead = said[begin:]
		if end := strings.Index(instead, addKey); end >= 0 {
			instead = instead[:end+len(addKey)]
		}
	}
	switch {
	case strings.Contains(said, "is encrypted and can not be read without an encryption configuration"):
		instead = "the state is encrypted; set state.encryption"
	case strings.Contains(said, "unencrypted payload without unencrypted method"):
		instead = "the state is not encrypted although state.encryption is set; encrypt the existing states first"
	}
	if instead != "" {
		e.Summary, e.Detail, e.said.Summary, e.said.Detail = instead, "", instead, ""
	}
}
