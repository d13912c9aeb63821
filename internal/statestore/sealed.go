package statestore

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"fmt"
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

// stateHead is what a state and its encrypted form have in common.
type stateHead struct {
	Serial  int
	Lineage string
}

// headOf reads a state in clear text. It is false for everything else, and for states that only OpenTofu can judge.
func headOf(text []byte) (head stateHead, ok bool) {
	var file struct {
		Serial     *int   `json:"serial"`
		Lineage    string `json:"lineage"`
		Tofu       string `json:"terraform_version"`
		Encryption string `json:"encryption_version"`
	}
	if json.Unmarshal(text, &file) != nil || file.Serial == nil || file.Tofu == "" || file.Encryption != "" {
		return stateHead{}, false
	}
	return stateHead{Serial: *file.Serial, Lineage: file.Lineage}, true
}

// Open returns the text of a stored state, which OpenTofu or seal encrypted, and the id of its key. A state that is not encrypted is
// its own text, without an id, where there is no encryption or AcceptUnencrypted is set. For everything that does not have exactly
// the form in which OpenTofu writes it, or cannot be decrypted, ok is false: OpenTofu can read it, or tell what is wrong with it.
func (c *Encryption) Open(stored []byte) (text []byte, id string, ok bool) {
	if c == nil || c.AcceptUnencrypted {
		if _, plain := headOf(stored); plain {
			return stored, "", true
		}
	}
	if c == nil {
		return nil, "", false
	}
	var sealed sealedState
	if json.Unmarshal(stored, &sealed) != nil || sealed.Version != sealedVersion {
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
	if head, plain := headOf(text); !plain || head != (stateHead{Serial: sealed.Serial, Lineage: sealed.Lineage}) {
		return nil, "", false
	}
	return text, id, true
}

// Seal encrypts a state with the current key, as OpenTofu does; without an encryption it returns the state itself.
func (c *Encryption) Seal(text []byte) ([]byte, error) {
	if c == nil {
		return text, nil
	}
	head, ok := headOf(text)
	if !ok {
		return nil, errors.New("encrypting a state: it is none, or has no serial")
	}
	aead, err := newAEAD(c.Key)
	if err != nil {
		return nil, fmt.Errorf("encrypting a state: %w", err)
	}
	return json.Marshal(sealedState{
		Serial: head.Serial, Lineage: head.Lineage,
		Meta: map[string][]byte{keyProviderName: metadataOf(c.Key)},
		Data: aead.Seal(nil, nil, text, nil), Version: sealedVersion,
	})
}

// encodes tells whether a stored text is this one and nothing more: there are no other fields, spellings of their names or encodings
// of their values than OpenTofu's. Since 1.12 its local backend indents what it stores.
func (s sealedState) encodes(stored []byte) bool {
	var compact bytes.Buffer
	again, err := json.Marshal(s)
	return err == nil && json.Compact(&compact, stored) == nil && bytes.Equal(again, compact.Bytes())
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
