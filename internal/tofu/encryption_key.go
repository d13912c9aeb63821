package tofu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// keyFile is the content of the file from which keys are served; the first one is the current one.
type keyFile struct {
	Keys [][]byte `json:"keys"`
}

// The protocol of OpenTofu's external key providers, version 1.
type (
	keyHeader struct {
		Magic   string `json:"magic"`
		Version int    `json:"version"`
	}
	keyMetadata struct {
		ExternalData map[string]any `json:"external_data"`
	}
	keyAnswer struct {
		Keys keyPair     `json:"keys"`
		Meta keyMetadata `json:"meta"`
	}
	keyPair struct {
		Encryption []byte `json:"encryption_key"`
		Decryption []byte `json:"decryption_key,omitempty"`
	}
)

const (
	keyMagic  = "OpenTofu-External-Key-Provider"
	idName    = "id" // of the key's id in the metadata
	mostInput = 1 << 20
)

// The words about a key that is not known, between which its id stands.
const (
	anotherKey = "the state was encrypted with another key"
	addKey     = "add it to state.encryption.old_keys"
)

// ServeKey answers OpenTofu as its external key provider: it reads the metadata of a stored state, or null, from stdin and writes
// the current key, for encryption, and the key that the metadata names, for decryption. path is the file with the keys. It leaves
// the id of the key that was asked for in a file beside it. The caller reports an error on standard error and exits with 1; it
// holds no key.
func ServeKey(stdin io.Reader, stdout io.Writer, path string) error {
	encoder := json.NewEncoder(stdout)
	if err := encoder.Encode(keyHeader{Magic: keyMagic, Version: 1}); err != nil {
		return fmt.Errorf("answering OpenTofu: %w", err)
	}
	input, err := io.ReadAll(io.LimitReader(stdin, mostInput))
	if err != nil {
		return fmt.Errorf("reading the metadata of the state: %w", err)
	}
	keys, err := readKeys(path)
	if err != nil {
		return err
	}
	wanted, err := wantedKey(input)
	if err != nil {
		return err
	}
	answer := keyAnswer{Keys: keyPair{Encryption: keys[0]}, Meta: keyMetadata{ExternalData: map[string]any{idName: keyID(keys[0])}}}
	if wanted != "" {
		if err := writeFile(path+askedSuffix, []byte(wanted)); err != nil {
			return fmt.Errorf("recording the key of the state: %w", err)
		}
		if answer.Keys.Decryption = findKey(keys, wanted); answer.Keys.Decryption == nil {
			return fmt.Errorf("%s (id %.40q); %s", anotherKey, wanted, addKey)
		}
	}
	if err := encoder.Encode(answer); err != nil {
		return fmt.Errorf("answering OpenTofu: %w", err)
	}
	return nil
}

// readKeys reads the file with the keys. What is wrong with its content is not told, because it would show some of it.
func readKeys(path string) ([][]byte, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the engine names the file
	if err != nil {
		return nil, fmt.Errorf("reading the keys of the state encryption: %w", err)
	}
	var file keyFile
	if json.Unmarshal(text, &file) != nil || len(file.Keys) == 0 {
		return nil, fmt.Errorf("reading the keys of the state encryption: %s holds none", path)
	}
	for _, key := range file.Keys {
		if len(key) != keySize {
			return nil, fmt.Errorf("reading the keys of the state encryption: a key in %s does not have %d bytes", path, keySize)
		}
	}
	return file.Keys, nil
}

// wantedKey returns the id of the key in the metadata of a state, "" when OpenTofu wants to encrypt only.
func wantedKey(input []byte) (string, error) {
	var metadata *keyMetadata
	if err := json.Unmarshal(input, &metadata); err != nil {
		return "", errors.New("reading the metadata of the state: it is not that of an external key provider")
	}
	if metadata == nil || metadata.ExternalData == nil {
		return "", nil
	}
	id, ok := metadata.ExternalData[idName].(string)
	if !ok || id == "" {
		return "", errors.New("reading the metadata of the state: it names no key; something else than the service adapter encrypted the state")
	}
	return id, nil
}

func findKey(keys [][]byte, id string) []byte {
	for _, key := range keys {
		if keyID(key) == id {
			return key
		}
	}
	return nil
}
