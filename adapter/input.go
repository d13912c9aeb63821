package adapter

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

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
	// args are the arguments for the SDK, as forSDK makes it.
	args []string
	// stdin is the input for the SDK, as forSDK makes it.
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
	data, err := readAll(stdin)
	if err != nil {
		return nil, fmt.Errorf("reading standard input: %w", err)
	}
	if len(data) == 0 {
		return in, nil // the SDK says what is missing
	}
	if err := in.fromStdin(command, data); err != nil {
		return nil, err
	}
	params, err := in.forSDK()
	if err != nil {
		return nil, err
	}
	in.stdin, err = json.Marshal(params)
	return in, err
}

// readAll reads the whole input. The room for it is large from the start, so that a manifest is not copied while it grows; what is
// not used of it costs nothing.
func readAll(stdin io.Reader) ([]byte, error) {
	const usual, growth = 2 << 20, 4
	data := make([]byte, 0, usual)
	for {
		n, err := stdin.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case len(data) > maxInput:
			return nil, fmt.Errorf("it is larger than %d MB", maxInput>>20)
		case err == io.EOF:
			return data, nil
		case err != nil:
			return nil, err
		case len(data) == cap(data):
			data = slices.Grow(data, (growth-1)*len(data))
		}
	}
}

// fromStdin decodes the broker's JSON: an object for each command, of which only the one of this command matters. The published
// interface shows some leaves as objects where the broker sends strings; both are understood.
func (in *input) fromStdin(command string, data []byte) error {
	key := strings.ReplaceAll(command, "-", "_")
	leaves, err := leavesOf(key, data)
	if err != nil {
		return err
	}
	if published, ok := leaves["delete_parameters"]; ok && command == deleteBinding && leaves[requestParameters] == "" {
		leaves[requestParameters] = published
	}
	manifest, large := largeLeaf(command, leaves)
	if err := json.Unmarshal(value.MustJSON(map[string]any{key: leaves}), &in.params); err != nil || !large {
		return err
	}
	switch command {
	case generateManifest:
		in.params.GenerateManifest.PreviousManifest = manifest
	case createBinding:
		in.params.CreateBinding.Manifest = manifest
	case deleteBinding:
		in.params.DeleteBinding.Manifest = manifest
	case dashboardURL:
		in.params.DashboardUrl.Manifest = manifest
	}
	return nil
}

// largeLeaf takes the manifest out of the leaves, so that it is not encoded and decoded once more with them. It stays where the
// decoder, which ignores case, could find it twice.
func largeLeaf(command string, leaves map[string]string) (manifest string, found bool) {
	name := "manifest"
	if command == generateManifest {
		name = "previous_manifest"
	}
	for other := range leaves {
		if other != name && strings.EqualFold(other, name) {
			return "", false
		}
	}
	manifest, found = leaves[name]
	delete(leaves, name)
	return manifest, found && command != generatePlanSchemas
}

// leavesOf returns the leaves of one command's object.
func leavesOf(key string, data []byte) (map[string]string, error) {
	if leaves, ok := stringLeaves(key, data); ok {
		return leaves, nil // what the broker really sends; a manifest in it may be large
	}
	var commands map[string]json.RawMessage
	if err := json.Unmarshal(data, &commands); err != nil {
		return nil, fmt.Errorf("reading standard input: expected a JSON object, as the broker sends it: %w", jsonError(err))
	}
	var raw map[string]json.RawMessage
	if own, ok := commands[key]; ok {
		if err := json.Unmarshal(own, &raw); err != nil {
			return nil, fmt.Errorf("reading standard input: expected a JSON object at %q, as the broker sends it: %w", key, jsonError(err))
		}
	}
	leaves := map[string]string{}
	for name, leaf := range raw {
		leaves[name] = leafText(name, leaf)
	}
	return leaves, nil
}

const requestParameters = "request_parameters"

// textLeaves are the leaves that hold plain text; all others hold JSON.
var textLeaves = []string{ //nolint:gochecknoglobals // a constant table
	"binding_id", "instance_id", "manifest", "previous_manifest",
}

// jsonError keeps the place of a syntax error and drops the text around it, which may hold secrets.
func jsonError(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("no valid JSON at byte %d", syntax.Offset)
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		kind, _, _ := strings.Cut(wrong.Value, " ") // "number 5"
		return fmt.Errorf("found: %s", kind)
	}
	return err
}

// leafText is a string's content, and the JSON text of anything else; of a text that is null, nothing.
func leafText(name string, raw json.RawMessage) string {
	var text *string
	if err := json.Unmarshal(raw, &text); err == nil && text != nil {
		return *text
	} else if err == nil && slices.Contains(textLeaves, name) {
		return ""
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
	switch command {
	case generateManifest:
		in.params.GenerateManifest = serviceadapter.GenerateManifestJSONParams{
			ServiceDeployment: rest[0], Plan: rest[1], RequestParameters: rest[2], PreviousManifest: rest[3], PreviousPlan: rest[4],
		}
	case createBinding:
		in.params.CreateBinding = serviceadapter.CreateBindingJSONParams{
			BindingId: rest[0], BoshVms: rest[1], Manifest: rest[2], RequestParameters: rest[3],
		}
	case deleteBinding:
		in.params.DeleteBinding = serviceadapter.DeleteBindingJSONParams{
			BindingId: rest[0], BoshVms: rest[1], Manifest: rest[2], RequestParameters: rest[3],
		}
	case dashboardURL:
		in.params.DashboardUrl = serviceadapter.DashboardUrlJSONParams{InstanceId: rest[0], Plan: rest[1], Manifest: rest[2]}
	}
	return in.argumentsForSDK(command)
}

// argumentsForSDK puts what forSDK changes into the SDK's arguments.
func (in *input) argumentsForSDK(command string) error {
	params, err := in.forSDK()
	in.args = slices.Clone(in.args)
	rest := in.args[2:]
	switch command {
	case generateManifest:
		rest[2], rest[3] = params.GenerateManifest.RequestParameters, params.GenerateManifest.PreviousManifest
	case createBinding:
		rest[2], rest[3] = params.CreateBinding.Manifest, params.CreateBinding.RequestParameters
	case deleteBinding:
		rest[2], rest[3] = params.DeleteBinding.Manifest, params.DeleteBinding.RequestParameters
	case dashboardURL:
		rest[2] = params.DashboardUrl.Manifest
	}
	return err
}

// forSDK is the input without what the SDK would refuse and this program can use: manifests that its struct cannot hold, and
// request bodies with numbers that a float64 cannot hold.
func (in *input) forSDK() (serviceadapter.InputParams, error) {
	params := in.params
	params.GenerateManifest.PreviousManifest = ""
	params.CreateBinding.Manifest = ""
	params.DeleteBinding.Manifest = ""
	params.DashboardUrl.Manifest = ""
	var errs [3]error
	for i, body := range []*string{
		&params.GenerateManifest.RequestParameters, &params.CreateBinding.RequestParameters, &params.DeleteBinding.RequestParameters,
	} {
		*body, errs[i] = neutralBody(*body)
	}
	return params, errors.Join(errs[:]...)
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
