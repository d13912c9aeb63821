package adapter

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// maxInput bounds standard input in bytes; the broker's largest inputs, manifests, are a few megabytes.
const maxInput = 64 << 20

// positional is how many arguments a command takes when the broker runs with use_stdin off.
var positional = map[string]int{ //nolint:gochecknoglobals // a constant table
	generateManifest: 5, createBinding: 4, deleteBinding: 4, dashboardURL: 3,
}

// input is what one invocation got: the SDK's parameters with every leaf as the text that the broker sent.
type input struct {
	params serviceadapter.InputParams
	// text tells that the product of generate-manifest is the plain manifest.
	text bool
	// args are the arguments for the SDK, with the manifests taken out.
	args []string
	// stdin is the input for the SDK, with the manifests taken out.
	stdin []byte
}

// readInput reads positional arguments when there are any, else standard input.
func readInput(args []string, stdin io.Reader) (*input, error) {
	command, rest := args[1], args[2:]
	in := &input{args: args}
	if len(rest) > 0 {
		in.text = command == generateManifest
		return in, in.fromArguments(command, rest)
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("reading standard input: %w", err)
	}
	if len(data) > maxInput {
		return nil, fmt.Errorf("reading standard input: it is larger than %d MB", maxInput>>20)
	}
	if len(data) == 0 {
		return in, nil // the SDK says what is missing
	}
	if err := in.fromStdin(data); err != nil {
		return nil, err
	}
	in.stdin, err = json.Marshal(in.withoutManifests())
	return in, err
}

// fromStdin decodes the broker's JSON. The published interface shows some leaves as objects where the broker sends strings;
// both are understood.
func (in *input) fromStdin(data []byte) error {
	var raw map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return fmt.Errorf("reading standard input: expected a JSON object of objects, as the broker sends it: %w", jsonError(err))
	}
	leaves := map[string]map[string]string{}
	for command, parameters := range raw {
		leaves[command] = map[string]string{}
		for name, leaf := range parameters {
			leaves[command][name] = leafText(leaf)
		}
	}
	if unbind := leaves["delete_binding"]; unbind["request_parameters"] == "" {
		if published, ok := unbind["delete_parameters"]; ok {
			unbind["request_parameters"] = published
		}
	}
	return json.Unmarshal(value.MustJSON(leaves), &in.params)
}

// jsonError keeps the place of a syntax error and drops the text around it, which may hold secrets.
func jsonError(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("%w (byte %d)", err, syntax.Offset)
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("found %s at %q", wrong.Value, wrong.Field)
	}
	return err
}

// leafText is a string's content, "" for null, and the JSON text of anything else.
func leafText(raw json.RawMessage) string {
	var text *string
	if err := json.Unmarshal(raw, &text); err == nil {
		if text == nil {
			return ""
		}
		return *text
	}
	return string(raw)
}

func (in *input) fromArguments(command string, rest []string) error {
	if command == generatePlanSchemas {
		flags := flag.NewFlagSet(command, flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		plan := flags.String("plan-json", "", "")
		if flags.Parse(rest) == nil {
			in.params.GeneratePlanSchemas.Plan = *plan
		}
		return nil // the SDK reports wrong flags
	}
	if len(rest) < positional[command] {
		return nil // the SDK says which are missing
	}
	cleared := append([]string(nil), in.args...)
	switch command {
	case generateManifest:
		in.params.GenerateManifest = serviceadapter.GenerateManifestJSONParams{
			ServiceDeployment: rest[0], Plan: rest[1], RequestParameters: rest[2], PreviousManifest: rest[3], PreviousPlan: rest[4],
		}
		cleared[2+3] = ""
	case createBinding:
		in.params.CreateBinding = serviceadapter.CreateBindingJSONParams{
			BindingId: rest[0], BoshVms: rest[1], Manifest: rest[2], RequestParameters: rest[3],
		}
		cleared[2+2] = ""
	case deleteBinding:
		in.params.DeleteBinding = serviceadapter.DeleteBindingJSONParams{
			BindingId: rest[0], BoshVms: rest[1], Manifest: rest[2], RequestParameters: rest[3],
		}
		cleared[2+2] = ""
	case dashboardURL:
		in.params.DashboardUrl = serviceadapter.DashboardUrlJSONParams{InstanceId: rest[0], Plan: rest[1], Manifest: rest[2]}
		cleared[2+2] = ""
	}
	in.args = cleared
	return nil
}

// withoutManifests clears the manifests: the SDK would decode them with its struct and refuse what that cannot hold.
func (in *input) withoutManifests() serviceadapter.InputParams {
	params := in.params
	params.GenerateManifest.PreviousManifest = ""
	params.CreateBinding.Manifest = ""
	params.DeleteBinding.Manifest = ""
	params.DashboardUrl.Manifest = ""
	return params
}

// object decodes a leaf that must be a JSON object; "" and null give nil.
func object(what, text string) (map[string]any, error) {
	if text == "" {
		return nil, nil
	}
	decoded, err := value.DecodeObject([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, jsonError(err))
	}
	return decoded, nil
}

// parameters returns the user's parameters of a request body.
func parameters(body map[string]any) (map[string]any, error) {
	switch found := body["parameters"].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return found, nil
	default:
		return nil, fault.Userf("parameters must be a JSON object, not %s", value.Kind(found))
	}
}

// texts decodes a leaf that is an object of strings, such as secrets; nil when the broker sent none.
func texts(what, text string) (map[string]string, error) {
	decoded, err := object(what, text)
	if err != nil || decoded == nil {
		return nil, err
	}
	result := make(map[string]string, len(decoded))
	for name, item := range decoded {
		result[name] = value.Text(item)
	}
	return result, nil
}
