package statestore

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
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
	// a state that someone put in the place of an encrypted one.
	AcceptUnencrypted bool
}

// Check refuses what cannot encrypt. No error shows a key.
func (c *Encryption) Check() error {
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

// KeyID names a key in the metadata of a state. It tells nothing about a key that is random.
func KeyID(key []byte) string {
	sum := sha256.Sum256(append([]byte("service-adapter state key\n"), key...))
	return hex.EncodeToString(sum[:8])
}

// AskedSuffix makes of the script's path that of the file that holds the id of the key which OpenTofu asked for last.
const AskedSuffix = ".asked"

// shell runs the script.
const shell = "/bin/sh"

// Setting is the content of TF_ENCRYPTION. It names the file with the keys and holds none. OpenTofu runs that file one to three times
// in each run; the shell reads it, because files of a scratch directory may not be executable.
func (c *Encryption) Setting(file string) (string, error) {
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
