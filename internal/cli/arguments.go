package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"service-adapter/internal/diag"
)

// A usageError is the error for an invalid command line. It makes a command exit with exitUsage, and the message that
// is written for it refers to the command's help. The embedded error describes the mistake.
type usageError struct{ error }

// Unwrap returns the embedded error, so that errors.Is and errors.As inspect it.
func (e usageError) Unwrap() error { return e.error }

// exitStatus returns the section EXIT STATUS at the end of every command's help text, including the empty line before
// the section. Each meaning must start with the digit of its exit status; they are sorted by it. The meanings of 2 and
// 3 that all commands share are added unless the caller passes its own.
func exitStatus(meanings ...string) string {
	for _, shared := range []string{"2 wrong usage", "3 any other error"} {
		if !slices.ContainsFunc(meanings, func(meaning string) bool { return meaning[0] == shared[0] }) {
			meanings = append(meanings, shared)
		}
	}
	slices.Sort(meanings)
	return "\n\nEXIT STATUS\n  " + strings.Join(meanings, "\n  ")
}

// newGroup changes parent into a command that contains the other commands, and returns it. Without an argument, parent
// prints its help and succeeds. An argument that is not the name of one of the commands is a usage error. The help of
// parent becomes its Long, or its Short if Long is "", followed by the exit statuses. Its examples are replaced by the
// last line of the examples of each command.
func newGroup(parent *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	parent.Args = rejectUnknownCommand
	parent.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	parent.AddCommand(commands...)
	var examples []string
	for _, command := range commands {
		examples = append(examples, command.Example[strings.LastIndex(command.Example, "\n")+1:])
	}
	parent.Example = strings.Join(examples, "\n")
	parent.Long = cmp.Or(parent.Long, parent.Short) +
		exitStatus("0 the command succeeded; the help of each command lists its own exit statuses")
	return parent
}

// setArgumentChecks changes Args of a command and of all commands below it, so that every error of their argument
// checks is a usage error. A command without a check, whose Args is nil, gets one: it requires exactly one argument for
// each word in capitals that follows the command's name in Use, up to the first word that is not in capitals, and no
// argument if there is no such word.
func setArgumentChecks(command *cobra.Command) {
	check := command.Args
	if check == nil {
		operands := strings.Fields(command.Use)[1:]
		isFlag := func(word string) bool { return strings.ToUpper(word) != word || word[0] < 'A' }
		if end := slices.IndexFunc(operands, isFlag); end >= 0 {
			operands = operands[:end]
		}
		check = exactArgs(operands...)
	}
	command.Args = func(command *cobra.Command, args []string) error {
		if err := check(command, args); err != nil {
			return usageError{err}
		}
		return nil
	}
	for _, child := range command.Commands() {
		setArgumentChecks(child)
	}
}

// exactArgs returns a check that requires exactly one argument for each name, and none without names. Its errors name
// the missing arguments, or the first argument that is too many.
func exactArgs(names ...string) cobra.PositionalArgs {
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

// checkOneOf returns a usage error, which lists the allowed values and suggests a similar one, if the value of a flag
// is not one of them. It returns nil if it is. flag is the flag's name without the dashes.
func checkOneOf(flag, value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return usageError{
		fmt.Errorf("unknown --%s %q%s; there are %s", flag, value, diag.Suggest(value, allowed), diag.Names(allowed)),
	}
}

// rejectUnknownCommand is the argument check of a group. It returns nil without arguments. cobra calls it only if the
// first argument is not the name of one of the group's commands, so any argument is an error. The error suggests a
// command with a similar name, or else lists all commands of the group.
func rejectUnknownCommand(group *cobra.Command, args []string) error {
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

// flagError returns the usage error for an error that cobra reports about a flag of a command. If the flag is unknown
// and the command has a flag with a similar name, the message suggests that flag.
func flagError(command *cobra.Command, err error) error {
	var unknown interface{ GetSpecifiedName() string }
	if errors.As(err, &unknown) {
		var names []string
		command.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, "--"+flag.Name) })
		err = fmt.Errorf("%w%s", err, diag.Suggest("--"+unknown.GetSpecifiedName(), names))
	}
	return usageError{err}
}
