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

// Encryption is the configuration of the state encryption: the current key, older keys, and whether states that are not
// encrypted may be read. With it, OpenTofu encrypts each state that it stores with AES-GCM and the current key, and the
// method Seal does the same; a Store stores the bytes that it gets. OpenTofu and the method Open reject a stored state
// that is encrypted with a key that is not listed here and, unless AcceptUnencrypted is set, an unencrypted one.
// OpenTofu does not overwrite a state that it rejects. State encryption needs OpenTofu 1.10 or newer and a POSIX shell.
// A nil *Encryption means that states are not encrypted. The zero value has no key and is not valid.
type Encryption struct {
	// Key is the current key of 32 random bytes. All states are stored with it.
	Key []byte
	// OldKeys are further keys of 32 bytes with which stored states may be encrypted.
	OldKeys [][]byte
	// AcceptUnencrypted permits reading states that are not encrypted. It serves only to encrypt existing states: while
	// it is set, an attacker who can write to the backend can replace an encrypted state by one of their own.
	AcceptUnencrypted bool
}

// Check returns an error if the current key or one of the old keys does not have exactly 32 bytes. A missing current
// key is such an error. The error contains the length of the key but not the key. Check returns nil for a nil receiver,
// which means that states are not encrypted.
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

// keys returns all keys in a new slice: the current key first, then the old keys in their order. The receiver must not
// be nil.
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

// Configuration returns the value of the environment variable TF_ENCRYPTION for runs of OpenTofu, in HCL. The parameter
// file is the absolute path of the key script, which the caller writes with the content of KeyScript; Configuration
// does not access the file. The value contains this path but no key. With AcceptUnencrypted, OpenTofu also reads states
// that are not encrypted, and otherwise it rejects them.
//
// OpenTofu runs the script one to three times per run. It does so through /bin/sh, because the file system of a scratch
// directory may be mounted noexec. The receiver must not be nil. An error means that the path cannot be encoded as
// JSON, which does not happen.
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

// KeyScript returns the text of the key script to which Configuration refers: a POSIX shell script through which
// OpenTofu requests the keys of states. It contains all keys, encoded in base64 and not encrypted, so the caller must
// store it in a file that only this user can read. When OpenTofu reads an encrypted state, the script writes the id
// of that state's key to the file whose path is the script's path with AskedSuffix appended. The script fails if the
// state names a key that is not among those of the receiver, if the metadata of the state does not have the form that
// the script writes, or if the id cannot be written. The receiver must not be nil.
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

// A sealedState is an encrypted state as OpenTofu stores it in JSON, with the fields in OpenTofu's order: the serial
// and the lineage in clear text, the metadata that identifies the key, the encrypted data, and the version of the
// format.
type sealedState struct {
	Serial  int               `json:"serial"`
	Lineage string            `json:"lineage"`
	Meta    map[string][]byte `json:"meta"`           // the metadata that identifies the key, by key provider
	Data    []byte            `json:"encrypted_data"` // a nonce, followed by the state sealed with AES-GCM
	Version string            `json:"encryption_version"`
}

// decode decodes the text of an unencrypted state into the receiver, which must be zero. It reports whether that
// succeeded. It returns false if the text is not exactly one JSON document, if a field has another type, if the state
// is encrypted, or if it lacks the serial or the version of OpenTofu; the receiver may be partly filled then. It does
// not check the version of the format.
func (file *stateFormat) decode(text []byte) bool {
	return value.Decode(text, file) == nil && file.Serial != nil && file.Tofu != "" && file.Encryption == ""
}

// Open reads a stored state that OpenTofu or Seal wrote. It returns the content, the unencrypted text, and the id of
// the key with which the state is encrypted, in the form of KeyID. The content is nil if the state has no resources and
// outputs, because such a workspace counts as missing. The id of an unencrypted state is "". Open accepts an
// unencrypted state only if the receiver is nil or AcceptUnencrypted is set.
//
// The result ok is false if the state is empty, if it is unencrypted and not accepted, if it cannot be decrypted with
// the keys of the receiver (a nil receiver has none), if an encrypted state does not have exactly the form in which
// OpenTofu writes it, or if the text is not a state of version 4 with a serial and a version of OpenTofu. The other
// results must not be used then. The caller should then let OpenTofu read the state, because OpenTofu accepts more
// forms and reports the reason of a failure.
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

// decrypt decrypts a stored state and decodes the result into file, which it clears first. It returns the unencrypted
// text and the id of the key, in the form of KeyID. The result ok is false, and the other results and file must not be
// used, if the receiver is nil, the stored state is not encrypted or does not have exactly OpenTofu's form, its key is
// not among those of the receiver, or the data is not authentic. It is also false if the decrypted text is not a state,
// or has another serial or lineage than the unencrypted part of the stored state.
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

// Seal encrypts text, an unencrypted state, with the current key, in the form in which OpenTofu stores it; each call
// returns another ciphertext. With a nil receiver it returns the text unchanged and unchecked. Otherwise it returns nil
// and an error if the text is not an unencrypted state with a serial and a version of OpenTofu, or if AES does not
// support the length of the current key.
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

// newAEAD returns AES-GCM with random nonces: Seal prepends a nonce of 12 bytes to the ciphertext, and Open reads it
// from there. Both panic if they are called with a nonce that is not empty. newAEAD returns an error if the key has a
// length that AES does not support.
func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// metadataOf returns the metadata that OpenTofu stores with an encrypted state to identify its key, as JSON:
// {"external_data":{"id":"…"}} with the id of KeyID.
func metadataOf(key []byte) []byte {
	return []byte(`{"external_data":{"id":"` + KeyID(key) + `"}}`)
}

// keyOf returns the key that the metadata of an encrypted state names, and its id. The metadata maps OpenTofu's name of
// the key provider, "key_provider.external.adapter", to the JSON that metadataOf returns. The key is nil and the id is
// "" if the metadata names a key that is not among those of the receiver, names another or an additional provider, or
// has another form. The receiver must not be nil.
func (c *Encryption) keyOf(meta map[string][]byte) (key []byte, id string) {
	for _, key := range c.keys() {
		if len(meta) == 1 && bytes.Equal(meta[keyProviderName], metadataOf(key)) {
			return key, KeyID(key)
		}
	}
	return nil, ""
}
