// Package cli holds the commands for authors and operators: `service-adapter pak …` and its neighbours. It is the only
// importer of cobra; the commands of the service adapter protocol do not come here.
//
// Exit codes: 0 clean, 1 findings (something in the pak or the request is wrong and was reported), 2 wrong usage, 3 anything
// else. Standard output carries the product that was asked for; progress, summaries and errors go to standard error.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
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

// Streams are the outside of the commands.
type Streams struct {
	// Invocation is what the adapter gets of them.
	adapter.Invocation
	// Terminal tells whether Stdout is one, so that colours help; ErrTerminal whether Stderr is, so that progress can be shown in place.
	Terminal, ErrTerminal bool
	// Release is the version that the build set, "" for a development build, and Commit that of the sources, "" when it is not known.
	Release, Commit string
}

// errFindings ends a command that has reported its findings already.
var errFindings = errors.New("findings were reported")

// findings ends a command that has reported all there is to say.
func findings(found bool) error {
	if found {
		return errFindings
	}
	return nil
}

// usageError is a wrong command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Has tells whether the first argument of a command line is for Run, as what is nearly one of its commands is. Anything else is for
// the protocol, whose answer to what it does not know is fixed.
func Has(argument string) bool {
	commands := []string{"bindings", "completion", "help", "--help", "instance", "metrics", "pak", "pending-changes", "prepare", "replay", "version", "--version"}
	unnamed := []string{"-h", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}
	return slices.Contains(commands, argument) || slices.Contains(unnamed, argument) || diag.Suggest(argument, commands) != ""
}

// Run executes a command line without the program's name and returns the exit code.
func Run(ctx context.Context, streams Streams, args []string) int {
	if len(args) > 0 && args[0] == "--version" {
		args[0] = "version"
	}
	root := newRoot(streams) //nolint:contextcheck // the commands get it from ExecuteContextC
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	return finish(streams, command, err)
}

const rootHelp = `A service adapter for the on-demand broker, made from a brokerpak. These are the commands for authors of paks and for operators.

The broker itself calls %s; they read its
request from standard input.`

func newRoot(streams Streams) *cobra.Command {
	root := group(
		&cobra.Command{
			Use:           "service-adapter",
			Short:         "A service adapter for the on-demand broker, made from a brokerpak",
			Long:          fmt.Sprintf(rootHelp, strings.Join(adapter.Commands(), ", ")),
			SilenceErrors: true,
			SilenceUsage:  true,
		},
		newBindings(streams),
		newCompletion(streams),
		newInstance(streams),
		newMetrics(streams),
		newPak(streams),
		newPending(streams),
		newPrepare(streams),
		newReplay(streams),
		newVersion(streams),
	)
	root.SetIn(streams.Stdin)
	root.SetOut(streams.Stdout)
	root.SetErr(streams.Stderr)
	root.SetFlagErrorFunc(flagError)
	checkArguments(root)
	return root
}

func newPak(streams Streams) *cobra.Command {
	pak := group(
		&cobra.Command{Use: "pak", Short: "Create, check, build and test brokerpaks"},
		newBuild(streams),
		newCatalog(streams),
		newDiff(streams),
		newDocs(streams),
		newEvaluate(streams),
		newInfo(streams),
		newInit(streams),
		newSchema(streams),
		newTest(streams),
		newUnpack(streams),
		newValidate(streams),
	)
	completePaks(streams, pak.Commands())
	return pak
}

// exits is the end of a help text: what a command means by exit statuses, one a line. What all of them mean by 2 and 3 is added.
func exits(meanings ...string) string {
	for _, always := range []string{"2 wrong usage", "3 anything else"} {
		if !slices.ContainsFunc(meanings, func(meaning string) bool { return meaning[0] == always[0] }) {
			meanings = append(meanings, always)
		}
	}
	slices.Sort(meanings)
	return "\n\nEXIT STATUS\n  " + strings.Join(meanings, "\n  ")
}

// group makes a command that has others and does nothing itself.
func group(parent *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	parent.Args = subcommand
	parent.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	parent.AddCommand(commands...)
	var examples []string
	for _, command := range commands {
		examples = append(examples, command.Example[strings.LastIndex(command.Example, "\n")+1:])
	}
	parent.Example = strings.Join(examples, "\n")
	parent.Long = cmp.Or(parent.Long, parent.Short) + exits("0 this was printed; the help of each command says what it ends with")
	return parent
}

// checkArguments makes what a command says of its arguments a usage error. Without a check of its own it takes those that its usage names.
func checkArguments(command *cobra.Command) {
	check := command.Args
	if check == nil {
		operands := strings.Fields(command.Use)[1:]
		if end := slices.IndexFunc(operands, func(word string) bool { return strings.ToUpper(word) != word || word[0] < 'A' }); end >= 0 {
			operands = operands[:end]
		}
		check = exactly(operands...)
	}
	command.Args = func(command *cobra.Command, args []string) error {
		if err := check(command, args); err != nil {
			return usageError{err}
		}
		return nil
	}
	for _, below := range command.Commands() {
		checkArguments(below)
	}
}

// exactly asks for one argument for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("%s is missing", strings.Join(names[len(args):], " "))
		case len(args) > len(names):
			return fmt.Errorf("unexpected argument %q", args[len(names)])
		default:
			return nil
		}
	}
}

// oneOf refuses the value of a flag that is none of those there are.
func oneOf(flag, text string, known []string) error {
	if slices.Contains(known, text) {
		return nil
	}
	return usageError{fmt.Errorf("unknown --%s %q%s; there are %s", flag, text, diag.Suggest(text, known), diag.Names(known))}
}

// subcommand refuses what is none of the commands of a group.
func subcommand(group *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, command := range group.Commands() {
		if command.IsAvailableCommand() {
			names = append(names, command.Name())
		}
	}
	hint := string(diag.Suggest(args[0], names))
	if hint == "" {
		hint = "; there are " + strings.Join(names, ", ")
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], group.CommandPath(), hint)
}

// flagError is the error of a wrong flag.
func flagError(command *cobra.Command, err error) error {
	var unknown interface{ GetSpecifiedName() string }
	if errors.As(err, &unknown) {
		var names []string
		command.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, "--"+flag.Name) })
		err = fmt.Errorf("%w%s", err, diag.Suggest("--"+unknown.GetSpecifiedName(), names))
	}
	return usageError{err}
}

// finish reports an error and maps it to an exit code.
func finish(streams Streams, command *cobra.Command, err error) int {
	var usage usageError
	var user *fault.UserError
	var findings diag.Errors
	switch {
	case err == nil:
		return exitClean
	case errors.Is(err, errFindings):
		return exitFindings
	case ofPak(command) && (errors.As(err, &findings) || errors.As(err, &user)):
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

// ofPak tells whether a command's subject is a pak, so that what is wrong with it is a finding.
func ofPak(command *cobra.Command) bool {
	return command.HasParent() && command.Parent().Name() == "pak"
}

// withPak opens a pak with the plans that the environment adds to its services (GSB_SERVICE_<NAME>_PLANS), for some work.
func withPak(streams Streams, path string, work func(*brokerpak.Pak) error) error {
	pak, err := brokerpak.Open(path)
	if err != nil {
		return err
	}
	defer pak.Close() //nolint:errcheck // opened for reading: closing cannot lose anything
	if err := adapter.AddPlans(pak, streams.Getenv); err != nil {
		return err
	}
	return work(pak)
}

// onPak is the work of a command whose argument is a pak.
func onPak(streams Streams, work func(*brokerpak.Pak) error) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error { return withPak(streams, args[0], work) }
}
