package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/states"
)

// newBindings returns the command group `bindings`, the commands for operators that inspect, repair and remove
// bindings.
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
// resources that provision templates created for service instances.
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

// storedGroup returns the command group for bindings or service instances, depending on kind, which contains the
// commands. It sets the completion of the commands; see completeStored. short is the group's description in one line.
// subject is the object of the first sentence of the group's help, "Inspect, repair and remove …", without the final
// period; more sentences may follow in it.
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

// plural returns the plural of a kind, "bindings" or "instances".
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

// unreadableMessage returns the message for a binding or service instance whose state or record cannot be read.
func unreadableMessage(e *lifecycle.Entry) string {
	return fmt.Sprintf("%s %s is unreadable: %s", e.Kind, e.ID, e.Error)
}

// operatorWork is the work of a command that needs the adapter's configuration, paks and state backend. args are the
// command's arguments. The operator is closed after the call. The error becomes that of the command.
type operatorWork func(ctx context.Context, operator *states.Operator, args []string) error

// withOperator sets the RunE of a command and returns the command. RunE opens an operator for the configuration, calls
// work with it and with the arguments of the command, and closes it. The options are read when the command runs, so
// that flags may set them. RunE returns the error of states.Open, for example if the configuration is invalid or no pak
// can be read, or that of work.
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
