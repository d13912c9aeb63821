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

	"service-adapter/binding"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/fault"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/manifestgen"
)

// maxInput bounds standard input in bytes; the broker's largest inputs, manifests, are a few megabytes.
const maxInput = 64 << 20

// inputError says that the broker's input cannot be used.
type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

// readInput reads positional arguments when there are any, else standard input, with the SDK's parser of the command. The error is an
// inputError.
func (i *Invocation) readInput(command string) (serviceadapter.InputParams, error) {
	var data []byte
	args := i.Args[2:]
	if len(args) == 0 {
		var err error
		if data, err = io.ReadAll(io.LimitReader(i.Stdin, maxInput+1)); err == nil {
			data, err = textFields(command, data)
		}
		if err != nil {
			return serviceadapter.InputParams{}, inputError{fmt.Errorf("reading standard input: %w", err)}
		}
	}
	params, err := i.action(command).ParseArgs(bytes.NewReader(data), args)
	var missing serviceadapter.MissingArgsError
	if errors.As(err, &missing) {
		err = fmt.Errorf("Missing arguments for %s. Usage: %s %s %w", command, filepath.Base(i.Args[0]), command, missing) //nolint:staticcheck // the SDK's text
	}
	if err != nil {
		return params, inputError{fmt.Errorf("[odb-sdk] %w", err)}
	}
	return params, nil
}

// action is the SDK's action of a command. It only parses: its Execute loses keys of a manifest that the SDK's struct does not have.
func (i *Invocation) action(command string) serviceadapter.Action {
	switch command {
	case generateManifest:
		return serviceadapter.NewGenerateManifestAction(nil)
	case createBinding:
		return serviceadapter.NewCreateBindingAction(nil)
	case deleteBinding:
		return serviceadapter.NewDeleteBindingAction(nil)
	case dashboardURL:
		return serviceadapter.NewDashboardUrlAction(nil)
	default:
		return serviceadapter.NewGeneratePlanSchemasAction(nil, i.Stderr) // the usage
	}
}

// textFields makes the broker's JSON what the SDK reads: an object for each command, of which only the one of this command matters, and
// in it texts. The published interface shows some as objects where the broker sends texts; both are understood.
func textFields(command string, data []byte) ([]byte, error) {
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
	fields := map[string]string{}
	for name, field := range raw {
		fields[name] = fieldText(name, field)
	}
	const requestParameters = "request_parameters"
	if published, ok := fields["delete_parameters"]; ok && command == deleteBinding && fields[requestParameters] == "" {
		fields[requestParameters] = published
	}
	return json.Marshal(map[string]any{key: fields})
}

// fieldText is a string's content, and the JSON text of anything else; null is an empty text where the field holds no JSON.
func fieldText(name string, raw json.RawMessage) string {
	var text *string
	if json.Unmarshal(raw, &text) != nil {
		return string(raw)
	}
	switch {
	case text != nil:
		return *text
	case slices.Contains([]string{"binding_id", "instance_id", "manifest", "previous_manifest"}, name):
		return ""
	default:
		return string(raw)
	}
}

// jsonError keeps the place of an error and drops the text around it, which may hold secrets.
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

// decodeManifestInput reads what a generate-manifest has; size is that of the body in bytes.
func decodeManifestInput(raw serviceadapter.GenerateManifestJSONParams) (request *manifestgen.Request, size int, err error) {
	request = &manifestgen.Request{PreviousManifest: raw.PreviousManifest}
	var planErr, previousErr error
	request.BrokerPlan, planErr = decodePlan("service plan", raw.Plan)
	if strings.TrimSpace(raw.PreviousPlan) != "null" {
		request.PreviousPlan = new(serviceadapter.Plan)
		*request.PreviousPlan, previousErr = decodePlan("previous service plan", raw.PreviousPlan)
	}
	return request, len(raw.RequestParameters), errors.Join(
		decode("service deployment", raw.ServiceDeployment, &request.Deployment),
		planErr,
		decodeBody("requestParams", raw.RequestParameters, &request.Body),
		previousErr,
		decodeOptional("previous secrets", raw.PreviousSecrets, &request.PreviousSecrets),
		decodeOptional("previous configs", raw.PreviousConfigs, &serviceadapter.BOSHConfigs{}),
		decodeOptional("service instance client", raw.ServiceInstanceUAAClient, &request.UAAClient),
	)
}

