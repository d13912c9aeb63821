// Package input decodes the requests of the on-demand broker: the commands of the protocol, their arguments or
// standard input, and the JSON texts in it. Errors contain no part of the input, which may be secret.
package input

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

	"service-adapter/adapter/config"
	"service-adapter/binding"
	"service-adapter/internal/fault"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/manifestgen"
)

// The commands of the protocol.
const (
	GenerateManifest    = "generate-manifest"
	CreateBinding       = "create-binding"
	DeleteBinding       = "delete-binding"
	DashboardURL        = "dashboard-url"
	GeneratePlanSchemas = "generate-plan-schemas"
)

// Commands returns a new list of the names of the protocol's commands, sorted: create-binding, dashboard-url,
// delete-binding, generate-manifest and generate-plan-schemas.
func Commands() []string {
	return []string{CreateBinding, DashboardURL, DeleteBinding, GenerateManifest, GeneratePlanSchemas}
}

// An Error reports that the input of the broker cannot be read or decoded, and wraps the reason. Functions return it as
// a value, so errors.As needs an *Error as its target. The zero value has no reason and must not be used.
type Error struct{ error }

// Unwrap returns the reason why the input cannot be read or decoded, for errors.Is and errors.As. It returns nil for
// the zero value.
func (e Error) Unwrap() error { return e.error }

// Read returns the input of a command, parsed by the SDK. args contains the name of the program, the name of the
// command and the positional arguments; it must have the first two, and the command must be one of Commands. The input
// is read from the positional arguments, or from stdin if args contains none. For generate-plan-schemas, the SDK writes
// a usage text to the writer usage if the arguments are not valid. The result has only the fields of the command, as
// texts that the Decode functions decode; its TextOutput is true if a generate-manifest or generate-plan-schemas was
// read from positional arguments.
//
// Every error is an Error, and the result must not be used then: arguments are missing or not valid, stdin cannot be
// read, is empty, larger than config.MaxInput or not valid JSON, or it or the value at the command's key in it is
// neither a JSON object nor null. If that value is missing or null, all fields are "", which is not an error of Read.
func Read(args []string, stdin io.Reader, usage io.Writer) (serviceadapter.InputParams, error) {
	program, command, args := args[0], args[1], args[2:]
	var input []byte
	if len(args) == 0 {
		var err error
		if input, err = io.ReadAll(io.LimitReader(stdin, config.MaxInput+1)); err == nil {
			input, err = normalise(command, input)
		}
		if err != nil {
			return serviceadapter.InputParams{}, Error{fmt.Errorf("reading standard input: %w", err)}
		}
	}
	params, err := action(command, usage).ParseArgs(bytes.NewReader(input), args)
	var missing serviceadapter.MissingArgsError
	if errors.As(err, &missing) {
		//nolint:staticcheck // the SDK's text
		err = fmt.Errorf("Missing arguments for %s. Usage: %s %s %w",
			command, filepath.Base(program), command, missing)
	}
	if err != nil {
		return params, Error{fmt.Errorf("[odb-sdk] %w", err)}
	}
	return params, nil
}

// action returns the SDK's action of a command, whose method ParseArgs parses the input. For an unknown command, it
// returns that of generate-plan-schemas. The other methods of the action, such as Execute, must not be used, because
// the action has no implementation. The action of generate-plan-schemas writes its usage text to the writer usage.
func action(command string, usage io.Writer) serviceadapter.Action {
	switch command {
	case GenerateManifest:
		return serviceadapter.NewGenerateManifestAction(nil)
	case CreateBinding:
		return serviceadapter.NewCreateBindingAction(nil)
	case DeleteBinding:
		return serviceadapter.NewDeleteBindingAction(nil)
	case DashboardURL:
		return serviceadapter.NewDashboardUrlAction(nil)
	default:
		return serviceadapter.NewGeneratePlanSchemasAction(nil, usage)
	}
}

