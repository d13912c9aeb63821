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

// keysPath returns the path of the script that gives OpenTofu the encryption keys.
func (d *Directory) keysPath() string { return d.Path("keys.sh") }

// writeKeys writes the script with the keys into the scratch directory, for this user only, in place of an earlier one.
// It does nothing without encryption. It is called whenever the directory is opened, so that the script exists for a
// run that outlives its adapter, and always contains the current keys. It returns an error if the file cannot be
// written.
func (d *Directory) writeKeys() error {
	encryption := d.root.options.Encryption
	if encryption == nil {
		return nil
	}
	return privatefs.WriteFile(d.keysPath(), encryption.KeyScript())
}

// encrypt adds to env, the environment of a run, the variable that configures the encryption of states. It does nothing
// without encryption. It returns an error, and leaves env unchanged, if the configuration cannot be encoded.
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

// ForgetRequestedKey removes the id of the key that RequestedKey returns, which is "" from then on. It returns an error
// if the file with the id cannot be removed; a missing file is none.
func (d *Directory) ForgetRequestedKey() error {
	return privatefs.Remove(d.keysPath() + statestore.AskedSuffix)
}

// RequestedKey returns the id of the key of the encrypted state that OpenTofu has read last in this directory since
// ForgetRequestedKey. It returns "" if OpenTofu has read no encrypted state, and an error if the file with the id
// cannot be read.
func (d *Directory) RequestedKey() (string, error) {
	id, err := os.ReadFile(d.keysPath() + statestore.AskedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(id)), err
}
