package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/adapter/input"
	"service-adapter/internal/ctxio"
	"service-adapter/internal/fault"
	"service-adapter/internal/operate/evaluate"
)

// newEvaluate returns the command `pak evaluate PATH`, which prints the variables that a template of the pak at PATH
// would receive for a request, as a JSON object from names to values; with --explain each value also has its source.
// Secrets are printed in clear text. For unbind, the variables are those of bind. The operator's defaults and plans
// are read from environment variables such as GSB_PROVISION_DEFAULTS. The command runs neither OpenTofu nor BOSH.
//
// The command returns a usageError if --action is missing or unknown, if --request is not set, or if --request and
// --instance are both standard input. It returns another error if a file cannot be read or is invalid, if the pak is
// invalid, if the operator's defaults or plans cannot be used, if the service or the plan cannot be determined, if
// the request is rejected or a variable cannot be evaluated, or if the output cannot be written.
func newEvaluate(streams Streams) *cobra.Command {
	var question evaluate.Request
	var request, instance string
	var explain bool
	command := &cobra.Command{
		Use:   "evaluate PATH --action ACTION --request FILE",
		Short: "Show which variables a template would receive, and why",
		Long: `Print, as JSON, the variables that a template would receive for a request. The command uses the same code
as the adapter. --explain adds the source of each value: the layer, and the file, line and text of a default or computed
input.

The request is the broker's JSON body; only "parameters" is required. For bind and unbind, --instance is a YAML file
that describes the deployed instance: outputs (instance.details), vms, dns_addresses, secrets and manifest; for update
it contains the manifest. The operator's defaults are read from environment variables such as
GSB_PROVISION_DEFAULTS.` +
			exitStatus("0 the variables were written",
				"1 the request is rejected, and standard error has the message for the user; or the pak is invalid"),
		Example: `  echo '{"parameters": {"maxclients": 500}}' | ` +
			"service-adapter pak evaluate redis --plan small --action provision --request - --explain",
		RunE: func(command *cobra.Command, args []string) error {
			if !slices.Contains(evaluate.Actions(), question.Action) {
				return usageError{fmt.Errorf("--action must be one of %s", strings.Join(evaluate.Actions(), ", "))}
			}
			if request == "" {
				return usageError{errors.New("--request is required; - is standard input")}
			}
			if err := readOnce("request", request, "instance", instance); err != nil {
				return err
			}
			var err, instanceErr error
			question.Pak = args[0]
			question.Body, err = readRequest(command.Context(), streams, request)
			question.Instance, instanceErr = readFile(command.Context(), streams, instance)
			if err := cmp.Or(err, instanceErr); err != nil {
				return err
			}
			variables, err := evaluate.Variables(streams.Process(), question)
			if err != nil {
				return err
			}
			if explain {
				return writeJSON(streams.Stdout, variables)
			}
			values := map[string]any{}
			for name, variable := range variables {
				values[name] = variable.Value
			}
			return writeJSON(streams.Stdout, values)
		},
	}
	command.Flags().StringVar(&question.Service, "service", "", "the service; not required if the pak has only one")
	command.Flags().StringVar(&question.Plan, "plan", "", "the name of the plan")
	command.Flags().StringVar(&question.Action, "action", "",
		"the action whose template is meant: "+strings.Join(evaluate.Actions(), ", "))
	command.Flags().StringVar(&request, "request", "", "a file with the request's JSON body, or - for standard input")
	command.Flags().StringVar(&instance, "instance", "", "a YAML file that describes the deployed instance")
	command.Flags().BoolVar(&explain, "explain", false, "add the source of each value")
	return command
}

// readRequest returns the body of a broker's request, a JSON object such as {"parameters": {"size": 5}}, from the file
// called name, or from standard input for the name "-". For the name "", which means no request, the result is nil
// without an error. readRequest returns nil and a *fault.UserError that contains name if the content is not a JSON
// object, also if it is null, or is nested too deeply. It returns nil and another error if the file cannot be read or
// ctx ends first.
func readRequest(ctx context.Context, streams Streams, name string) (map[string]any, error) {
	text, err := readFile(ctx, streams, name)
	if err != nil || name == "" {
		return nil, err
	}
	var body map[string]any
	if err = input.DecodeBody(name, text, &body); err == nil && body == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return nil, &fault.UserError{Message: name + ": the request must be a JSON object", Err: err}
	}
	return body, nil
}

// readOnce returns a usageError if two flags both have the value "-", because standard input can be read only once, and
// nil otherwise. first and second are the names of the flags without dashes, for the message; firstFile and secondFile
// are their values, which are paths of files, "-" or "".
func readOnce(first, firstFile, second, secondFile string) error {
	if firstFile == "-" && secondFile == "-" {
		return usageError{fmt.Errorf("only one of --%s and --%s can be standard input", first, second)}
	}
	return nil
}

// readFile returns the content of the file at the path name, or the content of standard input for the name "-". For the
// name "" it returns "" without an error. It returns an error if the file or standard input cannot be read, or if ctx
// ends before everything was read.
func readFile(ctx context.Context, streams Streams, name string) (string, error) {
	switch name {
	case "":
		return "", nil
	case "-":
		text, err := ctxio.ReadAll(ctx, streams.Stdin)
		if err != nil {
			return "", fmt.Errorf("reading standard input: %w", err)
		}
		return string(text), nil
	default:
		text, err := ctxio.ReadFile(ctx, name)
		return string(text), err
	}
}
