// Package tofu runs OpenTofu: it prepares initialised directories that many runs share, gives every run a scratch directory
// of its own, reserves, applies, destroys and removes workspaces, and reads their state. internal/opentofu starts the
// processes.
//
// One unit of work, a binding or an instance, is one workspace of one state backend. Its state holds a guard, the resource
// terraform_data._binding, whose input is a record of the caller's and whose creation is the atomic "create if absent":
//
//	workspace, err := engine.Open(ctx, "b-1234")          // waits for other runs on this machine
//	defer workspace.Close()
//	err = workspace.Reserve(ctx, installation, record)    // ErrExists when another run was first
//	prepared, err := engine.Prepare(ctx, installation, template)
//	err = workspace.Apply(ctx, prepared, variables)
//	outputs, err := workspace.Outputs(ctx, prepared)
//
// A run is not tied to the life of this process: when the process is killed, OpenTofu goes on and saves its state, and the
// next Open of that workspace waits for it.
package tofu

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/redact"
	"service-adapter/internal/statestore"
)

// ErrExists says that a workspace already holds a guard.
var ErrExists = errors.New("workspace exists already")

// ErrNotEmpty says that a workspace still tracks resources.
var ErrNotEmpty = errors.New("workspace is not empty")

// Options configure an Engine.
type Options struct {
	// CacheDir is a private directory for prepared directories and runs; it is created with mode 0700. It must be absolute
	// and short, and may be mounted noexec. Required.
	CacheDir string
	// PreparedDir, which may be empty, is searched first and never written: the CacheDir of an engine that ran earlier.
	PreparedDir string
	// TempDir is where sockets go when a scratch directory's path is too long for them; "" means /tmp.
	TempDir string
	// Backend is where OpenTofu keeps its states. Required.
	Backend Backend
	// OnlyOpenTofu leaves all reading and writing of states to OpenTofu. Of the backend local it is still looked at whether a state is
	// whole, and a copy is kept.
	OnlyOpenTofu bool
	// Encryption encrypts the states; nil stores them as they are.
	Encryption *statestore.Encryption
	// Env is what OpenTofu and its providers find in their environment besides the few variables the engine sets.
	Env map[string]string
	// Secrets must not appear in errors; nil for none but those of the backend and of what is run.
	Secrets *redact.Secrets
	// Logger gets one event per run; nil discards.
	Logger *slog.Logger
	// Grace is how long a run may take to stop and save its state after it was interrupted; 0 means 10 seconds.
	Grace time.Duration
	// StaleLock is the age from which the lock of a state counts as left behind by a run that is dead, whoever made it, and is
	// released; of another host's it is at least 10 minutes. It should be longer than any run of this host. 0 means never. A lock that
	// a run of this CacheDir left behind needs no age. It is also the age from which an OpenTofu of this CacheDir whose adapter is dead
	// is interrupted and, after the grace, killed when another run waits for it.
	//
	// It depends on the workspace; nil means never for all.
	StaleLock func(workspace string) time.Duration
}

// What is in the cache directory: prepared directories and, for each workspace, a scratch directory.
const (
	preparedName = "prepared"
	runsName     = "runs"
)

// Engine runs OpenTofu with one state backend. It is safe for concurrent use.
type Engine struct {
	options Options
	logger  *slog.Logger
	runner  opentofu.Runner
	secrets *redact.Secrets
	store   statestore.Store  // nil where OpenTofu has to be asked
	files   *statestore.Files // the states of the local backend, nil with another one
}

// New checks the options and returns an engine. It creates CacheDir, and refuses one that another user owns or may write, such a
// PreparedDir, and a local state directory that cannot be written. It sets the umask of this process to 077, because children inherit
// it and OpenTofu writes its states with mode 0666.
func New(options Options) (*Engine, error) {
	syscall.Umask(0o077)
	options.Grace = cmp.Or(options.Grace, 10*time.Second)
	options.TempDir = cmp.Or(options.TempDir, "/tmp")
	options.Logger = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	if options.StaleLock == nil {
		options.StaleLock = func(string) time.Duration { return 0 }
	}
	if err := checkDirs(&options); err != nil {
		return nil, err
	}
	for _, name := range []string{preparedName, runsName} {
		if err := os.MkdirAll(filepath.Join(options.CacheDir, name), 0o700); err != nil {
			return nil, fmt.Errorf("creating cache directory: %w", err)
		}
	}
	options.Backend = options.Backend.complete()
	if err := errors.Join(options.Backend.check(), options.Encryption.Check()); err != nil {
		return nil, err
	}
	e := &Engine{options: options, logger: options.Logger, secrets: redact.Under(options.Secrets), runner: opentofu.Runner{
		Env: options.Env, Grace: options.Grace, Backend: options.Backend.Type, Logger: options.Logger,
	}}
	e.secrets.AddValues(options.Backend.Config)
	if dir := options.Backend.directory(); dir != "" {
		e.files = statestore.Local(dir)
	}
	e.store = newStore(options.Backend, e.files, options.Env)
	e.sweep()
	return e, nil
}

// mask knows the engine's secrets.
func (e *Engine) mask() *redact.Secrets { return redact.Under(e.secrets) }
