package tofu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"service-adapter/internal/opentofu"
)

// Names that OpenTofu gives to what "tofu init" leaves in the working directory.
const (
	dataDir  = ".terraform"
	lockName = ".terraform.lock.hcl"
)

// lockHashes are the checksums of a dependency lock file.
const lockHashes = `(?s)  hashes = \[.*?\n  \]\n`

// initialise runs "tofu init" in one variant of a new prepared directory, without any network.
func (e *Engine) initialise(ctx context.Context, i opentofu.Installation, dir, variant string, lock *os.File) error {
	if err := e.checkSessions(ctx); err != nil {
		return err
	}
	backend, err := e.options.Backend.text()
	if err != nil {
		return err
	}
	backendConfig := filepath.Join(dir, "backend.json")
	cliConfig := filepath.Join(dir, "cli.tfrc")
	mirror := filepath.Join(dir, "mirror")
	home := filepath.Join(dir, "home")
	if err := errors.Join(
		os.MkdirAll(mirror, 0o700), os.Mkdir(home, 0o700),
		os.WriteFile(backendConfig, []byte(backend), 0o600),
		os.WriteFile(cliConfig, fmt.Appendf(nil, "provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror), 0o600),
	); err != nil {
		return err
	}
	if err := e.checkVersion(ctx, i, home, lock); err != nil {
		return err
	}
	_, err = e.again(ctx, i, opentofu.Command{
		Args:   []string{"init", "-input=false", "-no-color", "-backend-config=" + backendConfig},
		Dir:    filepath.Join(dir, variant),
		Output: filepath.Join(dir, "init"),
		Env:    map[string]string{"HOME": home, "TMPDIR": home, "TF_CLI_CONFIG_FILE": cliConfig},
		Lock:   lock,
		Mask:   e.mask(),
	})
	if err != nil {
		return err
	}
	if err := relink(filepath.Join(dir, variant, dataDir), dir); err != nil {
		return err
	}
	if err := dropHashes(filepath.Join(dir, variant, lockName)); err != nil {
		return err
	}
	return errors.Join(os.Remove(backendConfig), os.Remove(cliConfig), os.RemoveAll(home),
		os.Remove(filepath.Join(dir, "init.stdout")), os.Remove(filepath.Join(dir, "init.stderr")))
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
