package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
)

// newEvaluate is `pak evaluate PATH`.
func newEvaluate(streams Streams) *cobra.Command {
	var question adapter.Question
	var request, instance string
	var explain bool
	command := &cobra.Command{
		Use:   "evaluate PATH --action ACTION --request FILE",
		Short: "Tell which variables a template would receive, and why",
		Long: `Print, as JSON, the variables that a template would receive for a request, by the code that the adapter itself uses. --explain
adds where each value came from: the layer, and the place and text of a default or computed input.

The request is the broker's JSON body; only "parameters" is needed. For bind and unbind, --instance is a YAML file that tells about
the deployed instance: outputs (instance.details), vms, dns_addresses, secrets, manifest; for update its manifest.
The operator's defaults are read from the environment, as in GSB_PROVISION_DEFAULTS.` +
			exits("0 printed", "1 the request is refused (the user's sentence is on standard error)"),
		Example: `  echo '{"parameters": {"maxclients": 500}}' | service-adapter pak evaluate redis --plan small --action provision --request - --explain`,
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains(adapter.Actions(), question.Action) {
				return usageError{fmt.Errorf("--action must be one of %s", strings.Join(adapter.Actions(), ", "))}
			}
			if request == "" {
				return usageError{errors.New("--request is required; - is standard input")}
			}
			var err, instanceErr error
			question.Pak = args[0]
			question.Request, err = readFile(streams, request)
			question.Instance, instanceErr = readFile(streams, instance)
			if err := cmp.Or(err, instanceErr); err != nil {
				return err
			}
			variables, err := adapter.Evaluate(streams.invocation(), question)
			if err != nil {
				return err
			}
			if explain {
				return writeJSON(streams.Out, variables)
			}
			values := map[string]any{}
			for name, variable := range variables {
				values[name] = variable.Value
			}
			return writeJSON(streams.Out, values)
		},
	}
	command.Flags().StringVar(&question.Service, "service", "", "the service; not needed where the pak has one")
	command.Flags().StringVar(&question.Plan, "plan", "", "the plan")
	command.Flags().StringVar(&question.Action, "action", "", strings.Join(adapter.Actions(), ", "))
	command.Flags().StringVar(&request, "request", "", "a file with the request's JSON body, or - for standard input")
	command.Flags().StringVar(&instance, "instance", "", "a YAML file about the deployed instance")
	command.Flags().BoolVar(&explain, "explain", false, "add where each value came from")
	return command
}

// readFile reads a file, or standard input for "-"; no name is an empty text.
func readFile(streams Streams, name string) (string, error) {
	switch name {
	case "":
		return "", nil
	case "-":
		text, err := io.ReadAll(streams.In)
		return string(text), err
	default:
		text, err := os.ReadFile(name) //nolint:gosec // the user names the file
		return string(text), err
	}
}
