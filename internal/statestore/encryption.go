package statestore

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"service-adapter/internal/value"
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

// The words about a key that is not known, between which its id stands.
const (
	AnotherKey = "the state was encrypted with another key"
	AddKey     = "add it to state.encryption.old_keys"
)

// keyScript is what OpenTofu asks for the keys of states, in whatever shell there is, as an external key provider of protocol version 1: it reads the metadata of
// a stored state, or null, and writes the current key, for encryption, and the key that the metadata names, for decryption. The
// holes are the rules for the known ids, the current key and its id. The id from the metadata is nothing but text to compare.
const keyScript = `# Answers OpenTofu with the keys of states. It starts no process: keys must not be arguments of any.
LC_ALL=C
umask 077
fail() {
  echo "$1" >&2
  exit 1
}
foreign='reading the metadata of the state: it names no key; something else than the service adapter encrypted the state'
echo '{"magic":"OpenTofu-External-Key-Provider","version":1}'
IFS= read -r metadata
case $metadata in
null | '{"external_data":null}') decryption= ;;
'{"external_data":{"id":"'????????????????'"}}')
  id=${metadata#'{"external_data":{"id":"'}
  id=${id%%'"}}'}
  case $id in
  *[!0123456789abcdef]*) fail "$foreign" ;;
  esac
  echo "$id" >"$0` + AskedSuffix + `" || fail 'recording the key of the state'
  case $id in
%s  *) fail "` + AnotherKey + ` (id \"$id\"); ` + AddKey + `" ;;
  esac
  ;;
*) fail "$foreign" ;;
esac
echo '{"keys":{"encryption_key":"%s"'"$decryption"'},"meta":{"external_data":{"id":"%s"}}}'
`

// Script is the key script with the keys.
func (c *Encryption) Script() []byte {
	var known strings.Builder
	for _, key := range c.keys() {
		fmt.Fprintf(&known, "  %s) decryption=',\"decryption_key\":\"%s\"' ;;\n", KeyID(key), base64.StdEncoding.EncodeToString(key))
	}
	return fmt.Appendf(nil, keyScript, known.String(), base64.StdEncoding.EncodeToString(c.Key), KeyID(c.Key))
}

// What OpenTofu calls the key provider of setting, and the only version of its encrypted states.
const (
	keyProviderName = "key_provider.external.adapter"
	sealedVersion   = "v0"
)

// sealedState is an encrypted state as OpenTofu stores it, with the fields in its order.
type sealedState struct {
	Serial  int               `json:"serial"`
	Lineage string            `json:"lineage"`
	Meta    map[string][]byte `json:"meta"`           // by key provider, what it needs to find the key again
	Data    []byte            `json:"encrypted_data"` // a nonce, and the state sealed with AES-GCM
	Version string            `json:"encryption_version"`
}

// read reads a state in clear text. It is false for everything else, and for states that only OpenTofu can judge.
func (file *stateFormat) read(text []byte) bool {
	return value.Decode(text, file) == nil && file.Serial != nil && file.Tofu != "" && file.Encryption == ""
}

// Open returns a stored state, which OpenTofu or Seal encrypted, as Parse does, its text, and the id of its key. One that is not encrypted
// has no id, and is read where there is no encryption or AcceptUnencrypted is set. For everything that does not have exactly
// the form in which OpenTofu writes it, or cannot be decrypted, ok is false: OpenTofu can read it, or tell what is wrong with it.
func (c *Encryption) Open(stored []byte) (state *State, text []byte, id string, ok bool) {
	var file stateFormat
	plain := (c == nil || c.AcceptUnencrypted) && file.read(stored)
	if text = stored; !plain {
		if text, id, ok = c.decrypt(stored, &file); !ok {
			return nil, nil, "", false
		}
	}
	state, err := file.state(text)
	return state, text, id, err == nil
}

// decrypt returns the text of an encrypted state, which it reads into the file, and the id of the key.
func (c *Encryption) decrypt(stored []byte, file *stateFormat) (text []byte, id string, ok bool) {
	var sealed sealedState
	if c == nil || json.Unmarshal(stored, &sealed) != nil || sealed.Version != sealedVersion {
		return nil, "", false
	}
	key, id := c.keyOf(sealed.Meta)
	if key == nil || !sealed.encodes(stored) {
		return nil, "", false
	}
	aead, err := newAEAD(key)
	if err != nil {
		return nil, "", false
	}
	if text, err = aead.Open(nil, nil, sealed.Data, nil); err != nil {
		return nil, "", false
	}
	// What stands outside is not authenticated by the key.
	*file = stateFormat{}
	return text, id, file.read(text) && *file.Serial == sealed.Serial && file.Lineage == sealed.Lineage
}

// Seal encrypts a state with the current key, as OpenTofu does; without an encryption it returns the state itself.
func (c *Encryption) Seal(text []byte) ([]byte, error) {
	if c == nil {
		return text, nil
	}
	var file stateFormat
	if !file.read(text) {
		return nil, errors.New("encrypting a state: it is none, or has no serial")
	}
	aead, err := newAEAD(c.Key)
	if err != nil {
		return nil, fmt.Errorf("encrypting a state: %w", err)
	}
	return json.Marshal(sealedState{
		Serial: *file.Serial, Lineage: file.Lineage,
		Meta: map[string][]byte{keyProviderName: metadataOf(c.Key)},
		Data: aead.Seal(nil, nil, text, nil), Version: sealedVersion,
	})
}

// encodes tells whether a stored text is this one and nothing more: there are no other fields, spellings of their names or encodings
// of their values than OpenTofu's. Since 1.12 its local backend indents what it stores.
func (s sealedState) encodes(stored []byte) bool {
	var compact bytes.Buffer
	again, err := json.Marshal(s)
	return err == nil && (bytes.Equal(again, stored) || json.Compact(&compact, stored) == nil && bytes.Equal(again, compact.Bytes()))
}

// newAEAD is AES-GCM with a random nonce of 12 bytes in front of what it encrypts.
func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// metadataOf is what OpenTofu stores beside a state to find its key again.
func metadataOf(key []byte) []byte {
	return []byte(`{"external_data":{"id":"` + KeyID(key) + `"}}`)
}

// keyOf returns the key that the metadata of a state names, and its id; nil when it names none that is known, or something else.
func (c *Encryption) keyOf(meta map[string][]byte) (key []byte, id string) {
	for _, key := range c.keys() {
		if len(meta) == 1 && bytes.Equal(meta[keyProviderName], metadataOf(key)) {
			return key, KeyID(key)
		}
	}
	return nil, ""
}
