package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/privatefs"
)

// keysPath returns the absolute path of keys.sh in the scratch directory, the shell script through which OpenTofu
// requests the encryption keys of states. The file exists only with encryption.
func (d *Directory) keysPath() string { return d.Path("keys.sh") }

// writeKeys writes keys.sh, the shell script from which OpenTofu obtains the encryption keys of states, into the
// scratch directory, readable for this user only, in place of an earlier one. It does nothing without encryption. It is
// called whenever the directory is opened, so that the script exists for a run that outlives its adapter, and contains
// the keys of the process that opened the directory last. It returns an error if the file cannot be written.
func (d *Directory) writeKeys() error {
	encryption := d.root.options.Encryption
	if encryption == nil {
		return nil
	}
	return privatefs.WriteFile(d.keysPath(), encryption.KeyScript())
}

// encrypt adds the variable TF_ENCRYPTION, which configures the encryption of states, to env, the environment of a run,
// which must not be nil. The value contains the path of the key script and no key. It does nothing without encryption.
// It returns an error, and leaves env unchanged, if the configuration cannot be encoded.
func (d *Directory) encrypt(env map[string]string) error {
	encryption := d.root.options.Encryption
	if encryption == nil {
		return nil
	}
	setting, err := encryption.Configuration(d.keysPath())
	if err != nil {
		return fmt.Errorf("encoding the state encryption: %w", err)
	}
	env["TF_ENCRYPTION"] = setting
	return nil
}

// ForgetRequestedKey removes the file in the scratch directory with the id of the key that OpenTofu requested last.
// RequestedKey then returns "" until OpenTofu reads another encrypted state in this directory. ForgetRequestedKey
// returns an error if the file cannot be removed; a missing file is not an error.
func (d *Directory) ForgetRequestedKey() error {
	return privatefs.Remove(d.keysPath() + statestore.AskedSuffix)
}

// RequestedKey returns the id of the key of the encrypted state that OpenTofu has read last in this directory since
// ForgetRequestedKey, in the form of statestore.KeyID. It returns "" and no error if OpenTofu has read no encrypted
// state since then, and an error if the file with the id exists and cannot be read.
func (d *Directory) RequestedKey() (string, error) {
	id, err := os.ReadFile(d.keysPath() + statestore.AskedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(id)), err
}
