package tofu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/hashicorp/go-version"

	"service-adapter/internal/opentofu"
)

// Names that OpenTofu gives to what "tofu init" leaves in the working directory.
const (
	dataDir  = ".terraform"
	lockName = ".terraform.lock.hcl"
)

// lockHashes are the checksums of a dependency lock file.
const lockHashes = `(?s)  hashes = \[.*?\n  \]\n`

// initialise runs "tofu init" in the apply variant of a new prepared directory, without any network.
func (e *Engine) initialise(ctx context.Context, i opentofu.Installation, dir string, lock *os.File) error {
	if err := e.checkSessions(ctx); err != nil {
		return err
	}
	backend, err := e.options.Backend.text()
	if err != nil {
		return err
	}
	mirror, initialised := filepath.Join(dir, "mirror"), filepath.Join(dir, applyVariant)
	home := filepath.Join(dir, "home") // what nobody needs afterwards
	backendConfig, cliConfig := filepath.Join(home, "backend.json"), filepath.Join(home, "cli.tfrc")
	if err := errors.Join(
		os.MkdirAll(mirror, 0o700), os.Mkdir(home, 0o700),
		os.WriteFile(backendConfig, []byte(backend), 0o600),
		os.WriteFile(cliConfig, fmt.Appendf(nil, "provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror), 0o600),
	); err != nil {
		return err
	}
	run := func(args ...string) ([]byte, error) {
		return e.again(ctx, i, opentofu.Command{
			Args: args, Dir: initialised, Output: filepath.Join(home, args[0]), Lock: lock, Mask: e.mask(),
			Env: map[string]string{"HOME": home, "TMPDIR": home, "TF_CLI_CONFIG_FILE": cliConfig},
		})
	}
	said, err := run("version", "-json")
	if err == nil {
		err = checkVersion(i, said)
	}
	if err == nil {
		_, err = run("init", "-input=false", "-no-color", "-backend-config="+backendConfig)
	}
	if err != nil {
		return err
	}
	return errors.Join(relink(filepath.Join(initialised, dataDir), dir), dropHashes(filepath.Join(initialised, lockName)), os.RemoveAll(home))
}

// checkSessions refuses a database whose sessions are not those of its clients, before the first use.
func (e *Engine) checkSessions(ctx context.Context) error {
	database, ok := e.store.(interface{ CheckSessions(context.Context) error })
	if !ok {
		return nil
	}
	if err := database.CheckSessions(ctx); err != nil {
		return fmt.Errorf("the state backend %s cannot be used: %w", e.options.Backend.Type, err)
	}
	return nil
}

// relink makes the links from the plugin directory into the mirror relative, so that they survive the rename of dir.
func relink(data, dir string) error {
	return filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink == 0 {
			return err
		}
		target, err := os.Readlink(path)
		if err != nil || !strings.HasPrefix(target, dir+string(filepath.Separator)) {
			return err
		}
		relative, err := filepath.Rel(filepath.Dir(path), target)
		if err != nil {
			return err
		}
		return errors.Join(os.Remove(path), os.Symlink(relative, path))
	})
}

// dropHashes takes the checksums out of a dependency lock file: OpenTofu would read every provider, some of which are
// hundreds of megabytes, in every run to compare them. That a provider is the one that was installed is known from the key of the
// prepared directory, which holds its path, size and time. There is no lock file without providers.
func dropHashes(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// OpenTofu makes the file readable for all, whatever the umask.
	return errors.Join(os.WriteFile(path, regexp.MustCompile(lockHashes).ReplaceAll(text, nil), 0o600), os.Chmod(path, 0o600))
}

// checkVersion refuses a binary that says that it is of another version than the pak says: what a version can do, and which states it can
// read, is decided by that label.
func checkVersion(i opentofu.Installation, text []byte) error {
	var said struct {
		Version string `json:"terraform_version"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return fmt.Errorf("OpenTofu %s does not tell its version: %w", i.Binary, err)
	}
	label, labelErr := version.NewVersion(i.Version)
	found, foundErr := version.NewVersion(said.Version)
	if err := errors.Join(labelErr, foundErr); err != nil {
		return fmt.Errorf("comparing the version of OpenTofu %s: %w", i.Binary, err)
	}
	if !label.Equal(found) {
		return fmt.Errorf("the manifest of the pak calls OpenTofu %s version %s, and it says that it is %s; bundle the version that terraform_binaries names",
			i.Binary, i.Version, said.Version)
	}
	return nil
}
