package adapter

import (
	"encoding/base64"
	"errors"
	"fmt"

	"service-adapter/internal/statestore"
)

// EncryptionConfig is how states are encrypted.
type EncryptionConfig struct {
	// Key is what encrypts, base64 of 32 random bytes.
	Key string `yaml:"key"`
	// OldKeys are keys with which stored states may be encrypted.
	OldKeys []string `yaml:"old_keys"`
}

// keySize is the length of a key in bytes.
const keySize = 32

// errKey says what a key must be; no error shows one.
var errKey = errors.New("must be 32 random bytes in base64, as openssl rand -base64 32 prints them")

func decodeKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(key) != keySize {
		return nil, errKey
	}
	return key, nil
}

// validate reports the faults of the keys.
func (e *EncryptionConfig) validate() error {
	if e == nil {
		return nil
	}
	var failed []error
	if _, err := decodeKey(e.Key); err != nil {
		failed = append(failed, fmt.Errorf("state.encryption.key %w", err))
	}
	for _, old := range e.OldKeys {
		if _, err := decodeKey(old); err != nil {
			failed = append(failed, fmt.Errorf("an entry of state.encryption.old_keys %w", err))
		}
	}
	return errors.Join(failed...)
}

// secrets are the keys.
func (e *EncryptionConfig) secrets() []any {
	if e == nil {
		return nil
	}
	keys := []any{e.Key}
	for _, old := range e.OldKeys {
		keys = append(keys, old)
	}
	return keys
}

// encryption is the state encryption of the configuration, nil without one.
func (c *Config) encryption() (*statestore.Encryption, error) {
	if c.State.Encryption == nil {
		return nil, nil //nolint:nilnil // no encryption is no fault
	}
	encryption := &statestore.Encryption{}
	var err error
	if encryption.Key, err = decodeKey(c.State.Encryption.Key); err != nil {
		return nil, err
	}
	for _, text := range c.State.Encryption.OldKeys {
		old, err := decodeKey(text)
		if err != nil {
			return nil, err
		}
		encryption.OldKeys = append(encryption.OldKeys, old)
	}
	return encryption, nil
}
