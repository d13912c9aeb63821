package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
)

const bindingsHelp = `Look at and work on the bindings in the state backend, with the adapter's configuration: run it where the broker runs, or set
SERVICE_ADAPTER_CONFIG. docs/operations.md says what to do after which fault, and describes the JSON.`

// newBindings is `bindings`.
func newBindings(streams Streams) *cobra.Command {
	return storedCommand("bindings", "List, show, delete, unlock, upgrade, encrypt and export bindings", bindingsHelp,
		newDelete(streams),
		newExport(streams),
		newList(streams, lifecycle.Binding),
		newRecover(streams),
		newReencrypt(streams),
		newShow(streams, lifecycle.Binding),
		newUnlock(streams, lifecycle.Binding),
		newUpgrade(streams, lifecycle.Binding),
	)
}

// storedCommand groups commands whose arguments are ids, which no shell knows.
func storedCommand(name, short, long string, commands ...*cobra.Command) *cobra.Command {
	parent := &cobra.Command{
		Use:   name,
		Short: short,
		Long:  long,
		Args:  subcommand,
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	for _, command := range commands {
		command.ValidArgsFunction = cobra.NoFileCompletions
	}
	parent.AddCommand(commands...)
	return parent
}

// plural names things of a kind.
func plural(kind lifecycle.Kind) string { return string(kind) + "s" }

// parent is the command that the commands for a kind belong to.
func parent(kind lifecycle.Kind) string {
	if kind == lifecycle.Binding {
		return "bindings"
	}
	return "instance"
}

// withOperator runs work with the adapter's configuration, paks and state backend.
func withOperator(command *cobra.Command, streams Streams, options adapter.OperatorOptions, work func(*adapter.Operator) error) error {
	operator, err := adapter.OpenOperator(adapter.Invocation{
		Stderr: streams.Err, Getenv: streams.Getenv,
	}, command.CommandPath(), options)
	if err != nil {
		return err
	}
	defer operator.Close()
	return work(operator)
}

// documentFormat is the version of the JSON documents. Its first number changes when a consumer could misread a newer one.
const documentFormat = "1.0"

// writeJSON writes one document.
func writeJSON(streams Streams, document any) error {
	encoder := json.NewEncoder(streams.Out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}
