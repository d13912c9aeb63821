// Package cli implements the commands for pak authors and for operators, such as `service-adapter pak validate` and
// `service-adapter bindings list`. Package adapter implements the commands that the on-demand broker calls.
//
// # Exit codes
//
//   - 0: success.
//   - 1: findings, which means that the command reported an error in a pak, a request, a binding or a service instance.
//   - 2: wrong usage, which means that the command line is invalid.
//   - 3: any other error.
//
// # Streams
//
// Standard output contains only the product of a command, such as a list or a JSON document. Progress, summaries and
// errors are written to standard error.
//
// # Structure
//
// Each command has a file, or a pair of related commands has one. A function whose name begins with new returns a cobra
// command; newGroup turns a command into one that contains others. Commands that use the state backend run with a
// states.Operator (see withOperator). Commands that work on several bindings or service instances, which are called
// items, are a batch: it runs the work and reports one result for each item. A selection holds the flags that choose
// the items.
package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
)

// The exit codes of the commands.
const (
	exitClean = iota
	exitFindings
	exitUsage
	exitInternal
)

// A Streams holds the standard streams and the environment of a command, and facts about the program: its version, its
// commit, and whether the output streams are terminals. Stdout, Stderr and Getenv must be set, so the zero value is not
// usable. Stdin must be set for a command that reads standard input. With the other fields zero, the program is a
// development build and its output is not coloured.
type Streams struct {
	// Invocation holds the standard streams, the environment and the program's version, which are passed on to package
	// adapter.
	adapter.Invocation
	// Terminal reports whether Stdout is a terminal, so that output may be coloured. ErrTerminal reports the same of
	// Stderr, so that progress is shown by overwriting one line.
	Terminal, ErrTerminal bool
	// Commit is the commit of the program's sources, "" if unknown. It ends with "-dirty" if the sources had changes
	// that are in no commit.
	Commit string
}

// errFindings makes a command exit with exitFindings. The command has already reported its findings, so finish prints
// no message for this error.
var errFindings = errors.New("findings were reported")

// findingsError returns errFindings if reported is true, because the command has written findings to its output, and
// nil otherwise. errFindings makes the command exit with exitFindings without a further message.
func findingsError(reported bool) error {
	if reported {
		return errFindings
	}
	return nil
}

// Handles reports whether Run handles a command line whose first argument is argument. It returns true for the name of
// a command of this package, for help, -h, --help and --version, for the hidden commands that completion scripts call,
// and for a likely misspelling of a command, --help or --version, which Run reports as an error. It returns false for
// "" and every other argument. Package adapter handles those command lines, because the protocol of the on-demand
// broker prescribes the error for an unknown command.
func Handles(argument string) bool {
	commands := []string{
		"bindings", "certificates", "completion", "help", "--help", "instance", "metrics", "pak", "pending-changes",
		"prepare", "replay", "status", "version", "--version",
	}
	withoutSuggestion := []string{"-h", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}
	return slices.Contains(commands, argument) || slices.Contains(withoutSuggestion, argument) ||
		diag.Suggest(argument, commands) != ""
}

// Run executes a command and returns its exit code: 0 for success, 1 for findings, 2 for wrong usage and 3 for any
// other error. args are the arguments without the program's name, and are not changed; the first argument is the name
// of a command or a flag. If args is empty, Run prints the help and returns 0; args must not be nil, for which cobra
// would use os.Args. --version prints the version in one line. Run writes errors to standard error. Canceling ctx
// interrupts the command.
//
// The arguments "help NAME", with the name of a command that the on-demand broker calls, such as create-binding, print
// the help of that command, which is in package adapter; the exit code is then that of adapter.Run.
func Run(ctx context.Context, streams Streams, args []string) int {
	if len(args) == 2 && args[0] == "help" && slices.Contains(adapter.Commands(), args[1]) {
		invocation := streams.Invocation
		invocation.Args = []string{"service-adapter", args[1], "--help"}
		return adapter.Run(ctx, invocation)
	}
	root := newRoot(streams) //nolint:contextcheck // the commands receive the context from ExecuteContextC
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	return finish(streams, command, err)
}

const rootHelp = `Offer the services of brokerpaks through BOSH's on-demand broker. A brokerpak, or pak, is a directory
or a file that describes services: their plans, the BOSH manifests of their instances, and the OpenTofu templates that
create resources and credentials. The commands below are for pak authors and for operators.

The broker itself calls %s, which
read the broker's request from standard input. "service-adapter help create-binding" and the help of the other four
contain an example of a request.`

// newRoot returns the command service-adapter, which contains all commands of this package. The commands read from and
// write to streams. The flag --version of the root command prints the version in one line. The command prints neither
// errors nor its usage after an error, because finish does. Errors in flags and arguments are usageErrors.
func newRoot(streams Streams) *cobra.Command {
	root := newGroup(
		&cobra.Command{
			Use:           "service-adapter",
			Short:         "Offer the services of brokerpaks through BOSH's on-demand broker",
			Long:          fmt.Sprintf(rootHelp, strings.Join(adapter.Commands(), ", ")),
			Version:       streams.Version(),
			SilenceErrors: true,
			SilenceUsage:  true,
		},
		newBindings(streams),
		newCertificates(streams),
		newCompletion(streams),
		newInstance(streams),
		newMetrics(streams),
		newPak(streams),
		newPending(streams),
		newPrepare(streams),
		newReplay(streams),
		newStatus(streams),
		newVersion(streams),
	)
	root.SetIn(streams.Stdin)
	root.SetOut(streams.Stdout)
	root.SetErr(streams.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.Flags().Bool("version", false, "print the version of the program") // cobra's own would also be called -v
	root.SetVersionTemplate("service-adapter {{.Version}}\n")
	setArgumentChecks(root)
	return root
}

// finish writes err, the error of a command, to standard error and returns the exit code for it:
//
//   - exitClean for nil, without writing an error.
//   - exitFindings for errFindings, without writing an error, because the command has reported its findings.
//   - exitFindings for an error in a pak or in a request, which is a diag.Errors or a *fault.UserError, of a command of
//     the group `pak`. For all other commands the pak is part of the configuration.
//   - exitUsage for a usageError. The message also refers to the help of the command.
//   - exitInternal for any other error.
//
// An error may be wrapped. If it is of several of these kinds, the first one in this list counts. command, which must
// not be nil, is the last command that the command line names, also if its flags or arguments are invalid. A failed
// write is ignored.
func finish(streams Streams, command *cobra.Command, err error) int {
	var usage usageError
	var user *fault.UserError
	var findings diag.Errors
	switch {
	case err == nil:
		return exitClean
	case errors.Is(err, errFindings):
		return exitFindings
	case isPakCommand(command) && (errors.As(err, &findings) || errors.As(err, &user)):
		say(streams, err.Error())
		return exitFindings
	case errors.As(err, &usage):
		say(streams, fmt.Sprintf("service-adapter: %s\nrun '%s --help' for usage", err, command.CommandPath()))
		return exitUsage
	default:
		say(streams, "service-adapter: "+err.Error())
		return exitInternal
	}
}
