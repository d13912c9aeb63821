// Package session provides what the commands of the broker, of operators and of authors share: it loads the
// configuration, opens the paks, masks secrets, chooses the service and plan of a request, completes the request, and
// connects the packages that generate manifests and run OpenTofu.
package session

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"service-adapter/adapter/config"
	"service-adapter/internal/diag"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/provision"
	"service-adapter/internal/journal"
	"service-adapter/internal/operate/audit"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
)

// A Process is what a session uses of its process: standard error, the environment and signals.
type Process struct {
	// Stderr receives the log, with secrets masked. It must not be nil.
	Stderr io.Writer
	// Getenv returns the value of an environment variable and reports whether it is set, as os.LookupEnv does. It must
	// not be nil.
	Getenv func(name string) (string, bool)
	// Interruptible returns a context that is also cancelled by the first SIGINT or SIGTERM. It is called before work
	// that must not be left half done, and before any process is started. If it is nil, signals end the process.
	Interruptible func(context.Context) context.Context
	// AdapterVersion is the version of this program, which the records of bindings and instances contain. They contain
	// none if it is "".
	AdapterVersion string
}

// A Session is the execution of one command. It holds the state that all commands need: the configuration, the open
// paks, the secrets to mask and the environment. A copy of a session shares the open paks, so only the original is
// closed.
type Session struct {
	Process
	// Command is the name of the command in the audit log.
	Command string
	// AuditLogger writes audit events to standard error. If it is nil, Logger does.
	AuditLogger *slog.Logger
	// User is the name of the operator who runs the command, according to the environment, or "errand NAME". It is ""
	// for the commands of the broker, which does not send the name of its user.
	User string
	// Secrets contains the secrets to mask in the log. Journal writes the log and masks them, and Logger writes to it.
	// New sets all three; Open replaces Logger by one with the configured level.
	Secrets *redact.Secrets
	Journal *journal.Journal
	Logger  *slog.Logger
	// Config and Catalog are set by Open.
	Config  config.Config
	Catalog Catalog
	// Tolerant permits that some paks cannot be read, because a record names the pak that the command needs. At least
	// one pak must be readable unless WithoutPaks is set.
	Tolerant, WithoutPaks bool
	// AcceptUnencrypted permits reading states that are not encrypted although the configuration has a key.
	AcceptUnencrypted bool
	// InstanceLimit bounds work on an instance for which no request waits. It is 0 in a command of the broker, where
	// Config.Budget bounds the work.
	InstanceLimit time.Duration
	// CheckPending compares an instance with its provision template while the broker checks for pending changes. It
	// must not change the instance. Its error fails GenerateManifest. If it is nil, planned changes are logged.
	CheckPending func(context.Context, provision.Request) error
	// Replaying forbids applying a provision template, because the request was recorded and its secrets are masked.
	Replaying bool
}

// New returns a session for a command, whose configuration and paks are not loaded yet. The caller must open it, with
// Open or Run. command is its name in the audit log. An Interruptible of nil is replaced by a function that returns its
// argument.
func New(process Process, command string) *Session {
	if process.Interruptible == nil {
		process.Interruptible = func(ctx context.Context) context.Context { return ctx }
	}
	secrets := &redact.Secrets{}
	log := journal.New(process.Stderr, secrets)
	return &Session{
		Process: process, Command: command, Secrets: secrets, Journal: log, Logger: log.Logger(slog.LevelInfo),
	}
}

// Run opens the session, calls work and closes the session. It returns the error of Open, in which case work is not
// called, or that of work. A panic in one of them is returned as an error; see RecoverPanic.
func (s *Session) Run(work func() error) (err error) {
	defer RecoverPanic(&err)
	if err := s.Open(); err != nil {
		return err
	}
	defer s.Close()
	return work()
}

