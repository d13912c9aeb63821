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

// decode returns the keys, nil without a configuration. The error reports all faults.
func (e *EncryptionConfig) decode() (*statestore.Encryption, error) {
	if e == nil {
		return nil, nil //nolint:nilnil // no encryption is no fault
	}
	var failed []error
	key := func(where, text string) []byte {
		key, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || len(key) != keySize {
			failed = append(failed, fmt.Errorf("%s must be 32 random bytes in base64, as openssl rand -base64 32 prints them", where))
		}
		return key
	}
	encryption := &statestore.Encryption{Key: key("state.encryption.key", e.Key)}
	for _, old := range e.OldKeys {
		encryption.OldKeys = append(encryption.OldKeys, key("an entry of state.encryption.old_keys", old))
	}
	return encryption, errors.Join(failed...)
}