// normalise converts standard input to the JSON that the SDK reads: an object with one key, the command with
// underscores ("create_binding"), whose value is an object of JSON strings. It drops all other keys of the input; if
// the key of the command is missing or null, the inner object is empty. A field that is not a string, such as the
// objects in the published interface, becomes a string with its JSON text; see fieldText for null. The
// delete_parameters of a delete-binding become its request_parameters if these are missing or the text "".
//
// Empty input is returned as nil, which the SDK rejects. normalise returns an error, which quotes no part of the input,
// if the input is larger than config.MaxInput, is not valid JSON, or if it or the value of the command's key is neither
// a JSON object nor null.
func normalise(command string, data []byte) ([]byte, error) {
	switch {
	case len(data) == 0:
		return nil, nil // the SDK's error says that it expects the parameters on standard input
	case len(data) > config.MaxInput:
		return nil, fmt.Errorf("it is larger than %d MB", config.MaxInput>>20)
	}
	var commands, raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &commands); err != nil {
		return nil, fmt.Errorf("expected a JSON object, as the broker sends it: %w", value.WithoutContent(err))
	}
	key := strings.ReplaceAll(command, "-", "_")
	if own, ok := commands[key]; ok {
		if err := json.Unmarshal(own, &raw); err != nil {
			return nil, fmt.Errorf("expected a JSON object at %q, as the broker sends it: %w", key,
				value.WithoutContent(err))
		}
	}
	fields := map[string]string{}
	for name, field := range raw {
		fields[name] = fieldText(name, field)
	}
	const requestParameters = "request_parameters"
	if published, ok := fields["delete_parameters"]; ok && command == DeleteBinding && fields[requestParameters] == "" {
		fields[requestParameters] = published
	}
	return json.Marshal(map[string]any{key: fields})
}

// fieldText returns the text of a field of the input: the content of a JSON string, and the JSON text of any other
// value. name is the key of the field, such as "request_parameters". A null becomes "null", except in the fields that
// do not contain JSON, which are binding_id, instance_id, manifest and previous_manifest: in these it becomes "". raw
// must be valid JSON.
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

// DecodeManifest decodes the input of a generate-manifest, whose fields are JSON texts, except for the previous
// manifest. The fields of the request that the broker does not send, such as the service, are not set. A previous plan
// of null leaves PreviousPlan nil, and a body of null leaves Body nil. Previous secrets, previous configs and the UAA
// client may be ""; previous configs are only checked. size is the size of the request's body in bytes.
//
// The error lists all fields that are not valid JSON or lack required entries. Each one is an Error, or a
// fault.UserError if the body is nested too deeply for decoding. The request must not be used then.
func DecodeManifest(
	raw serviceadapter.GenerateManifestJSONParams,
) (request *manifestgen.Request, size int, err error) {
	request = &manifestgen.Request{PreviousManifest: raw.PreviousManifest}
	var planErr, previousErr error
	request.BrokerPlan, planErr = DecodePlan("service plan", raw.Plan)
	if strings.TrimSpace(raw.PreviousPlan) != "null" {
		request.PreviousPlan = new(serviceadapter.Plan)
		*request.PreviousPlan, previousErr = DecodePlan("previous service plan", raw.PreviousPlan)
	}
	return request, len(raw.RequestParameters), errors.Join(
		decode("service deployment", raw.ServiceDeployment, &request.Deployment),
		planErr,
		DecodeBody("requestParams", raw.RequestParameters, &request.Body),
		previousErr,
		decodeOptional("previous secrets", raw.PreviousSecrets, &request.PreviousSecrets),
		decodeOptional("previous configs", raw.PreviousConfigs, &serviceadapter.BOSHConfigs{}),
		decodeOptional("service instance client", raw.ServiceInstanceUAAClient, &request.UAAClient),
	)
}

// DecodeBinding decodes the input of a create-binding or delete-binding, which command names. params contains the input
// of that command, in JSON texts; the manifest is YAML and is not decoded, and the binding id is not checked. The
// fields of the request that the broker does not send, such as the service, are not set. The request's Instance has the
// manifest, addresses and secrets that the broker sent, and no record. A body of null leaves Body nil. Secrets and DNS
// addresses may be "". size is the size of the request's body in bytes.
//
// The error lists all fields that cannot be decoded. Each one is an Error, or a fault.UserError if the body is nested
// too deeply for decoding. The request must not be used then.
func DecodeBinding(
	command string, params serviceadapter.InputParams,
) (request *binding.Request, size int, err error) {
	raw := params.CreateBinding
	if command == DeleteBinding {
		raw = serviceadapter.CreateBindingJSONParams(params.DeleteBinding)
	}
	view := &instance.View{Manifest: []byte(raw.Manifest)}
	request = &binding.Request{BindingID: raw.BindingId, Instance: view}
	return request, len(raw.RequestParameters), errors.Join(
		decode("BOSH VMs", raw.BoshVms, &view.VMs),
		DecodeBody("request binding parameters", raw.RequestParameters, &request.Body),
		decodeOptional("secrets", raw.Secrets, &view.Secrets),
		decodeOptional("DNS addresses", raw.DNSAddresses, &view.DNS),
	)
}

