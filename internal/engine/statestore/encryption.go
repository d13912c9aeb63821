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

// Encryption is the configuration of the state encryption. With it, OpenTofu and this package encrypt every state that
// they store with AES-GCM. A stored state that is not encrypted, or is encrypted with another key than those listed
// here, is rejected and never overwritten. It needs OpenTofu 1.10 or newer and a POSIX shell. A nil *Encryption means
// that states are not encrypted.
type Encryption struct {
	// Key is the current key of 32 random bytes. All states are stored with it.
	Key []byte
	// OldKeys are further keys of 32 bytes with which stored states may be encrypted.
	OldKeys [][]byte
	// AcceptUnencrypted permits reading states that are not encrypted. It serves only to encrypt existing states: while
	// it is set, an attacker who can write to the backend can replace an encrypted state by one of their own.
	AcceptUnencrypted bool
}

// Check returns an error if a key has another length than 32 bytes. The error does not contain the key. Nil passes the
// check.
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

// keys returns all keys, the current one first. The receiver must not be nil.
func (c *Encryption) keys() [][]byte { return append([][]byte{c.Key}, c.OldKeys...) }

// KeyID returns the id that names a key in the metadata of a state: 16 hexadecimal digits of a digest. A random key
// cannot be derived from its id.
func KeyID(key []byte) string {
	sum := sha256.Sum256(append([]byte("service-adapter state key\n"), key...))
	return hex.EncodeToString(sum[:8])
}

// AskedSuffix is appended to the path of the key script. The file of that path holds the id of the key that OpenTofu
// asked the script for last. It does not exist until OpenTofu has read an encrypted state.
const AskedSuffix = ".asked"

// shell is the program that runs the key script.
const shell = "/bin/sh"

