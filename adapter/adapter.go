// Package adapter implements the service adapter protocol of the on-demand broker (ODB). It reads the input of a
// command, delegates the work to other packages, and turns the outcome into standard output, standard error and an
// exit code.
//
// Standard output contains only the product of the command, written at the end. If a command fails, standard output
// contains one sentence for the cf user, or nothing; in the latter case the broker composes a text of its own.
// Messages for the operator are written to standard error, with secrets masked.
//
// Replay executes a recorded request again. The commands of operators and authors are in internal/operate.
package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/adapter/input"
	"service-adapter/adapter/session"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/journal"
)

// Commands returns a new list of the names of the protocol's commands, sorted: create-binding, dashboard-url,
// delete-binding, generate-manifest and generate-plan-schemas.
func Commands() []string { return input.Commands() }

// An Invocation holds the arguments, the standard streams and the environment of one run of the adapter, its version,
// and optional functions for signals and failures. The fields Args, Stdout, Stderr and Getenv must be set, and Stdin
// as well if Args contains no input, so the zero value cannot be used.
//
// Interruptible returns a context that the first SIGINT or SIGTERM cancels; if it is nil, the adapter does not handle
// signals. Failed, which may be nil, is called with the reason, with secrets masked, if a command of the protocol
// returns an error or its session cannot be opened. Release is "" for a development build.
type Invocation struct {
	// Args contains the name of the program, followed by its arguments.
	Args []string
	// Stdin contains the input of a protocol command without positional arguments. Stdout receives the product of the
	// command or the message for the cf user, and Stderr the log. Stdout and Stderr must not be nil.
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Getenv returns the value of an environment variable and reports whether it is set, as os.LookupEnv does. It must
	// not be nil.
	Getenv func(name string) (string, bool)
	// Interruptible returns a context that is also cancelled by the first SIGINT or SIGTERM. From then on, this
	// signal does not end the process, so that the work can store or roll back the created resources; the second
	// signal ends the process at once. Interruptible is called before work that must not be left half done, and
	// before any process is started. Most commands never call it, because listening for signals takes time. If it is
	// nil, signals have their usual effect, and the work ends early only with the context of Run or the budget.
	Interruptible func(context.Context) context.Context
	// Failed is called with the reason if the session cannot be opened or the command returns an error, whatever the
	// exit code is. It is not called for an unknown command, nor if the result cannot be written to Stdout. Secrets in
	// the reason are masked. Failed may be nil.
	Failed func(reason string)
	// Release is the program's version, "" for a development build.
	Release string
}

// Version returns the version of the program, which is the field Release, or "development" if Release is "".
func (i *Invocation) Version() string { return cmp.Or(i.Release, "development") }

// Process returns the part of the invocation that a session uses: Stderr, Getenv, Interruptible and the version of the
// program, as Version returns it. The session gets neither the arguments nor Stdin and Stdout.
func (i *Invocation) Process() session.Process {
	return session.Process{
		Stderr: i.Stderr, Getenv: i.Getenv, Interruptible: i.Interruptible, AdapterVersion: i.Version(),
	}
}

// Run executes the command of the protocol that Args[1] names and returns the exit code: 0, 10 (not implemented), 41
// (no such binding), 42 (app GUID required), 49 (binding exists), or 1 for any other error, including a panic and an
// output that cannot be written. Run reads the input from the remaining arguments, or from Stdin if Args contains no
// others. It writes the product of the command, or else the message for the cf user, to Stdout, and the log to Stderr.
//
// An unknown or missing command prints the usage to Stderr and returns 1. If --help is the only argument of the
// command, Run writes the help of the command to Stdout instead, and returns 0, or 1 if that fails.
func Run(ctx context.Context, invocation Invocation) int {
	if len(invocation.Args) < 2 || !slices.Contains(Commands(), invocation.Args[1]) {
		printUsage(invocation)
		return serviceadapter.ErrorExitCode
	}
	if wantsHelp(invocation.Args) {
		return printHelp(invocation, invocation.Args[1])
	}
	e := newExecution(invocation, invocation.Args[1])
	// Every adapter on the SDK writes this line. A failed write cannot be reported.
	_, _ = fmt.Fprintf(invocation.Stderr, "[odb-sdk] handling %s\n", e.session.Command)
	return e.execute(ctx, e.handle)
}

// An execution is one run of a command of the protocol: its invocation, and the session, whose field Command is the
// name of the command. newExecution creates it; the zero value has no session and cannot be used.
type execution struct {
	invocation Invocation
	session    *session.Session
}

// newExecution returns an execution of a command, which must be one of Commands. It neither reads nor writes anything:
// the session is new, and the method execute opens it. For create-binding, delete-binding and dashboard-url, a pak that
// cannot be read is only logged if another one is readable, because the record of the instance names the pak that these
// commands need.
func newExecution(invocation Invocation, command string) *execution {
	s := session.New(invocation.Process(), command)
	s.Tolerant = slices.Contains([]string{input.CreateBinding, input.DeleteBinding, input.DashboardURL}, command)
	return &execution{invocation: invocation, session: s}
}