// decode decodes a text with exactly one JSON document into target, a pointer, and then calls the Validate method of
// target if it has one. Numbers that are decoded into an interface become json.Number. what names the text in the
// error, as in "service plan". decode returns an Error, which contains no part of the text, if the text is not valid
// JSON, does not fit the target, or is not valid according to Validate. target may have been changed then.
func decode(what, text string, target any) error {
	if err := value.Decode([]byte(text), target); err != nil {
		return Error{fmt.Errorf("[odb-sdk] unmarshalling %s: %w", what, value.WithoutContent(err))}
	}
	if checked, ok := target.(interface{ Validate() error }); ok {
		if err := checked.Validate(); err != nil {
			return Error{fmt.Errorf("[odb-sdk] validating %s: %w", what, err)}
		}
	}
	return nil
}

// decodeOptional decodes a JSON text into target, a pointer, like decode, and returns its errors. If the text is "",
// because older brokers do not send the field, decodeOptional leaves target unchanged and returns nil. what names the
// text in the error.
func decodeOptional(what, text string, target any) error {
	if text == "" {
		return nil
	}
	return decode(what, text, target)
}

// DecodePlan decodes the JSON text of a plan of the broker and converts its properties to the types of the package
// value, such as int64. The properties are nil if they are missing or null in the text. what names the text in the
// error, as in "service plan". The error is an Error, which contains no part of the text: the text is not valid JSON,
// does not fit a plan, or lacks the instance groups or another required entry. The plan must not be used then.
func DecodePlan(what, text string) (plan serviceadapter.Plan, err error) {
	err = decode(what, text, &plan)
	if plan.Properties != nil {
		plan.Properties = value.NormaliseMap(plan.Properties)
	}
	return plan, err
}

// DecodeBody decodes the JSON object in text, the body of a request, and stores it in target, with values of the
// types of the package value, such as int64. For null, it leaves target unchanged and returns nil. what names the
// text in the error, as in "requestParams". If the text is neither a JSON object nor null, the error is an Error,
// which contains no part of the text. If the text cannot be decoded and is nested more than value.MaxDepth levels
// deep, the error is a fault.UserError instead, because the user can correct it. After an error target must not be
// used. DecodeBody does not reject deep nesting that the JSON decoder accepts.
func DecodeBody(what, text string, target *map[string]any) error {
	var body map[string]any
	err := decode(what, text, &body)
	if err != nil && nestingDepth(text) > value.MaxDepth {
		return fault.Userf("the parameters are nested more than %d levels deep", value.MaxDepth)
	}
	if body != nil {
		*target = value.NormaliseMap(body)
	}
	return err
}

// nestingDepth returns the maximum depth of nested lists and objects in a JSON text, up to its end or its first syntax
// error. It is 0 for a scalar and for an empty text, and 1 for an object of scalars.
func nestingDepth(text string) int {
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

// Parameters returns the parameters of the user, which are at the key "parameters" of body, the decoded body of a
// request. It returns nil and no error if there are none or they are null, and nil and a fault.UserError if they are
// not an object. The result is the map in the body, not a copy.
func Parameters(body map[string]any) (map[string]any, error) {
	switch object := body["parameters"].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return object, nil
	default:
		return nil, fault.Userf("parameters must be a JSON object, not %s", value.Kind(object))
	}
}

// CheckSize returns a *fault.UserError if size, the number of bytes of the request's body, exceeds limit, which is also
// in bytes. The error is also returned if parameters, those of the request, merged over the parameters in stored, the
// record of the instance, exceed the limit as JSON. All of these parameters are passed to OpenTofu, whose memory grows
// with them. The second check is omitted if stored is nil or parameters is nil or empty. The error names max_request_kb
// of the configuration as the source of the limit.
func CheckSize(limit, size int, stored *record.InstanceRecord, parameters map[string]any) error {
	what := ""
	if size > limit {
		what = "the parameters and the context of the request have"
	} else if stored != nil && len(parameters) > 0 {
		what = "the parameters have, together with those of earlier requests,"
		size = len(value.MustJSON(value.Merge(stored.Parameters, parameters)))
	}
	if size <= limit {
		return nil
	}
	return &fault.UserError{
		Message: fmt.Sprintf("%s %d bytes; at most %d are allowed", what, size, limit),
		Err:     errors.New("max_request_kb of the configuration sets this limit"),
	}
}
