// Package workspace applies and destroys OpenTofu templates in the workspaces of a state backend, and reads and changes
// the states of these workspaces.
//
// # Terms
//
// A binding or a service instance is one workspace of one state backend. Its state contains a guard: the resource
// terraform_data._binding, which holds a record of the caller and a random nonce. Creating the guard reserves the
// workspace; the creation is atomic, so only one of several concurrent runs succeeds. The nonce identifies the run that
// owns the workspace.
//
// A prepared directory is an initialised template that all runs share; see package templates. OpenTofu runs in a
// scratch directory, which belongs to one workspace; see package scratch. A lease is the exclusive right to work on a
// workspace on this machine; see package lease. The lock of a state is OpenTofu's own lock in the backend, which also
// excludes other machines; see package statelock.
//
// # Usage
//
//	workspace, err := engine.Open(ctx, "b-1234")          // waits for other runs on this machine
//	defer workspace.Close()
//	err = workspace.Reserve(ctx, installation, record)    // ErrExists when another run was first
//	prepared, err := engine.Prepare(ctx, installation, template)
//	err = workspace.Apply(ctx, prepared, variables)
//	outputs, err := workspace.Outputs(ctx, prepared)
//
// An OpenTofu run does not end with this process. If the process is killed, OpenTofu continues and saves its state, and
// the next Open of that workspace waits for it.
package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"syscall"
	"time"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/scratch"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/privatefs"
	"service-adapter/internal/redact"
)

// ErrExists reports that a workspace cannot be reserved or restored because it already has a guard.
var ErrExists = errors.New("workspace exists already")

// ErrTakenOver reports that another run owns the workspace: its guard is no longer the one that this run reserved, read
// or took over. Every resource that this run created is in the state of the other run; otherwise the error is a
// *LostError.
var ErrTakenOver = errors.New("another run took over the workspace")

// ErrNotEmpty reports that a workspace cannot be removed because its state still contains resources.
var ErrNotEmpty = errors.New("workspace is not empty")

// Options configure an Engine: its directories, the state backend, the encryption of states, and the environment,
// secrets and log of the runs. CacheDir and Backend are required; any other field may have its zero value.
type Options struct {
	// CacheDir is a private directory for prepared directories and scratch directories; it is created with mode 0700.
	// It must be absolute and short, and may be mounted noexec.
	CacheDir string
	// PreparedDir is the CacheDir of an engine that prepared directories earlier. It is searched before CacheDir and
	// never written. "" means that there is none.
	PreparedDir string
	// TempDir is the directory for sockets if the path of the scratch directory is too long for them; "" means /tmp.
	TempDir string
	// Backend stores the states.
	Backend backend.Backend
	// NoDirectAccess leaves all reading and writing of states to OpenTofu. A state file of the backend local is
	// nevertheless checked for completeness and copied.
	NoDirectAccess bool
	// Encryption encrypts the states. A nil Encryption stores them in clear text.
	Encryption *statestore.Encryption
	// Env contains the environment variables of OpenTofu and its providers, except for those that the engine sets
	// itself.
	Env map[string]string
	// Secrets are masked in errors and log entries, in addition to those of the backend and of the runs. It may be nil.
	Secrets *redact.Secrets
	// Logger receives a debug entry per run, and warnings; a nil Logger discards them.
	Logger *slog.Logger
	// Grace is how long a run may take to stop and save its state after it was interrupted; 0 means 10 seconds.
	Grace time.Duration
	// StaleLock returns the age at which the lock of a workspace's state is considered stale, that is, left behind by a
	// dead run. A stale lock is released. It should be longer than any run of this host; for a lock of another host, it
	// is raised to at least 10 minutes. A lock that a run with this CacheDir left behind is released at any age. The
	// same age applies to an OpenTofu of this CacheDir that outlived its adapter: if another run waits for it, it is
	// interrupted and, after Grace, killed. The result 0 means never. A nil StaleLock means never for all workspaces.
	StaleLock func(workspace string) time.Duration
}

// Engine reads, applies and destroys workspaces of one state backend, and runs OpenTofu for that. New returns one; the
// zero value is not usable. It is safe for concurrent use.
type Engine struct {
	options   Options
	logger    *slog.Logger
	secrets   *redact.Secrets
	templates *templates.Cache
	scratch   *scratch.Root
	store     statestore.Store       // access to the states without OpenTofu, nil if only OpenTofu can access them
	files     *statestore.LocalStore // the store of the local backend, nil with any other backend
}

