package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/states"
)

// newBindings returns the command group `bindings`, the commands for operators that inspect, repair and remove
// bindings, such as `bindings list` and `bindings delete`. The commands write to streams, which also supply the
// environment.
func newBindings(streams Streams) *cobra.Command {
	return storedGroup(streams, lifecycle.Binding,
		"List, show, delete, compare, unlock, upgrade, encrypt, export and import bindings",
		`bindings. The state backend contains one workspace of OpenTofu for each binding, with its
resources, its credentials, and a record of the pak and the inputs that created them`,
		newDelete(streams),
		newDrift(streams, lifecycle.Binding),
		newExport(streams),
		newImport(streams),
		newList(streams, lifecycle.Binding),
		newRecover(streams),
		newReencrypt(streams),
		newShow(streams, lifecycle.Binding),
		newState(streams, lifecycle.Binding),
		newUnlock(streams, lifecycle.Binding),
		newUpgrade(streams, lifecycle.Binding),
	)
}

// newInstance returns the command group `instance`, the commands for operators that inspect, repair and remove the
// resources that provision templates created for service instances, such as `instance show` and `instance destroy`. The
// commands write to streams, which also supply the environment.
func newInstance(streams Streams) *cobra.Command {
	return storedGroup(streams, lifecycle.Instance,
		"List, show, destroy, apply, unlock and upgrade the OpenTofu resources of service instances",
		`the resources that provision templates created for service instances. A provision
template is the OpenTofu template of a pak that is applied when an instance is created or updated. Instances of a
service without one are not listed`,
		newApply(streams),
		newDestroy(streams),
		newDrift(streams, lifecycle.Instance),
		newList(streams, lifecycle.Instance),
		newShow(streams, lifecycle.Instance),
		newState(streams, lifecycle.Instance),
		newUnlock(streams, lifecycle.Instance),
		newUpgrade(streams, lifecycle.Instance),
	)
}

// storedGroup returns the command group `bindings` or `instance`, depending on kind, which contains the commands. It
// also changes each command: the shell completes its arguments and flags with ids and services from the state backend
// and the paks, for which streams supplies the environment. short is the group's description in one line. The help
// begins with "Inspect, repair and remove " and subject. subject has no final period and may consist of several
// sentences.
func storedGroup(
	streams Streams, kind lifecycle.Kind, short, subject string, commands ...*cobra.Command,
) *cobra.Command {
	for _, command := range commands {
		completeStored(streams, command, kind)
	}
	long := `Inspect, repair and remove %s.

The commands use the adapter's configuration and state backend: run them on the broker's VM, or set
SERVICE_ADAPTER_CONFIG. docs/operations.md lists a procedure for each fault, and docs/operations/commands.md describes
the JSON.`
	return newGroup(&cobra.Command{Use: parentCommand(kind), Short: short, Long: fmt.Sprintf(long, subject)},
		commands...)
}

// plural returns the plural of a kind in lower case: "bindings" or "instances".
func plural(kind lifecycle.Kind) string { return string(kind) + "s" }

// parentCommand returns the name of the command group for a kind, "bindings" or "instance".
func parentCommand(kind lifecycle.Kind) string {
	if kind == lifecycle.Binding {
		return "bindings"
	}
	return "instance"
}

// withArticle returns a kind with its article, "a binding" or "an instance".
func withArticle(kind lifecycle.Kind) string {
	if kind == lifecycle.Binding {
		return "a binding"
	}
	return "an instance"
}

// unreadableMessage returns the message for a binding or service instance whose state or record cannot be read, such as
// "binding b1 is unreadable: " followed by e.Error, the reason. The condition of e must be lifecycle.Unreadable,
// because the reason is empty otherwise.
func unreadableMessage(e *lifecycle.Entry) string {
	return fmt.Sprintf("%s %s is unreadable: %s", e.Kind, e.ID, e.Error)
}

// An operatorWork is the part of a command that runs with an open operator, which gives access to the adapter's
// configuration, paks and state backend. args are the command's arguments. The caller closes the operator after the
// call, so the function must not keep it. Its error becomes that of the command.
type operatorWork func(ctx context.Context, operator *states.Operator, args []string) error

// withOperator sets the RunE of a command and returns the command. RunE opens an operator for the configuration, calls
// work with it and with the arguments of the command, and closes it. streams supplies the environment, which may name
// the file of the configuration, and receives the log. RunE reads options when the command runs, so that flags may set
// them; options must not be nil.
//
// RunE returns the error of work. It returns an error without calling work if the operator cannot be opened, for
// example because the configuration is invalid, no pak can be read, the state directory of the local backend was never
// used, or a directory of the cache or the state cannot be created. The options permit some of these; see
// states.Options.
func withOperator(
	command *cobra.Command, streams Streams, options *states.Options, work operatorWork,
) *cobra.Command {
	command.RunE = func(command *cobra.Command, args []string) error {
		operator, err := states.Open(streams.Process(), command.CommandPath(), *options)
		if err != nil {
			return err
		}
		defer operator.Close()
		return work(command.Context(), operator, args)
	}
	return command
}