// Open loads the configuration, opens the paks and registers the configured secrets for masking. It returns an error if
// the configuration is invalid, or if a pak cannot be read. A tolerant session logs unreadable paks instead, if at
// least one other pak is readable or WithoutPaks is set. Open also replaces Logger by one with the configured level,
// and logs a warning if all users may read the configuration's secrets, or if the configuration has settings for an
// unknown service. The names, ids and inputs that the paks declare are never masked from then on. The caller must call
// Close unless Open returns an error.
func (s *Session) Open() error {
	loaded, warning, err := config.Load(s.Getenv)
	if err != nil {
		return err
	}
	s.Config, s.Logger = loaded, s.Journal.Logger(logLevel(loaded.LogLevel))
	s.Config.AddSecrets(s.Secrets)
	if warning != "" {
		s.Logger.Warn("reading the configuration", "warning", warning)
	}
	s.Catalog = newCatalog(&s.Config, s.Getenv)
	unreadable := s.Catalog.UnreadableError()
	if unreadable != nil && (!s.Tolerant || len(s.Catalog.Paks) == 0 && !s.WithoutPaks) {
		s.Close()
		return unreadable
	}
	for _, err := range s.Catalog.Unreadable {
		s.Logger.Warn("a pak cannot be read", "error", err)
	}
	s.Secrets.NeverMask(s.Catalog.publicNames()...)
	for _, name := range value.Keys(s.Config.Services) {
		names := s.Catalog.ServiceNames()
		if len(s.Catalog.Unreadable) == 0 && !slices.Contains(names, name) {
			s.Logger.Warn("the configuration has settings for a service that no pak has",
				"service", name, "services", diag.Names(names))
		}
	}
	return nil
}

// Close closes all paks. Errors are ignored. Nothing else of the session must be closed.
func (s *Session) Close() { s.Catalog.close() }

// logLevel returns the level for the value of the configuration key log_level, which must be valid. For any other text
// it returns the level info.
func logLevel(name string) slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(name))
	return level
}

// ForInstance returns a copy of the session for work on one of several instances, with a set of secrets and a log of
// its own. Secrets that the copy registers are not masked in the output for other instances; those of s are masked in
// both. Its Logger has the configured level. The copy must not be closed.
func (s *Session) ForInstance() *Session {
	own := *s
	own.Secrets = redact.NewChild(s.Secrets)
	own.Journal = journal.New(s.Stderr, own.Secrets)
	own.Logger = own.Journal.Logger(logLevel(s.Config.LogLevel))
	return &own
}

// Values returns the lookup functions for the values that the operator supplies to the paks. They register secrets with
// the Secrets of the session.
func (s *Session) Values() OperatorValues {
	return OperatorValues{configured: s.Config.Values, getenv: s.Getenv, secrets: s.Secrets}
}

// Audited calls change, which changes one binding or instance, and returns its error. It writes the begin and the
// result of the change to the log and, if it is configured, to the file of the audit log; an event that cannot be
// written is only logged. entry describes the binding or the instance according to the request, and change may replace
// it by calling reportStored with the stored entry. See audit.Log.Change.
func (s *Session) Audited(
	ctx context.Context, entry lifecycle.Entry, change func(reportStored func(lifecycle.Entry)) error,
) error {
	log := audit.Log{
		Command: s.Command, User: s.User, Path: s.Config.AuditLog, Journal: s.Journal,
		Logger: cmp.Or(s.AuditLogger, s.Logger), Secrets: s.Secrets,
	}
	return log.Change(ctx, entry, change)
}

// RecoverPanic stores a panic in err as an error that names its location and type, but not its value, which may contain
// secrets. The panic ends there. RecoverPanic must be deferred directly. Without a panic it does not change err.
func RecoverPanic(err *error) {
	if panicked := recover(); panicked != nil {
		*err = fmt.Errorf("internal error at %s (%T): this is a bug in the adapter", panicLocation(), panicked)
	}
}

// panicLocation returns the function and line of this program in which the current panic began, or "an unknown place"
// if the stack does not show it. It must be called by the deferred function RecoverPanic, because it skips a fixed
// number of stack frames.
func panicLocation() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") {
			return fmt.Sprintf("%s:%d", frame.Function, frame.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}
