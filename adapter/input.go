package adapter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v2"

	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// maxInput bounds standard input in bytes; the broker's largest inputs, manifests, are a few megabytes.
const maxInput = 64 << 20

// readInput reads positional arguments when there are any, else standard input; both with the SDK's action of the command.
func readInput(action serviceadapter.Action, args []string, stdin io.Reader) (serviceadapter.InputParams, error) {
	command, rest := args[1], args[2:]
	var data []byte
	if len(rest) == 0 {
		var err error
		if data, err = io.ReadAll(io.LimitReader(stdin, maxInput+1)); err != nil {
			return serviceadapter.InputParams{}, fmt.Errorf("reading standard input: %w", err)
		}
		if data, err = textLeaves(command, data); err != nil {
			return serviceadapter.InputParams{}, fmt.Errorf("reading standard input: %w", err)
		}
	}
	params, err := action.ParseArgs(bytes.NewReader(data), rest)
	var missing serviceadapter.MissingArgsError
	if errors.As(err, &missing) {
		err = fmt.Errorf("Missing arguments for %s. Usage: %s %s %w", command, filepath.Base(args[0]), command, missing) //nolint:staticcheck // the SDK's text
	}
	if err != nil {
		return params, fmt.Errorf("[odb-sdk] %w", err)
	}
	return params, nil
}

// textLeaves makes the broker's JSON what the SDK reads: an object for each command, of which only the one of this command matters, and
// in it texts. The published interface shows some as objects where the broker sends texts; both are understood.
func textLeaves(command string, data []byte) ([]byte, error) {
	switch {
	case len(data) == 0:
		return nil, nil // the SDK says what is missing
	case len(data) > maxInput:
		return nil, fmt.Errorf("it is larger than %d MB", maxInput>>20)
	}
	var commands, raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &commands); err != nil {
		return nil, fmt.Errorf("expected a JSON object, as the broker sends it: %w", jsonError(err))
	}
	key := strings.ReplaceAll(command, "-", "_")
	if own, ok := commands[key]; ok {
		if err := json.Unmarshal(own, &raw); err != nil {
			return nil, fmt.Errorf("expected a JSON object at %q, as the broker sends it: %w", key, jsonError(err))
		}
	}
	leaves := map[string]string{}
	for name, leaf := range raw {
		leaves[name] = leafText(name, leaf)
	}
	const requestParameters = "request_parameters"
	if published, ok := leaves["delete_parameters"]; ok && command == deleteBinding && leaves[requestParameters] == "" {
		leaves[requestParameters] = published
	}
	return json.Marshal(map[string]any{key: leaves})
}

// plainLeaves are the leaves that hold plain text; all others hold JSON.
var plainLeaves = []string{ //nolint:gochecknoglobals // a constant table
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
	} else if err == nil && slices.Contains(plainLeaves, name) {
		return ""
	}
	return string(raw)
}

// forSDK is the input without what the SDK would refuse and this program can use: request bodies with numbers that a float64 cannot
// hold, and manifests that the SDK's struct cannot hold.
func forSDK(params serviceadapter.InputParams) (serviceadapter.InputParams, error) {
	for _, manifest := range []*string{
		&params.GenerateManifest.PreviousManifest, &params.CreateBinding.Manifest, &params.DeleteBinding.Manifest, &params.DashboardUrl.Manifest,
	} {
		*manifest = neutralManifest(*manifest)
	}
	var errs [3]error
	for i, body := range []*string{
		&params.GenerateManifest.RequestParameters, &params.CreateBinding.RequestParameters, &params.DeleteBinding.RequestParameters,
	} {
		*body, errs[i] = neutralBody(*body)
	}
	return params, errors.Join(errs[:]...)
}

// neutralManifest is what the SDK gets of a manifest: nothing of one that is read here. What is no YAML mapping is left for the SDK to
// report.
func neutralManifest(text string) string {
	var mapping map[any]any
	if yaml.Unmarshal([]byte(text), &mapping) != nil {
		return text
	}
	return ""
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
