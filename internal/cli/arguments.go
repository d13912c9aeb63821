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

// A usageError is the error for an invalid command line, such as an unknown flag or a missing argument. A command that
// returns it exits with exitUsage, and the message on standard error refers to the command's help. The embedded error
// describes the mistake and must not be nil, so the zero value is not usable.
type usageError struct{ error }

// Unwrap returns the embedded error, so that errors.Is and errors.As inspect it.
func (e usageError) Unwrap() error { return e.error }

// exitStatus returns the section EXIT STATUS, which callers append to the help text of a command. Each meaning is a
// digit, a space and a text, such as "1 a state could not be saved"; an empty meaning is not allowed. They are sorted
// by the digit. "2 wrong usage" and "3 any other error", which all commands share, are added unless a meaning with
// the same digit is passed; the meaning of 0 must be passed. The result begins with an empty line and the heading,
// has one indented line for each meaning, and has no line break at its end.
func exitStatus(meanings ...string) string {
	for _, shared := range []string{"2 wrong usage", "3 any other error"} {
		if !slices.ContainsFunc(meanings, func(meaning string) bool { return meaning[0] == shared[0] }) {
			meanings = append(meanings, shared)
		}
	}
	slices.Sort(meanings)
	return "\n\nEXIT STATUS\n  " + strings.Join(meanings, "\n  ")
}

// newGroup changes parent into a command that contains the other commands, and returns parent. Without an argument,
// parent prints its help and succeeds. An argument that is not the name of one of the commands is an error. newGroup
// replaces Args, RunE, Long and Example of parent. Long becomes the previous Long, or Short if Long is "", followed by
// the exit statuses. Example becomes the last lines of the examples of the commands, one for each command.
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
// checks is a usageError. A command whose Args is nil gets a check that requires exactly one argument for each word of
// Use between the command's name and the first word that contains a lower-case letter or begins with a dash. For
// example, "export FILE [--json]" requires one argument. Without such words, arguments are an error. Use of each
// command must not be empty.
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

// exactArgs returns a check that requires exactly one argument for each name; without names, it accepts no argument.
// The names, such as "FILE", are used only in messages. The error of the check is a plain error, which
// setArgumentChecks turns into a usageError: it lists the names of the missing arguments, as in "FILE is missing", or
// quotes the first argument that is too many.
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

// checkOneOf returns nil if value is one of the allowed values of a flag, and a usageError otherwise. The error
// suggests an allowed value that is similar, if there is one, and lists the allowed values, at most nine of them. flag
// is the flag's name without the dashes, and is used only in the message. The value "" is not allowed unless it is in
// the list.
func checkOneOf(flag, value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return usageError{
		fmt.Errorf("unknown --%s %q%s; there are %s", flag, value, diag.Suggest(value, allowed), diag.Names(allowed)),
	}
}

// rejectUnknownCommand is the argument check of a command group. It returns nil if args is empty. Otherwise it returns
// an error for the first argument, even if that is the name of a command, because cobra calls it only if the argument
// is not. The error suggests the visible command of the group with a similar name, or else lists all visible commands.
// It is a plain error, which setArgumentChecks turns into a usageError.
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

// flagError returns a usageError that wraps err, the error of cobra for a flag of a command, such as an unknown flag, a
// flag without its value, or an invalid value. err must not be nil. If the flag is unknown or lacks its value, and the
// command has a flag with a similar or the same name, the message also suggests that flag.
func flagError(command *cobra.Command, err error) error {
	var unknown interface{ GetSpecifiedName() string }
	if errors.As(err, &unknown) {
		var names []string
		command.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, "--"+flag.Name) })
		err = fmt.Errorf("%w%s", err, diag.Suggest("--"+unknown.GetSpecifiedName(), names))
	}
	return usageError{err}
}
