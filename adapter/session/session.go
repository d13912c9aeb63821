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

// A Process is the part of the operating system process that a session uses: standard error, the lookup of environment
// variables, the handling of signals, and the version of the program. Stderr and Getenv must be set; the other fields
// are optional. If Interruptible is nil, signals end the process. If AdapterVersion is "", the records of bindings and
// instances contain no version of this program.
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
// paks, the secrets to mask and the environment. New creates a session, and Open or Run loads the configuration and
// the paks; the zero value cannot be used. A copy of a session shares the open paks, so only the original is closed.
//
// The caller may set these fields, which are optional, after New; Tolerant and WithoutPaks only have an effect before
// Open:
//
//   - Tolerant permits that some paks cannot be read, provided that another one can. WithoutPaks drops that
//     condition, and has no effect without Tolerant.
//   - AcceptUnencrypted permits reading states that are not encrypted although the configuration has a key.
//   - User is the operator in the audit log, "" if none is known. AuditLogger writes its events to the log of the
//     command; if it is nil, Logger does.
//   - InstanceLimit bounds work on an instance for which no request waits. 0 means Config.Budget.
//   - CheckPending compares an instance with its template when the broker checks for pending changes. If it is nil,
//     the changes are only logged.
//   - Replaying forbids applying a provision template and comparing an instance with it.
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
	// Replaying forbids applying a provision template, because the request was recorded and its secrets are masked. It
	// also forbids comparing an instance with the template.
	Replaying bool
}

// New returns a session for a command, whose configuration and paks are not loaded yet. The caller must open it, with
// Open or Run. process must have Stderr and Getenv; an Interruptible of nil is replaced by a function that returns its
// argument. command is the name of the command in the audit log; any text is accepted. Until Open sets the configured
// level, the session logs from the level info.
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

// Run opens the session, calls work and closes the session. It returns the error of Open, such as an invalid
// configuration, in which case work is not called, or otherwise the error of work. A panic in one of them is returned
// as an error that contains its location and type, but not its value.
func (s *Session) Run(work func() error) (err error) {
	defer RecoverPanic(&err)
	if err := s.Open(); err != nil {
		return err
	}
	defer s.Close()
	return work()
}

// Open loads the configuration, opens the paks and registers the configured secrets for masking. It also replaces
// Logger by one with the configured level. The names, versions, ids and inputs that the readable paks declare are
// passed to redact.Secrets.NeverMask; from then on they are masked only where a text labels them as secret, as in
// password=NAME. Open logs a warning if all users may read the configuration's secrets, or if all paks are readable and
// the configuration has settings for a service that none of them has.
//
// Open returns an error if the configuration cannot be read or is not valid, or if a pak cannot be read. If Tolerant is
// set, unreadable paks are logged instead, provided that at least one other pak is readable or WithoutPaks is set. The
// caller must call Close unless Open returns an error.
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

// Close closes the paks that Open has opened, which must not be used afterwards. Errors are ignored. The paks are the
// only resource of the session that has to be closed.
func (s *Session) Close() { s.Catalog.close() }

// logLevel returns the log level for a value of the configuration key log_level: debug, info, warn or error. For a text
// that is not the name of a level, it returns the level info.
func logLevel(name string) slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(name))
	return level
}

// ForInstance returns a copy of the session, which must be open, for work on one of several instances. The copy has its
// own set of secrets and its own log, which is written to Stderr with the configured level. Secrets that the copy
// registers are not masked in the output of s and of other copies; those of s are masked in the output of the copies as
// well. The copy shares the AuditLogger, the configuration and the open paks with s, and must not be closed.
func (s *Session) ForInstance() *Session {
	own := *s
	own.Secrets = redact.NewChild(s.Secrets)
	own.Journal = journal.New(s.Stderr, own.Secrets)
	own.Logger = own.Journal.Logger(logLevel(s.Config.LogLevel))
	return &own
}

// Values returns the lookup functions for the values that the operator supplies to the paks, in the configuration of
// the session, which must be open, and in the environment. The functions register secrets in environment variables with
// the Secrets of the session.
func (s *Session) Values() OperatorValues {
	return OperatorValues{configured: s.Config.Values, getenv: s.Getenv, secrets: s.Secrets}
}

// Audited calls change, which changes one binding or instance, and returns its error. It writes an event for the
// begin of the change and one for its result to the log and, if Config.AuditLog is set, to that file. If
// Config.AuditLog is set, it also adds the result to the counts that audit.Counts reads. While Journal holds back
// tasks, the result is written and counted only when Journal is released, after the answer of the command; otherwise
// before Audited returns. An event or a count that cannot be written is only logged, and does not prevent the change.
//
// entry describes the binding or the instance according to the request. change may call reportStored with the stored
// entry, which replaces it in the event of the result. A panic in change is recorded as a failure and continues.
func (s *Session) Audited(
	ctx context.Context, entry lifecycle.Entry, change func(reportStored func(lifecycle.Entry)) error,
) error {
	log := audit.Log{
		Command: s.Command, User: s.User, Path: s.Config.AuditLog, Journal: s.Journal,
		Logger: cmp.Or(s.AuditLogger, s.Logger), Secrets: s.Secrets,
	}
	return log.Change(ctx, entry, change)
}

// RecoverPanic recovers from a panic and stores an error in *err that names the location and type of the panic, but not
// its value, which may contain secrets. An earlier error in *err is lost. RecoverPanic must be deferred directly, with
// a pointer to the named result of the function, which then returns normally. Without a panic it does not change *err.
func RecoverPanic(err *error) {
	if panicked := recover(); panicked != nil {
		*err = fmt.Errorf("internal error at %s (%T): this is a bug in the adapter", panicLocation(), panicked)
	}
}

// panicLocation returns the function and line in which the current panic began, such as
// "service-adapter/binding.(*Binder).Create:107", or "an unknown place" if the stack does not show them. Frames of the
// Go runtime are skipped. Only the deferred function RecoverPanic may call it, because it skips a fixed number of stack
// frames.
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
