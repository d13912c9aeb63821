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

// Commands returns the names of the protocol's commands, sorted, as a new list.
func Commands() []string {
	return []string{CreateBinding, DashboardURL, DeleteBinding, GenerateManifest, GeneratePlanSchemas}
}

// An Error reports that the input of the broker cannot be read or decoded. It wraps the reason.
type Error struct{ error }

// Unwrap returns the reason.
func (e Error) Unwrap() error { return e.error }

// Read reads the input of a command with the SDK's parser: positional arguments if there are any, else stdin. args
// contains the name of the program, the name of the command and the positional arguments; it must have the first two.
// The SDK writes the usage of generate-plan-schemas to usage. The result has only the fields of the command, as texts
// that the Decode functions decode. Every error is an Error.
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

// action returns the SDK's action of a command, for its parser; that of generate-plan-schemas for any unknown command.
// Its Execute method must not be used, because it drops keys of a manifest that the SDK's struct lacks, and because the
// action has no implementation. usage receives the usage of generate-plan-schemas.
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
// underscores, whose value is an object of JSON strings. It drops all other keys of the input; without the key of the
// command the inner object is empty. The published interface shows some fields as objects, where the broker sends JSON
// text in a string: such an object becomes its JSON text, and the delete_parameters of a delete-binding become its
// request_parameters if these are missing or empty.
//
// Empty input is returned as nil, which the SDK rejects. normalise returns an error, which quotes nothing of the input,
// if the input is larger than config.MaxInput, or if it or the value of the command's key is neither a JSON object nor
// null.
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

// fieldText returns the content of a JSON string, and the JSON text of any other value. A null is "" in the fields that
// do not contain JSON, which are binding_id, instance_id, manifest and previous_manifest. name is the name of the
// field.
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

// DecodeManifest decodes the input of a generate-manifest. The fields of the request that the broker does not send,
// such as the service, are not set. A previous plan of null leaves PreviousPlan nil. Previous configs are only checked:
// the request has no field for them. size is the size of the request's body in bytes. The error lists all fields that
// cannot be decoded; each one is an Error, or a fault.UserError if the body is nested too deeply. The request must not
// be used then.
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

// DecodeBinding decodes the input of a create-binding or delete-binding, which command names. The fields of the request
// that the broker does not send, such as the service, are not set. Its Instance has the manifest, addresses and secrets
// that the broker sent, and no record. size is the size of the request's body in bytes. The error lists all fields that
// cannot be decoded; each one is an Error, or a fault.UserError if the body is nested too deeply. The request must not
// be used then.
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

// decode decodes a JSON text into target, a pointer, and calls its Validate method if it has one. Numbers keep their
// notation. what names the text in the error, which is an Error and contains nothing of the text.
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

// decodeOptional decodes a field like decode, except that it leaves target unchanged and returns nil if the text is "",
// because older brokers do not send the field.
func decodeOptional(what, text string, target any) error {
	if text == "" {
		return nil
	}
	return decode(what, text, target)
}

// DecodePlan decodes the JSON text of a plan and converts its properties to the types of the package value. The
// properties of a plan without any are nil. what names the text in the error, which is an Error and contains nothing of
// the text.
func DecodePlan(what, text string) (plan serviceadapter.Plan, err error) {
	err = decode(what, text, &plan)
	if plan.Properties != nil {
		plan.Properties = value.NormaliseMap(plan.Properties)
	}
	return plan, err
}

// DecodeBody decodes the JSON body of a request into target, which stays unchanged for null. what names the text in the
// error, which is an Error and contains nothing of the text. A body that is nested too deeply is a fault.UserError
// instead, because the user can correct it. After an error target must not be used.
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
// error. It is 0 for a scalar and 1 for an object of scalars.
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

// Parameters returns the parameters of the user, which are at the key "parameters" of a request's body. It returns nil
// if there are none or they are null, and a fault.UserError if they are not an object. The map is not copied.
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

// CheckSize returns a fault.UserError if size, that of the request's body, exceeds limit, or if the JSON of the new
// parameters together with those of the instance's record exceeds it. Both size and limit are numbers of bytes. All of
// these parameters are passed to OpenTofu, whose memory grows with them. A nil record has no parameters, and nil or
// empty parameters are not compared. The error names max_request_kb as the source of the limit. A deletion does not
// call CheckSize.
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
		Err:     errors.New("max_request_kb of the configuration says so"),
	}
}
