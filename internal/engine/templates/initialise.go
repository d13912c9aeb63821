package templates

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/redact"
)

// DataDir is the name of OpenTofu's data directory in a working directory. "tofu init" creates it.
const DataDir = ".terraform"

// lockName is the name of the dependency lock file, which "tofu init" writes if the template has providers.
const lockName = ".terraform.lock.hcl"

// lockHashes matches the checksums of a provider in a dependency lock file.
const lockHashes = `(?s)  hashes = \[.*?\n  \]\n`

// mirrorConfig is the OpenTofu CLI configuration that restricts the installation of providers to a directory.
const mirrorConfig = "provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n"

// initialise runs "tofu init" in the apply variant of the new prepared directory dir, with the providers in its
// subdirectory "mirror" and without network access. lock is the locked file of the build, which OpenTofu inherits.
// Before that, it checks the sessions of the backend's database and the version that OpenTofu reports. Afterwards it
// makes links into dir relative, removes the checksums from the lock file, and removes the temporary files.
//
// The error is an *opentofu.Error if OpenTofu fails, because the providers cannot be installed, the backend cannot be
// used or ctx ended. It is another error if the connections to the backend's database do not keep their sessions, if
// the OpenTofu of i has another version than the pak says, if a file or link cannot be written or removed, or if ctx
// ended before OpenTofu was started. After an error dir may contain the credentials of the backend, so the caller must
// remove it.
func (c *Cache) initialise(ctx context.Context, i opentofu.Installation, dir string, lock *os.File) error {
	if err := c.checkSessions(ctx); err != nil {
		return err
	}
	settings, err := c.options.Backend.ConfigFile()
	if err != nil {
		return err
	}
	mirror, initialised := filepath.Join(dir, "mirror"), filepath.Join(dir, string(Apply))
	home := filepath.Join(dir, "home") // only used during the initialisation
	backendConfig, cliConfig := filepath.Join(home, "backend.json"), filepath.Join(home, "cli.tfrc")
	if err := errors.Join(
		os.MkdirAll(mirror, 0o700), os.Mkdir(home, 0o700),
		os.WriteFile(backendConfig, []byte(settings), 0o600),
		os.WriteFile(cliConfig, fmt.Appendf(nil, mirrorConfig, mirror), 0o600),
	); err != nil {
		return err
	}
	run := func(args ...string) ([]byte, error) {
		return c.options.Runner.Run(ctx, i, opentofu.Command{
			Args: args, Dir: initialised, Output: filepath.Join(home, args[0]),
			Lock: lock, Mask: redact.NewChild(c.options.Secrets),
			Env: map[string]string{"HOME": home, "TMPDIR": home, "TF_CLI_CONFIG_FILE": cliConfig},
		})
	}
	reported, err := run("version", "-json")
	if err == nil {
		err = i.CheckVersion(reported)
	}
	if err == nil {
		_, err = run("init", "-input=false", "-no-color", "-backend-config="+backendConfig)
	}
	if err != nil {
		return err
	}
	return errors.Join(
		relink(filepath.Join(initialised, DataDir), dir),
		dropHashes(filepath.Join(initialised, lockName)),
		os.RemoveAll(home),
	)
}

// checkSessions returns an error if connections to the database of the backend do not keep their sessions, as behind
// some connection poolers, because the locks depend on them. It returns nil if that cannot be determined, for example
// because the database is down or ctx ends, for a backend that is not a database, and without Options.Store.
func (c *Cache) checkSessions(ctx context.Context) error {
	database, ok := c.options.Store.(interface{ CheckSessions(context.Context) error })
	if !ok {
		return nil
	}
	if err := database.CheckSessions(ctx); err != nil {
		return fmt.Errorf("the state backend %s cannot be used: %w", c.options.Backend.Type, err)
	}
	return nil
}

// relink makes the symbolic links below the directory data that point into the prepared directory dir relative to
// their own directory, so that they remain valid when dir is renamed. data must therefore be a directory in dir. Both
// paths must be absolute, as are the targets of these links, which begin with dir. Other links stay as they are.
// relink stops at the first error and returns it: data is missing, a directory or link below it cannot be read, or a
// link cannot be replaced.
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

// dropHashes removes the checksums from the dependency lock file at a path and makes the file private. With the
// checksums, OpenTofu would read every provider completely in every run, and some providers have hundreds of megabytes.
// A changed provider is detected without them, because the key of the prepared directory contains the path, size and
// modification time of each provider. A missing lock file is not an error, because a template without providers has
// none. dropHashes returns an error if the file cannot be read or written.
func dropHashes(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// OpenTofu makes the file readable for all users, regardless of the umask.
	text = regexp.MustCompile(lockHashes).ReplaceAll(text, nil)
	return errors.Join(os.WriteFile(path, text, 0o600), os.Chmod(path, 0o600))
}
