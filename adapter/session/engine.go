package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/provision"
	"service-adapter/internal/engine/workspace"
)

// Manager returns a new lifecycle.Manager that runs OpenTofu with the configured state backend and the environment of
// all readable paks. Changes through the manager are not audited unless the caller sets its Audit. Manager creates the
// directories of the cache and of a local state, removes files of dead runs from the cache, and sets the umask of this
// process to 077. It registers the secrets in the environment for masking.
//
// Manager returns nil and an error if pak, which must be one of the catalog's, requires an environment variable that is
// unset or empty in both the environment and the configuration, if a key of the state encryption is not valid, if the
// settings of the state backend are rejected, or if a directory cannot be created or is not safe to use; see
// workspace.New. A nil pak requires no variables.
func (s *Session) Manager(pak *brokerpak.Pak) (*lifecycle.Manager, error) {
	environment, err := s.Values().tofuEnvironment(s.Catalog.Paks, pak)
	if err != nil {
		return nil, err
	}
	encryption, err := s.Config.State.Encryption.Decode()
	if err != nil {
		return nil, err
	}
	if encryption != nil {
		encryption.AcceptUnencrypted = s.AcceptUnencrypted
	}
	temporary, _ := s.Getenv("TMPDIR")
	engine, err := workspace.New(workspace.Options{
		CacheDir: s.Config.CacheDir, PreparedDir: s.Config.PreparedDir, TempDir: temporary,
		Backend: s.Config.Backend(), Encryption: encryption,
		Env: environment, Logger: s.Logger, Secrets: s.Secrets,
		Grace:          lifecycle.Grace(s.Config.Budget, s.InstanceLimit),
		StaleLock:      lifecycle.StaleLock(s.Config.Budget, s.Config.ErrandLimit),
		NoDirectAccess: s.Config.State.Direct != nil && !*s.Config.State.Direct,
	})
	if err != nil {
		return nil, err
	}
	return &lifecycle.Manager{
		Engine: engine, Paks: s.Catalog.Paks, Unreadable: s.Catalog.UnreadableError(), Installation: s.Installation,
		Budget: s.Config.Budget, InstanceLimit: s.InstanceLimit, Logger: s.Logger, AdapterVersion: s.AdapterVersion,
		Secrets: s.Secrets,
	}, nil
}

// Installation returns the absolute paths of an OpenTofu of a pak, of the pak's providers, and of the directory of its
// other binaries, if it has any, for the platform of this process. It first unpacks the binaries of a zip into the
// cache directory if that has not been done yet. version is one of the OpenTofu versions in the pak, such as "1.9.0",
// or "" for the pak's default one. Installation returns an error if the pak does not contain the version or binaries
// for the platform, if the version is "" and the pak has no default one, if a binary is missing or cannot be unpacked,
// or if ctx ends meanwhile.
func (s *Session) Installation(ctx context.Context, pak *brokerpak.Pak, version string) (opentofu.Installation, error) {
	if version == "" {
		var err error
		if version, err = pak.Manifest.DefaultVersion(); err != nil {
			return opentofu.Installation{}, err
		}
	}
	files, err := pak.Executables(ctx, brokerpak.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}, s.Config.CacheDir)
	if err != nil {
		return opentofu.Installation{}, err
	}
	if files.Tofu[version] == "" {
		return opentofu.Installation{}, fmt.Errorf("pak %s does not bundle OpenTofu %s; it bundles: %s",
			pak.Manifest.Name, version, strings.Join(slices.Sorted(maps.Keys(files.Tofu)), ", "))
	}
	installation := opentofu.Installation{Binary: files.Tofu[version], Version: version}
	for _, provider := range files.Providers {
		installation.Providers = append(installation.Providers, opentofu.Provider(provider))
	}
	if files.Path != "" {
		installation.Path = []string{filepath.Clean(files.Path)}
	}
	return installation, nil
}

// CheckCommands returns an error for each program in service.RequiredCommands that a run of the service's templates
// would not find, joined, or nil if all are found. A program is found among the binaries of the pak for this platform,
// in the PATH that is configured for OpenTofu, or in the system's directories. Each error names the position in the
// service definition and the PATH of a run. CheckCommands runs no program. It registers the secrets in the environment
// for masking.
func (s *Session) CheckCommands(pak *brokerpak.Pak, service *brokerpak.Service) error {
	environment, _ := s.Values().tofuEnvironment(s.Catalog.Paks, nil) // cannot fail: a nil pak requires no variables
	platform := brokerpak.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
	var installation opentofu.Installation
	if pak.Manifest.HasOtherBinaries() {
		installation.Path = []string{filepath.Join(pak.Path, "bin", platform.OS, platform.Arch)}
	}
	runner := opentofu.Runner{Env: environment}
	systemPath := runner.SearchPath(opentofu.Installation{})
	var missing []error
	for _, command := range service.RequiredCommands {
		if !pak.HasExecutable(platform, command.Name) && !opentofu.HasCommand(systemPath, command.Name) {
			missing = append(missing, fmt.Errorf("%s: service %q requires the command %q, which is not in the PATH of "+
				"OpenTofu, %s; add its directory to PATH in `config`, or the program to the pak",
				command.Pos, service.Name, command.Name, runner.SearchPath(installation)))
		}
	}
	return errors.Join(missing...)
}

// Provisioner returns a Provisioner that applies the provision templates of a pak, with a new manager and the
// permissions of the configuration for updates and upgrades. It returns nil and an error if the manager cannot be
// created, for example because an environment variable that the pak requires is missing. A nil pak requires no
// variables. See Manager for the other errors, and for the side effects, such as new directories and the umask of
// this process.
func (s *Session) Provisioner(pak *brokerpak.Pak) (*provision.Provisioner, error) {
	manager, err := s.Manager(pak)
	if err != nil {
		return nil, err
	}
	return &provision.Provisioner{
		Manager:              manager,
		UseInstalledTemplate: s.Config.BrokerpakUpdatesEnabled, AllowUpgrade: s.Config.TerraformUpgradesEnabled,
	}, nil
}

// WithPak returns a copy of the audit entry in which the name and version of the pak and the version of its default
// OpenTofu are set. The latter is "" if the pak has no default OpenTofu. pak must not be nil.
func WithPak(pak *brokerpak.Pak, entry lifecycle.Entry) lifecycle.Entry {
	entry.Pak, entry.PakVersion = pak.Manifest.Name, pak.Manifest.Version
	entry.Tofu, _ = pak.Manifest.DefaultVersion() // "" for a pak without OpenTofu
	return entry
}
