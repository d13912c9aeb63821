// Package backend describes the state backends of OpenTofu: their settings, which of them the adapter can use, and
// which stored states two of them share.
package backend

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

	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/value"
)

// A Backend is an OpenTofu state backend that supports workspaces. Type is its name in OpenTofu. Config is the content
// of a -backend-config file, so it may contain secrets; a nil Config is empty. The methods do not change Config. The
// zero Backend is not usable, and Check rejects it.
type Backend struct {
	Type   string
	Config map[string]any
}

// The types of backends that need special treatment.
const (
	LocalType    = "local"
	PostgresType = "pg"
	S3Type       = "s3"
)

// The settings of the local backend, as OpenTofu names them.
const (
	localPath         = "path"
	localWorkspaceDir = "workspace_dir"
)

// The settings of the s3 backend that this package reads or sets.
const (
	s3Lockfile = "use_lockfile"
	s3Table    = "dynamodb_table"
	s3Retries  = "max_retries"
)

// typePattern matches the name of a backend, which becomes part of a configuration file.
const typePattern = `^[a-z][a-z0-9_]*$`

// Local returns the backend that stores all states as files in subdirectories of one directory. Nothing is created.
func Local(dir string) Backend {
	return Backend{Type: LocalType, Config: map[string]any{
		localPath:         filepath.Join(dir, "default.tfstate"),
		localWorkspaceDir: filepath.Join(dir, "workspaces"),
	}}
}

// WithDefaults returns a copy of the backend, with its own Config, with values for settings that the engine needs and
// that Config does not contain. These are settings of s3: use_lockfile is true unless there is a dynamodb_table, and
// max_retries is 3.
func (b Backend) WithDefaults() Backend {
	b.Config = value.Merge(b.Config)
	if b.Type != S3Type {
		return b
	}
	_, table := b.Config[s3Table]
	if _, chosen := b.Config[s3Lockfile]; !chosen && !table {
		b.Config[s3Lockfile] = true
	}
	if _, chosen := b.Config[s3Retries]; !chosen {
		b.Config[s3Retries] = 3 // with OpenTofu's default of 5, it reports only after 15 seconds that a server is down
	}
	return b
}

// Check returns an error if the adapter cannot use the backend: if the type is not a valid name or is a type without
// workspaces (http, remote or cloud), if s3 has neither a dynamodb_table nor a use_lockfile that is true, or if the
// directory of the local backend is not an absolute path or not writable. The backend must have the settings of
// WithDefaults. A type that this package does not know passes.
//
// Check creates the directory of the local backend if it is missing. It does not connect to servers.
func (b Backend) Check() error {
	switch {
	case !regexp.MustCompile(typePattern).MatchString(b.Type):
		return fmt.Errorf("state.type must be the name of an OpenTofu backend, found %q", b.Type)
	case b.Type == "http" || b.Type == "remote" || b.Type == "cloud":
		return fmt.Errorf("state.type %q cannot be used: "+
			"it must be a backend with workspaces, such as local, pg, s3, gcs or azurerm", b.Type)
	case b.Type == S3Type && b.Config[s3Table] == nil && b.Config[s3Lockfile] != true:
		return errors.New("state.config.use_lockfile of s3 must be true without a dynamodb_table: " +
			"states are only safe with locks")
	case b.Type != LocalType:
		return nil
	}
	dir := b.Directory()
	if !filepath.IsAbs(dir) {
		return errors.New("state.config.dir must be an absolute path")
	}
	if err := ensureWritable(dir); err != nil {
		return fmt.Errorf("using state directory %q: %w; state.config.dir must be a writable, durable directory",
			filepath.Dir(dir), err)
	}
	return nil
}

// CheckExists returns an error if the directory of the local backend does not exist or cannot be inspected. An
// operation that searches it would conclude that a state does not exist, although the directory may have been renamed,
// or not restored or mounted. CheckExists returns nil for other backends, and if Config has no such directory.
func (b Backend) CheckExists() error {
	dir := b.Directory()
	if dir == "" {
		return nil
	}
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("using state directory %q: it was never used, or was not restored: %w; "+
			"set state.config.dir to the directory that has the states; "+
			"`service-adapter prepare` makes a new one",
			filepath.Dir(dir), err)
	}
	return nil
}

// Directory returns the directory that contains the workspaces of the local backend. It returns "" for any other
// backend, and if Config has no such directory.
func (b Backend) Directory() string {
	if b.Type != LocalType {
		return ""
	}
	dir, _ := b.Config[localWorkspaceDir].(string)
	return dir
}

// LocksOutliveProcess reports whether a lock of a state can outlive the process that took it. Locks of pg end with the
// connection, and locks of local with the process.
func (b Backend) LocksOutliveProcess() bool { return b.Type != LocalType && b.Type != PostgresType }

// HidesLockHolder reports whether OpenTofu describes the process that failed to get a lock instead of its holder. This
// is the case for pg.
func (b Backend) HidesLockHolder() bool { return b.Type == PostgresType }

// UsesLockfile reports whether the backend is s3 with locks in the bucket, which OpenTofu supports since version 1.10.
func (b Backend) UsesLockfile() bool { return b.Type == S3Type && b.Config[s3Lockfile] == true }

// ConfigFile returns the content of the -backend-config file, which contains the settings in clear text. It returns an
// error if a setting cannot be represented in JSON.
func (b Backend) ConfigFile() (string, error) {
	// Each setting is on its own line, because OpenTofu shows the line of an invalid setting in its error.
	text, err := json.MarshalIndent(b.Config, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encoding state.config: %w", err)
	}
	// OpenTofu interprets strings in JSON as templates. Outside of strings JSON cannot contain template sequences.
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(string(text)), nil
}

// ensureWritable creates a directory with mode 0700, and its parents, if it is missing. It does not change the mode of
// an existing one. It returns an error if the directory cannot be created or this process cannot create files in it.
func ensureWritable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	const writeAndSearch = 0x2 | 0x1
	if err := syscall.Access(dir, writeAndSearch); err != nil {
		return &os.PathError{Op: "access", Path: dir, Err: err}
	}
	return nil
}

// Store returns access to the states of the backend without OpenTofu, or nil if only OpenTofu can access them. Only
// local and pg have a store. env is the environment of OpenTofu; nil means that it is empty. Store does not connect to
// a server.
//
// For pg the result is nil if a variable in env begins with PG, because it may configure OpenTofu's connection, and if
// statestore.Postgres does not support Config or the environment of this process. For local it is nil if Config has no
// directory.
func (b Backend) Store(env map[string]string) statestore.Store {
	if dir := b.Directory(); dir != "" {
		return statestore.Local(dir)
	}
	if b.Type != PostgresType || slices.ContainsFunc(value.Keys(env), func(name string) bool {
		return strings.HasPrefix(name, "PG")
	}) {
		return nil
	}
	store, err := statestore.Postgres(b.Config)
	if err != nil {
		return nil
	}
	return store
}
