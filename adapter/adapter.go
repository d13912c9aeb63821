// Package adapter is the boundary to the on-demand broker: it reads a command's input, has the other packages do the work, and
// turns the outcome into standard output, standard error and an exit code as the service adapter protocol defines them.
//
// Standard output carries the product of the command and nothing else, written at the end; where a command fails, it
// carries a sentence for the cf user or nothing, in which case the broker composes a text of its own. Everything for the
// operator goes to standard error, with secrets replaced.
package adapter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
)

// The commands of the protocol.
const (
	generateManifest    = "generate-manifest"
	createBinding       = "create-binding"
	deleteBinding       = "delete-binding"
	dashboardURL        = "dashboard-url"
	generatePlanSchemas = "generate-plan-schemas"
)

// Commands returns the names of the protocol's commands, sorted.
func Commands() []string {
	return []string{createBinding, dashboardURL, deleteBinding, generateManifest, generatePlanSchemas}
}

// Invocation is one run of the adapter.
type Invocation struct {
	// Args are the program's name and its arguments.
	Args   []string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Getenv looks up environment variables.
	Getenv func(name string) (string, bool)
	// Interruptible makes a context that also ends when the process is told to end, which from then on does not end it: what was made
	// must still be told. It is called before there is work that must not be left half done, and before any process is started; to
	// listen for signals takes time, and most commands end before anybody could send one. nil: the context of Run does.
	Interruptible func(context.Context) context.Context
	// Failed is told why the command failed, with secrets replaced, as the log is; nil for nobody.
	Failed func(reason string)
}

// Run executes a command of the protocol and returns the exit code: 0, 10 (not implemented), 41 (no such binding), 42 (app
// required), 49 (binding exists) or 1.
func Run(ctx context.Context, invocation Invocation) int {
	if len(invocation.Args) < 2 || !slices.Contains(Commands(), invocation.Args[1]) {
		usage(invocation)
		return serviceadapter.ErrorExitCode
	}
	s := newSession(invocation, invocation.Args[1])
	_, _ = fmt.Fprintf(invocation.Stderr, "[odb-sdk] handling %s\n", s.command) // as every adapter on the SDK does
	return s.answer(ctx, s.handle)
}

func usage(invocation Invocation) {
	text := "usage: service-adapter COMMAND\nthe following commands are supported: " + strings.Join(Commands(), ", ") +
		"\nauthors and operators have others: see service-adapter --help"
	if len(invocation.Args) > 1 {
		unknown := invocation.Args[1]
		text = fmt.Sprintf("unknown subcommand: %s%s\n%s", unknown, diag.Suggest(unknown, Commands()), text)
	}
	_, _ = fmt.Fprintln(invocation.Stderr, text) // nobody is left to tell
}

// recovered makes a panic an error without the values it may hold. It must be deferred itself.
func recovered(err *error) {
	if panicked := recover(); panicked != nil {
		*err = fmt.Errorf("internal error at %s (%T): this is a bug in the adapter", panicPlace(), panicked)
	}
}

// overBudget names the budget where it is what ended the work, and a library only says that its time was over.
func overBudget(err error, budget time.Duration) error {
	if !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*fault.BudgetError)) {
		return err
	}
	return fmt.Errorf("%w: %w", &fault.BudgetError{Budget: budget}, err)
}

// panicPlace is the function and line of this program where a panic began.
func panicPlace() string {
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

// noSchemas is what the user reads when the schemas of a plan cannot be made. The broker, which has a text of its own for every other
// command, has none for this one.
const noSchemas = "There was a problem reading the schemas of the plan's parameters. Please contact your operations team."

// answer does some work, writes the outcome and returns the exit code.
func (s *session) answer(ctx context.Context, work func(context.Context) ([]byte, error)) int {
	var made []byte
	err := s.do(func() (err error) {
		made, err = work(ctx)
		return overBudget(err, s.config.Budget)
	})
	if err == nil {
		if _, err := s.Stdout.Write(made); err != nil {
			s.logger.Error("writing the result", "command", s.command, "error", err)
			return serviceadapter.ErrorExitCode
		}
		return 0
	}
	code, message := outcome(err)
	if s.command == generatePlanSchemas && message == "" && !errors.As(err, new(inputError)) {
		message = noSchemas
	}
	level := slog.LevelError
	switch {
	case code != serviceadapter.ErrorExitCode && s.command != generateManifest:
		level = slog.LevelInfo // an ordinary answer
	case !fault.OfOperator(err):
		level = slog.LevelWarn
	}
	s.logger.Log(ctx, level, "command ended without a result", "command", s.command, "exit", code, "error", err)
	if s.Failed != nil {
		s.Failed(s.secrets.Clean(err.Error()))
	}
	if message != "" {
		if _, err := io.WriteString(s.Stdout, s.secrets.Clean(message)); err != nil {
			s.logger.Error("writing the message for the user", "command", s.command, "error", err)
		}
	}
	return code
}

// outcome maps an error to the exit code and the text that the cf user reads. It is the only place that does.
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