// New returns a new engine, or nil and an error. It creates CacheDir, the subdirectories of CacheDir and, for the
// backend local, the directory of the states. It removes files of dead runs from CacheDir; errors of that are only
// logged. It does not connect to the backend.
//
// New returns an error if the options are invalid, for example because CacheDir is relative, a key has the wrong
// length, or the backend has no workspaces or, for s3, no locks. It also returns an error if another user owns, may
// write or could replace CacheDir or PreparedDir, if one of the directories cannot be created or written, or if the
// operating system is not Linux.
//
// New sets the umask of this process to 077, because OpenTofu creates its state files with mode 0666 and inherits the
// umask.
func New(options Options) (*Engine, error) {
	if err := opentofu.CheckPlatform(runtime.GOOS); err != nil {
		return nil, err
	}
	syscall.Umask(0o077)
	options.Grace = cmp.Or(options.Grace, 10*time.Second)
	options.TempDir = cmp.Or(options.TempDir, "/tmp")
	options.Logger = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	options.Backend = options.Backend.WithDefaults()
	if options.StaleLock == nil {
		options.StaleLock = func(string) time.Duration { return 0 }
	}
	if err := privatefs.CreateDir(options.CacheDir); err != nil {
		return nil, fmt.Errorf("checking directory %q: %w", options.CacheDir, err)
	}
	e := &Engine{options: options, logger: options.Logger, secrets: redact.NewChild(options.Secrets)}
	e.secrets.AddValues(options.Backend.Config)
	e.store = options.Backend.Store(options.Env)
	e.files, _ = e.store.(*statestore.LocalStore)
	if err := e.openCacheDir(); err != nil {
		return nil, err
	}
	if err := errors.Join(options.Backend.Check(), options.Encryption.Check()); err != nil {
		return nil, err
	}
	if err := errors.Join(e.scratch.Sweep(), e.templates.Sweep()); err != nil {
		e.logger.Warn("removing the files of a killed adapter", "error", err)
	}
	return e, nil
}

// openCacheDir sets e.templates, the cache of prepared directories, and e.scratch, the root of scratch directories,
// and creates the directories "prepared" and "runs" in CacheDir, for this user only, if they are missing. The other
// fields of the engine must be set. PreparedDir, from which prepared directories are only read, may be "" or not
// exist. Otherwise openCacheDir returns an error if another user owns, may write or could replace PreparedDir or its
// subdirectory "prepared", or if these cannot be checked. It does not check CacheDir. It is also an error if a
// directory cannot be created.
func (e *Engine) openCacheDir() error {
	runner := opentofu.Runner{
		Env: e.options.Env, Grace: e.options.Grace, Backend: e.options.Backend.Type, Logger: e.logger,
	}
	var err error
	e.templates, err = templates.New(templates.Options{
		CacheDir: e.options.CacheDir, ReadOnlyDir: e.options.PreparedDir,
		Backend: e.options.Backend, Store: e.store, Encrypted: e.options.Encryption != nil,
		Runner: runner, Secrets: e.secrets, Logger: e.logger,
	})
	if err != nil {
		return err
	}
	e.scratch, err = scratch.New(scratch.Options{
		CacheDir: e.options.CacheDir, TempDir: e.options.TempDir,
		Backend: e.options.Backend, Encryption: e.options.Encryption,
		Runner: runner, Templates: e.templates, StaleLock: e.options.StaleLock,
		Secrets: e.secrets, Logger: e.logger,
	})
	return err
}

// Prepare returns the prepared directory of a template for the OpenTofu and the providers of i: the directory that
// contains the template after "tofu init". It uses the one in PreparedDir if that is intact, otherwise the one in
// CacheDir, which it builds without network access if it is missing or damaged. A build waits for other builds until
// the context ends, and removes directories that have not been used for 30 days from CacheDir. A damaged directory is
// logged as a warning. An intact directory is returned even if the context has ended.
//
// Errors in the template are diag.Errors, and a failure of OpenTofu, also because the context ended, is an
// *opentofu.Error. It is another error if the OpenTofu does not support the backend or the encryption, if OpenTofu or a
// provider is missing or cannot be executed, if a provider has an invalid name or version, if OpenTofu reports another
// version than the pak when a directory is built, if the backend's database does not keep sessions, if a file cannot be
// read or written, or if the context ends while another build is running or before OpenTofu is started. The result must
// not be used with an error.
func (e *Engine) Prepare(
	ctx context.Context, i opentofu.Installation, t templates.Template,
) (*templates.Prepared, error) {
	return e.templates.Prepare(ctx, i, t)
}

// VerifyBinaries reads OpenTofu, the providers and the other executables of an installation completely, and returns an
// error that names each file whose content differs from the record of an earlier call although its modification time is
// the same. That indicates a damaged disk. The modification time and a digest of each other file are recorded in
// CacheDir. VerifyBinaries waits while another process builds a prepared directory. It also returns an error if an
// executable cannot be read, if the context ends, or if the records cannot be locked or written.
func (e *Engine) VerifyBinaries(ctx context.Context, i opentofu.Installation) error {
	return e.templates.VerifyBinaries(ctx, i)
}

// canAccessDirectly reports whether the adapter may read and write states of this OpenTofu without running it. This is
// false if Options.NoDirectAccess is set, and for a version of OpenTofu that the adapter has not been tested with,
// which may store or lock states differently. It does not consider the backend: e.store is nil if that does not allow
// direct access.
func (e *Engine) canAccessDirectly(i opentofu.Installation) bool {
	return !e.options.NoDirectAccess && i.Tested()
}

// newSecrets returns a new set of secrets that includes those of the engine, even those that are added to the engine
// later. Secrets that are added to the new set are not added to those of the engine.
func (e *Engine) newSecrets() *redact.Secrets { return redact.NewChild(e.secrets) }