// Configuration returns the value of the environment variable TF_ENCRYPTION for runs of OpenTofu. The file is the path
// of the key script (see KeyScript); the value contains no key. With AcceptUnencrypted, OpenTofu also reads states that
// are not encrypted. OpenTofu runs the script one to three times per run. It does so through the shell, because the
// file system of a scratch directory may be mounted noexec. The receiver must not be nil. An error means that the path
// cannot be encoded, which does not happen.
func (c *Encryption) Configuration(file string) (string, error) {
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
	// JSON strings have the syntax of HCL strings, except that HCL evaluates templates in them.
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

// The error of the key script for a state with an unknown key starts with AnotherKey, followed by the id of that key,
// and ends with AddKey.
const (
	AnotherKey = "the state was encrypted with another key"
	AddKey     = "add it to state.encryption.old_keys"
)

// keyScript is a POSIX shell script that gives OpenTofu the keys of states. It implements an external key provider of
// protocol version 1. It reads the metadata of a stored state, or null, from stdin. It writes the current key for
// encryption, and the key that the metadata names for decryption, to stdout. The formatting verbs are filled with one
// case rule per key, the current key and its id. The script only compares the id in the metadata, which others can
// write, and never evaluates it.
const keyScript = `# Answers OpenTofu with the keys of states. It starts no process: keys must not be arguments of any.
LC_ALL=C
umask 077
fail() {
  echo "$1" >&2
  exit 1
}
foreign='reading the metadata of the state: it names no key;'
foreign="$foreign something else than the service adapter encrypted the state"
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

// KeyScript returns the key script that Configuration refers to. It contains all keys in clear text, so the caller must
// store it in a file that only this user can read. Each run of the script for an encrypted state writes the file of
// AskedSuffix next to that file. The receiver must not be nil.
func (c *Encryption) KeyScript() []byte {
	var rules strings.Builder
	for _, key := range c.keys() {
		fmt.Fprintf(&rules, "  %s) decryption=',\"decryption_key\":\"%s\"' ;;\n",
			KeyID(key), base64.StdEncoding.EncodeToString(key))
	}
	return fmt.Appendf(nil, keyScript, rules.String(), base64.StdEncoding.EncodeToString(c.Key), KeyID(c.Key))
}

const (
	// keyProviderName is OpenTofu's name for the key provider that Configuration declares.
	keyProviderName = "key_provider.external.adapter"
	// sealedVersion is the only version of OpenTofu's format for encrypted states.
	sealedVersion = "v0"
)

// sealedState is an encrypted state in OpenTofu's format, with the fields in OpenTofu's order.
type sealedState struct {
	Serial  int               `json:"serial"`
	Lineage string            `json:"lineage"`
	Meta    map[string][]byte `json:"meta"`           // the metadata that identifies the key, by key provider
	Data    []byte            `json:"encrypted_data"` // a nonce, followed by the state sealed with AES-GCM
	Version string            `json:"encryption_version"`
}

// decode decodes a state in clear text into the receiver. It returns false if the text is not JSON, is an encrypted
// state, or lacks the serial or the version of OpenTofu; the receiver is then partly filled.
func (file *stateFormat) decode(text []byte) bool {
	return value.Decode(text, file) == nil && file.Serial != nil && file.Tofu != "" && file.Encryption == ""
}

// Open reads a stored state that OpenTofu or Seal wrote. It returns the content, which is nil if the state has no
// resources and outputs (see Parse), the text in clear, and the id of the key with which it is encrypted. The id of an
// unencrypted state is "". Open accepts an unencrypted state only if the receiver is nil or AcceptUnencrypted is set.
//
// The result ok is false if the state cannot be decrypted, or does not have exactly the form in which OpenTofu writes
// states. The other results must not be used then. The caller should then let OpenTofu read the state, because it
// accepts more forms and reports what is wrong with the state.
func (c *Encryption) Open(stored []byte) (state *State, text []byte, id string, ok bool) {
	var file stateFormat
	plain := (c == nil || c.AcceptUnencrypted) && file.decode(stored)
	if text = stored; !plain {
		if text, id, ok = c.decrypt(stored, &file); !ok {
			return nil, nil, "", false
		}
	}
	state, err := file.state(text)
	return state, text, id, err == nil
}

// decrypt decrypts a stored state and decodes it into the file. It returns the text in clear and the id of the key. The
// result ok is false if the receiver is nil, the key is not among its keys, the data is not authentic, or the state
// does not have OpenTofu's form.
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
	// The serial and the lineage outside of the encrypted data are not authenticated, so they must equal those inside.
	*file = stateFormat{}
	return text, id, file.decode(text) && *file.Serial == sealed.Serial && file.Lineage == sealed.Lineage
}

// Seal encrypts a state with the current key, in the form in which OpenTofu stores it. With a nil receiver it returns
// the text unchanged and unchecked. Otherwise it returns an error if the text is not an unencrypted state with a serial
// and a version of OpenTofu, or if AES does not support the length of the current key.
func (c *Encryption) Seal(text []byte) ([]byte, error) {
	if c == nil {
		return text, nil
	}
	var file stateFormat
	if !file.decode(text) {
		return nil, errors.New("encrypting a state: it is not a state, or has no serial")
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

// encodes reports whether the stored text is exactly OpenTofu's encoding of this state, except for spaces: OpenTofu's
// local backend indents the text since version 1.12. Other fields, field names and encodings of values yield false.
func (s sealedState) encodes(stored []byte) bool {
	var compact bytes.Buffer
	encoded, err := json.Marshal(s)
	return err == nil && (bytes.Equal(encoded, stored) ||
		json.Compact(&compact, stored) == nil && bytes.Equal(encoded, compact.Bytes()))
}

// newAEAD returns AES-GCM that prepends a random nonce of 12 bytes to the ciphertext. It returns an error if the key
// has a length that AES does not support.
func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// metadataOf returns the metadata that OpenTofu stores with a state to identify its key.
func metadataOf(key []byte) []byte {
	return []byte(`{"external_data":{"id":"` + KeyID(key) + `"}}`)
}

// keyOf returns the key that the metadata of a state names, and its id. The key is nil if the metadata names a key that
// is not among those of the receiver, or has another form; the id is "" then. The receiver must not be nil.
func (c *Encryption) keyOf(meta map[string][]byte) (key []byte, id string) {
	for _, key := range c.keys() {
		if len(meta) == 1 && bytes.Equal(meta[keyProviderName], metadataOf(key)) {
			return key, KeyID(key)
		}
	}
	return nil, ""
}
