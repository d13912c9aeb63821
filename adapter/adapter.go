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

// Commands returns the names of the protocol's commands, sorted.
func Commands() []string { return input.Commands() }

// An Invocation holds the arguments, streams and environment of one run of the adapter.
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
	// nil, only the context of Run ends the work.
	Interruptible func(context.Context) context.Context
	// Failed is called with the reason if the session cannot be opened or the command returns an error, whatever the
	// exit code is. It is not called for an unknown command, nor if the result cannot be written to Stdout. Secrets in
	// the reason are masked. Failed may be nil.
	Failed func(reason string)
	// Release is the program's version, "" for a development build.
	Release string
}

// Version returns the version of the program, which is "development" for a program that is not of a release.
func (i *Invocation) Version() string { return cmp.Or(i.Release, "development") }

// Process returns the part of the invocation that a session uses.
func (i *Invocation) Process() session.Process {
	return session.Process{
		Stderr: i.Stderr, Getenv: i.Getenv, Interruptible: i.Interruptible, AdapterVersion: i.Version(),
	}
}

// Run executes the command of the protocol that Args[1] names and returns the exit code: 0, 10 (not implemented), 41
// (no such binding), 42 (app GUID required), 49 (binding exists), or 1 for any other error, including a panic. It
// writes the product of the command, or else the message for the cf user, to Stdout, and the log to Stderr. An unknown
// or missing command prints the usage to Stderr and returns 1. If --help is the only argument of the command, Run
// writes the help of the command to Stdout instead, and returns 0, or 1 if that fails.
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

// An execution is one run of a command of the protocol: its invocation, and the session, which names the command.
type execution struct {
	invocation Invocation
	session    *session.Session
}

// newExecution returns an execution of a command, whose session is not open yet. The commands that work with a deployed
// instance tolerate unreadable paks; see session.Session.Tolerant.
func newExecution(invocation Invocation, command string) *execution {
	s := session.New(invocation.Process(), command)
	s.Tolerant = slices.Contains([]string{input.CreateBinding, input.DeleteBinding, input.DashboardURL}, command)
	return &execution{invocation: invocation, session: s}
}

// printUsage prints the names of the protocol's commands to standard error, with a suggestion if Args names an unknown
// command. A failed write is ignored.
func printUsage(invocation Invocation) {
	text := "usage: service-adapter COMMAND\nthe following commands are supported: " + strings.Join(Commands(), ", ") +
		"\nauthors and operators have others: see service-adapter --help"
	if len(invocation.Args) > 1 {
		unknown := invocation.Args[1]
		text = fmt.Sprintf("unknown subcommand: %s%s\n%s", unknown, diag.Suggest(unknown, Commands()), text)
	}
	_, _ = fmt.Fprintln(invocation.Stderr, text) // a failed write cannot be reported
}

// withBudgetError returns an error that wraps err and a fault.BudgetError if err is context.DeadlineExceeded and does
// not contain a BudgetError yet: some libraries report only that a deadline was exceeded. budget is the limit that the
// BudgetError names. All other errors, and nil, are returned unchanged.
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

// execute opens the session, runs work, writes its product to standard output and returns the exit code. If the session
// cannot be opened, or if work fails or panics, standard output gets the message for the cf user instead, with secrets
// masked, and the error is logged and passed to Invocation.Failed. The message is that of outcome. It is left out if it
// cannot be masked in time. A generate-plan-schemas without a message gets noSchemas, unless its input could not be
// decoded. See outcome for the exit code of an error. A product that cannot be written is only logged; the exit code is
// 1. Log lines, the end of audited changes and recordings are written afterwards, so that masking their secrets does
// not delay the answer.
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

// outcome maps an error, which must not be nil, to the exit code and the text for the cf user. No other function does.
// The message is a single line, which may contain secrets: that of the fault.UserError or else of the fault.BudgetError
// in err. It is "" if err contains neither, and with every exit code other than 1; the broker then composes its own
// text.
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