// printUsage writes a usage line and the names of the protocol's commands to Stderr of the invocation. If Args[1]
// exists, the text begins with the message that this command is unknown, and suggests the most similar command, if any.
// A failed write is ignored.
func printUsage(invocation Invocation) {
	text := "usage: service-adapter COMMAND\nthe following commands are supported: " + strings.Join(Commands(), ", ") +
		"\nauthors and operators have others: see service-adapter --help"
	if len(invocation.Args) > 1 {
		unknown := invocation.Args[1]
		text = fmt.Sprintf("unknown subcommand: %s%s\n%s", unknown, diag.Suggest(unknown, Commands()), text)
	}
	_, _ = fmt.Fprintln(invocation.Stderr, text) // a failed write cannot be reported
}

// withBudgetError returns an error that wraps err and a new fault.BudgetError if err is or wraps
// context.DeadlineExceeded and contains no BudgetError yet: some libraries report only that a deadline was exceeded.
// budget is the time limit of the command, which the BudgetError names. All other errors, and nil, are returned
// unchanged.
func withBudgetError(err error, budget time.Duration) error {
	if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*fault.BudgetError)) {
		return err
	}
	return fmt.Errorf("%w: %w", &fault.BudgetError{Budget: budget}, err)
}

// noSchemas is the message for the user if the schemas of a plan cannot be generated. For every other command the
// broker has a text of its own.
const noSchemas = "There was a problem reading the schemas of the plan's parameters. " +
	"Please contact your operations team."

// execute opens the session, calls work, writes the bytes that work returns to Stdout, and returns the exit code 0. The
// bytes may be nil. If they cannot be written, execute logs the error and returns 1.
//
// If the session cannot be opened, or if work fails or panics, execute writes the message for the cf user to Stdout
// instead, with secrets masked, logs the error, passes its masked text to Invocation.Failed if that is set, and returns
// the exit code. The function outcome determines the message and the exit code; an error of work that reports an
// exceeded deadline counts as a fault.BudgetError. The message is left out if it cannot be masked in time. If
// generate-plan-schemas has no message, the constant noSchemas is written, unless the input could not be read or
// decoded. A message that cannot be written is only logged.
//
// The end events of the audit log and recordings are written last, so that masking their secrets does not delay the
// answer. So are log lines, but those of a command that takes more than a second are written while it works.
func (e *execution) execute(ctx context.Context, work func(context.Context) ([]byte, error)) int {
	e.session.Journal.Hold()
	defer e.session.Journal.Release(ctx)
	var product []byte
	err := e.session.Run(func() (err error) {
		product, err = work(ctx)
		return withBudgetError(err, e.session.Config.Budget)
	})
	if err == nil {
		if _, err := e.invocation.Stdout.Write(product); err != nil {
			e.session.Logger.Error("writing the result", "command", e.session.Command, "error", err)
			return serviceadapter.ErrorExitCode
		}
		return 0
	}
	code, message := outcome(err)
	journal.WithMaskingTime(ctx, func(ctx context.Context) {
		message, _ = e.session.Secrets.Mask(ctx, message) // "" on failure: the broker then composes a text
	})
	if message == "" && e.session.Command == input.GeneratePlanSchemas && !errors.As(err, new(input.Error)) {
		message = noSchemas
	}
	if message != "" {
		if _, err := io.WriteString(e.invocation.Stdout, message); err != nil {
			e.session.Logger.Error("writing the message for the user", "command", e.session.Command, "error", err)
		}
	}
	level := slog.LevelError
	switch {
	case code != serviceadapter.ErrorExitCode && e.session.Command != input.GenerateManifest:
		level = slog.LevelInfo // an ordinary answer of the protocol
	case !fault.OnlyForOperator(err):
		level = slog.LevelWarn
	}
	e.session.Logger.Log(ctx, level, "command ended without a result",
		"command", e.session.Command, "exit", code, "error", err)
	if e.invocation.Failed != nil {
		e.invocation.Failed(e.session.Secrets.Clean(err.Error()))
	}
	return code
}

// outcome returns the exit code and the text for the cf user of an error, which must not be nil. The code is 10 if err
// is or wraps fault.ErrNotImplemented, 41 for fault.ErrBindingNotFound, 42 for fault.ErrAppGUIDMissing, 49 for
// fault.ErrBindingExists, and 1 otherwise. If several of them apply, the first one in this order decides.
//
// The message is a single line, in which secrets are not masked: the messages of the fault.UserErrors in err, or else
// that of the fault.BudgetError. It is "" if err contains neither, and with every exit code other than 1; the broker
// then composes its own text.
func outcome(err error) (code int, message string) {
	message = strings.Join(strings.Fields(fault.UserMessage(err)), " ") // one line
	var budget *fault.BudgetError
	if message == "" && errors.As(err, &budget) {
		message = budget.UserMessage()
	}
	switch {
	case errors.Is(err, fault.ErrNotImplemented):
		return serviceadapter.NotImplementedExitCode, ""
	case errors.Is(err, fault.ErrBindingNotFound):
		return serviceadapter.BindingNotFoundErrorExitCode, ""
	case errors.Is(err, fault.ErrAppGUIDMissing):
		return serviceadapter.AppGuidNotProvidedErrorExitCode, ""
	case errors.Is(err, fault.ErrBindingExists):
		return serviceadapter.BindingAlreadyExistsErrorExitCode, ""
	default:
		return serviceadapter.ErrorExitCode, message
	}
}
