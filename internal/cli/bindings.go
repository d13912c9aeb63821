package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
)

// newBindings is `bindings`.
func newBindings(streams Streams) *cobra.Command {
	return storedGroup(streams, lifecycle.Binding, "List, show, delete, compare, unlock, upgrade, encrypt, export and import bindings",
		"the bindings in the state backend",
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

// newInstance is `instance`.
func newInstance(streams Streams) *cobra.Command {
	return storedGroup(streams, lifecycle.Instance, "List, show, destroy, apply, unlock and upgrade what provision templates made",
		"what provision templates made for service instances",
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

// storedGroup groups commands whose arguments are ids of a kind.
func storedGroup(streams Streams, kind lifecycle.Kind, short, subject string, commands ...*cobra.Command) *cobra.Command {
	for _, command := range commands {
		completeStored(streams, command, kind)
	}
	long := `Look at and work on %s, with the adapter's configuration: run it where the broker runs,
or set SERVICE_ADAPTER_CONFIG. docs/operations.md says what to do after which fault, and describes the JSON.`
	return group(&cobra.Command{Use: parentOf(kind), Short: short, Long: fmt.Sprintf(long, subject)}, commands...)
}

// plural names things of a kind.
func plural(kind lifecycle.Kind) string { return string(kind) + "s" }

// parentOf is the command that the commands for a kind belong to.
func parentOf(kind lifecycle.Kind) string {
	if kind == lifecycle.Binding {
		return "bindings"
	}
	return "instance"
}

// withArticle is a kind with its article.
func withArticle(kind lifecycle.Kind) string {
	if kind == lifecycle.Binding {
		return "a binding"
	}
	return "an instance"
}

// unreadable says that what is stored of something cannot be read.
func unreadable(e *lifecycle.Entry) string {
	return fmt.Sprintf("%s %s is unreadable: %s", e.Kind, e.ID, e.Error)
}

// operatorWork is the work of a command with the adapter's configuration, paks and state backend.
type operatorWork func(ctx context.Context, operator *adapter.Operator, args []string) error

// withOperator gives a command its work.
func withOperator(command *cobra.Command, streams Streams, options *adapter.OperatorOptions, work operatorWork) *cobra.Command {
	command.RunE = func(command *cobra.Command, args []string) error {
		operator, err := adapter.OpenOperator(streams.Invocation, command.CommandPath(), *options)
		if err != nil {
			return err
		}
		defer operator.Close()
		return work(command.Context(), operator, args)
	}
	return command
}