// decodeBindInput reads what a create-binding or a delete-binding has; size is that of the body in bytes.
func decodeBindInput(command string, params serviceadapter.InputParams) (request *binding.Request, size int, err error) {
	raw := params.CreateBinding
	if command == deleteBinding {
		raw = serviceadapter.CreateBindingJSONParams(params.DeleteBinding)
	}
	view := &instance.View{Manifest: []byte(raw.Manifest)}
	request = &binding.Request{BindingID: raw.BindingId, Instance: view}
	return request, len(raw.RequestParameters), errors.Join(
		decode("BOSH VMs", raw.BoshVms, &view.VMs),
		decodeBody("request binding parameters", raw.RequestParameters, &request.Body),
		decodeOptional("secrets", raw.Secrets, &view.Secrets),
		decodeOptional("DNS addresses", raw.DNSAddresses, &view.DNS),
	)
}

// decode reads a JSON text into a type of the SDK, which knows whether the content is valid. Numbers stay as they are written.
func decode(what, text string, target any) error {
	if err := value.Decode([]byte(text), target); err != nil {
		return inputError{fmt.Errorf("[odb-sdk] unmarshalling %s: %w", what, jsonError(err))}
	}
	if checked, ok := target.(interface{ Validate() error }); ok {
		if err := checked.Validate(); err != nil {
			return inputError{fmt.Errorf("[odb-sdk] validating %s: %w", what, err)}
		}
	}
	return nil
}

// decodeOptional is decode for what an older broker does not send.
func decodeOptional(what, text string, target any) error {
	if text == "" {
		return nil
	}
	return decode(what, text, target)
}

// decodePlan reads a plan, whose properties become values.
func decodePlan(what, text string) (plan serviceadapter.Plan, err error) {
	err = decode(what, text, &plan)
	if plan.Properties != nil {
		plan.Properties = normalised(plan.Properties)
	}
	return plan, err
}

// decodeBody reads the body of a request. What is too deep for the decoder is so for every parameter, and the user's to mend.
func decodeBody(what, text string, target *map[string]any) error {
	var body map[string]any
	err := decode(what, text, &body)
	if err != nil && nesting(text) > value.MaxDepth {
		return fault.Userf("the parameters are nested more than %d levels deep", value.MaxDepth)
	}
	if body != nil {
		*target = normalised(body)
	}
	return err
}

// nesting is how deep the lists and objects at the beginning of a JSON text are in one another.
func nesting(text string) int {
	decoder, depth, deepest := json.NewDecoder(strings.NewReader(text)), 0, 0
	for {
		switch token, err := decoder.Token(); {
		case err != nil:
			return deepest
		case token == json.Delim('{'), token == json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case token == json.Delim('}'), token == json.Delim(']'):
			depth--
		}
	}
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

// checkSize refuses a request body that is larger than the configuration allows, and new parameters that are too large together with those
// which the instance has already: all of them go to OpenTofu, whose memory grows with them. A deletion is never refused.
func (c *Config) checkSize(size int, known *record.Record, parameters map[string]any) error {
	what := ""
	if size > c.maxRequest() {
		what = "the parameters and the context of the request have"
	} else if known != nil && len(parameters) > 0 {
		what, size = "the parameters have, together with those of earlier requests,", len(value.MustJSON(value.Merge(known.Parameters, parameters)))
	}
	if size <= c.maxRequest() {
		return nil
	}
	return &fault.UserError{
		Message: fmt.Sprintf("%s %d bytes; at most %d are allowed", what, size, c.maxRequest()),
		Err:     errors.New("max_request_kb of the configuration says so"),
	}
}
