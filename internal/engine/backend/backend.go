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

// A Backend is the configuration of an OpenTofu state backend that supports workspaces. Type is its name in OpenTofu,
// such as "pg". Config contains the settings of that backend under OpenTofu's names, the content of a -backend-config
// file, so it may contain secrets; a nil Config has no settings. The methods do not change Config. The zero Backend is
// not usable, and Check rejects it.
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

// Local returns the backend of the type local that stores all states as files below the directory dir, those of
// workspaces in dir/workspaces. dir should be absolute; Check rejects a relative one. Local creates no files or
// directories.
func Local(dir string) Backend {
	return Backend{Type: LocalType, Config: map[string]any{
		localPath:         filepath.Join(dir, "default.tfstate"),
		localWorkspaceDir: filepath.Join(dir, "workspaces"),
	}}
}

// WithDefaults returns a copy of the backend whose Config is a new map, never nil, with additional settings that the
// engine needs. A setting that Config contains is never changed, even if it is null or empty. Only s3 gets additional
// settings: use_lockfile is true unless Config contains a dynamodb_table, and max_retries is 3.
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

// Check returns an error if the adapter cannot use the backend: if the type is empty or not a valid name, if it is a
// type without workspaces (http, remote or cloud), or if s3 has neither a dynamodb_table that is not null nor a
// use_lockfile that is true. For local it returns an error if the directory of the workspaces is missing in Config, is
// not an absolute path, or cannot be created or written to. The backend must have the settings of WithDefaults. A type
// that this package does not know passes, and the settings of other types are not checked.
//
// Check creates the directory of the workspaces of the local backend, with its parents, if it does not exist. It does
// not connect to servers.
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

// CheckExists returns an error if the directory of the workspaces of the local backend does not exist or cannot be
// inspected. An operation that searches it would conclude that a state does not exist, although the directory may have
// been renamed, or not restored or mounted. CheckExists creates and changes no files. It returns nil for other
// backends, and if Config has no such directory.
func (b Backend) CheckExists() error {
	dir := b.Directory()
	if dir == "" {
		return nil
	}
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("using state directory %q: it has never been used, or was not restored: %w; set "+
			"state.config.dir to the directory that contains the states; `service-adapter prepare` creates a new one",
			filepath.Dir(dir), err)
	}
	return nil
}

// Directory returns the directory that contains the workspaces of the local backend, the setting workspace_dir, as it
// is in Config. It is absolute if Check accepts the backend. Directory returns "" for any other backend, and if Config
// has no such setting or the setting is not a string.
func (b Backend) Directory() string {
	if b.Type != LocalType {
		return ""
	}
	dir, _ := b.Config[localWorkspaceDir].(string)
	return dir
}

// LocksOutliveProcess reports whether a lock of a state can outlive the process that took it. It returns false for pg,
// whose locks end with the connection, and for local, whose locks end with the process. It returns true for all other
// types, including unknown ones.
func (b Backend) LocksOutliveProcess() bool { return b.Type != LocalType && b.Type != PostgresType }

// HidesLockHolder reports whether OpenTofu's error about a held lock describes the process that failed to get the lock
// instead of the lock's holder. It returns true for pg, and false for all other types.
func (b Backend) HidesLockHolder() bool { return b.Type == PostgresType }

// UsesLockfile reports whether the backend is s3 with locks in the bucket, that is with the setting use_lockfile equal
// to true, which OpenTofu supports since version 1.10. An absent setting counts as false, although WithDefaults may set
// it.
func (b Backend) UsesLockfile() bool { return b.Type == S3Type && b.Config[s3Lockfile] == true }

// ConfigFile returns the content of the -backend-config file: the settings in clear text as an indented JSON object, in
// which template sequences such as "${" are escaped for OpenTofu. For a nil Config it returns "null"; WithDefaults
// replaces a nil Config by an empty one. ConfigFile writes no file. It returns "" and an error if a setting cannot be
// represented in JSON.
func (b Backend) ConfigFile() (string, error) {
	// Each setting is on its own line, because OpenTofu shows the line of an invalid setting in its error.
	text, err := json.MarshalIndent(b.Config, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encoding state.config: %w", err)
	}
	// OpenTofu interprets strings in JSON as templates. Outside of strings JSON cannot contain template sequences.
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(string(text)), nil
}

// ensureWritable creates the directory dir with mode 0700, and its missing parents, if it does not exist. It does not
// change the mode of an existing one. It returns an error if the directory cannot be created, if the path is not a
// directory, or if this process lacks the permission to create files in it. It creates no file to check that.
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

// Store returns access to the states of the backend without OpenTofu, or a nil Store if only OpenTofu can access them.
// Only local and pg have a store. env contains the environment variables of OpenTofu by name; nil means none. Store
// does not connect to a server and does not access the states.
//
// For pg the result is nil if the name of a variable in env begins with PG, because it may configure OpenTofu's
// connection, or if statestore.Postgres does not support Config or the environment of this process. For local it is nil
// if Config has no directory.
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
