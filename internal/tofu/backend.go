package tofu

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
	"service-adapter/internal/value"
)

// Backend is an OpenTofu state backend with workspaces. Config becomes the content of a -backend-config file, so it may
// hold secrets.
type Backend struct {
	Type   string
	Config map[string]any
}

// The settings of the local backend, as OpenTofu names them.
const (
	localType         = "local"
	localPath         = "path"
	localWorkspaceDir = "workspace_dir"
)

// The other backends that the engine knows something about.
const (
	pgType = "pg"
	s3Type = "s3"
)

// The settings of the s3 backend that matter here.
const (
	s3Lockfile = "use_lockfile"
	s3Table    = "dynamodb_table"
	s3Retries  = "max_retries"
)

// backendType is what a backend's name may look like; it becomes part of a configuration file.
const backendType = `^[a-z][a-z0-9_]*$`

// Local returns the backend that keeps all states as files below one directory.
func Local(dir string) Backend {
	return Backend{Type: localType, Config: map[string]any{
		localPath:         filepath.Join(dir, "default.tfstate"),
		localWorkspaceDir: filepath.Join(dir, "workspaces"),
	}}
}

// complete adds what the engine needs of a backend and the operator did not choose.
func (b Backend) complete() Backend {
	b.Config = value.Merge(b.Config)
	if b.Type != s3Type {
		return b
	}
	_, table := b.Config[s3Table]
	if _, chosen := b.Config[s3Lockfile]; !chosen && !table {
		b.Config[s3Lockfile] = true
	}
	if _, chosen := b.Config[s3Retries]; !chosen {
		b.Config[s3Retries] = 3 // OpenTofu's default of 5 takes 15 seconds to tell that a server is down
	}
	return b
}

// check refuses backends that cannot work and, for the local one, a directory that cannot be written.
func (b Backend) check() error {
	switch {
	case !regexp.MustCompile(backendType).MatchString(b.Type):
		return fmt.Errorf("state.type must be the name of an OpenTofu backend, found %q", b.Type)
	case b.Type == "http" || b.Type == "remote" || b.Type == "cloud":
		return fmt.Errorf("state.type %q cannot be used: it must be a backend with workspaces, such as local, pg, s3, gcs or azurerm", b.Type)
	case b.Type == s3Type && b.Config[s3Table] == nil && b.Config[s3Lockfile] != true:
		return errors.New("state.config.use_lockfile of s3 must be true without a dynamodb_table: states are only safe with locks")
	case b.Type != localType:
		return nil
	}
	dir := b.directory()
	if !filepath.IsAbs(dir) {
		return errors.New("state.config.dir must be an absolute path")
	}
	if err := writable(dir); err != nil {
		return fmt.Errorf("using state directory %q: %w; state.config.dir must be a writable, durable directory", filepath.Dir(dir), err)
	}
	return nil
}

// CheckUsed refuses a directory of the local backend in which nothing was ever stored. To look for something there would find that there
// is none, although it may be in a directory that was not restored, not mounted, or has another name.
func (b Backend) CheckUsed() error {
	dir := b.directory()
	if dir == "" {
		return nil
	}
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("using state directory %q: it was never used, or was not restored: %w; set state.config.dir to the directory that has the states; "+
			"`service-adapter prepare` makes a new one",
			filepath.Dir(dir), err)
	}
	return nil
}

// locksLinger tells whether a lock outlives the process that took it. PostgreSQL's end with its connection, those of files with it.
func (b Backend) locksLinger() bool { return b.Type != localType && b.Type != pgType }

// text is the content of the -backend-config file. OpenTofu takes every text in JSON for a template, so those are escaped; outside of
// texts JSON has no such letters. Each setting has a line of its own, because OpenTofu shows the line that it finds wrong.
func (b Backend) text() (string, error) {
	text, err := json.MarshalIndent(b.Config, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encoding state.config: %w", err)
	}
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(string(text)), nil
}

// writable creates a directory and tells whether files can be made in it.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	const writeAndSearch = 0x2 | 0x1
	if err := syscall.Access(dir, writeAndSearch); err != nil {
		return &os.PathError{Op: "access", Path: dir, Err: err}
	}
	return nil
}

// newStore returns the store of a backend, nil where OpenTofu has to be asked. OpenTofu's environment may say more about pg than the
// configuration does.
func newStore(b Backend, files *statestore.Files, env map[string]string) statestore.Store {
	switch {
	case files != nil:
		return files
	case b.Type != pgType || slices.ContainsFunc(value.Keys(env), func(name string) bool { return strings.HasPrefix(name, "PG") }):
		return nil
	}
	store, _ := statestore.Postgres(b.Config) // nil with an error
	return store
}

// knows tells whether states of this OpenTofu are read and written without it. What a version that nobody tested stores, and how it
// locks it, only that version knows.
func (e *Engine) knows(i opentofu.Installation) bool { return !e.options.OnlyOpenTofu && i.Tested() }
