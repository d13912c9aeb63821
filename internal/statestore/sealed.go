package statestore

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"fmt"

	"service-adapter/internal/value"
)

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
