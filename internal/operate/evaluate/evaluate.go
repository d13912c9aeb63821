// Package evaluate resolves the variables of a template for a request that an author describes, without running
// anything.
package evaluate

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"gopkg.in/yaml.v3"

	"service-adapter/adapter/config"
	"service-adapter/adapter/input"
	"service-adapter/adapter/session"
	"service-adapter/binding"
	"service-adapter/brokerpak"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/instance"
	"service-adapter/internal/odb"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
	"service-adapter/manifestgen"
)

// The actions whose variables the package returns.
const (
	actionProvision = "provision"
	actionUpdate    = "update"
	actionBind      = "bind"
	actionUnbind    = "unbind"
)

// Actions returns a new slice of the actions for which Variables resolves variables: "provision", "update", "bind" and
// "unbind", in this order.
func Actions() []string { return []string{actionProvision, actionUpdate, actionBind, actionUnbind} }

// A Request describes a request of the broker, and optionally the deployed instance, for which Variables resolves the
// variables of a template. Pak, the path of the pak, and Action, one of Actions, are required, so the zero value is
// not a valid request. All other fields may be empty. A Service of "" means the service to which an id of a service
// or a plan in Body belongs, or else the one that SERVICE_ADAPTER_SERVICE names, or else the only one of the pak. A
// Plan of "" means the plan whose id Body contains, or else a plan without properties. A nil Body is an empty one.
// Instance is a YAML text that describes the instance, not a path; "" means that no instance is described.
type Request struct {
	// Pak is a path. Service and Plan are names. Service may be "" if the pak has only one or if Body contains the id
	// of the service or the plan. A Plan of "" means the plan whose id Body contains, or else one without properties.
	Pak, Service, Plan string
	// Action is one of Actions. Variables does not check that.
	Action string
	// Body is the body of the request, with the parameters of the user under "parameters". It may be nil.
	Body map[string]any
	// Instance is a YAML description of the deployed instance: manifest (text), secrets (reference → value), vms (group
	// → addresses), dns_addresses, and outputs (instance.details). "" means no instance. The actions provision and
	// update use only manifest and secrets, and provision ignores the manifest.
	Instance string
}

// A Variable is the value of one variable that a template receives, with the origin of the value, such as "parameters"
// or "default". For a variable without a value, the origin is "unset" and Value is nil. For a default, a computed input
// and a plan input of the bind action, it also contains the position in the definition and, if the value is that of an
// expression, the text of the expression; for all others both are "". It is an element of the JSON of `pak evaluate
// --explain`.
type Variable struct {
	// Value is the value of the variable. It is nil if no layer sets one.
	Value any `json:"value"`
	// From is the layer that set the value: "operator defaults", "parameters", "plan overrides", "default", "plan
	// properties", "kept" (the value of a sticky input in the deployed instance), "computed" or "unset".
	From string `json:"from"`
	// At is the file, line and column of a default, a computed input or a plan input of the bind action. Expression is
	// the expression that was evaluated for it, and "" for a literal. Both are "" for all other values.
	At         string `json:"at,omitempty"`
	Expression string `json:"expression,omitempty"`
}

// An instanceState is the decoded YAML of Request.Instance: the manifest, secrets, VMs, DNS addresses and outputs of
// a deployed instance. Each field may be empty. Nil Outputs mean that the outputs for a binding are read from the
// manifest or evaluated; other Outputs, even empty ones, are used as setOutputs describes. The zero value means that
// no instance is described.
type instanceState struct {
	Manifest     string              `yaml:"manifest"`
	Secrets      map[string]string   `yaml:"secrets"`
	VMs          map[string][]string `yaml:"vms"`
	DNSAddresses map[string]string   `yaml:"dns_addresses"`
	Outputs      map[string]any      `yaml:"outputs"`
}

// Variables resolves the variables of the template for request.Action, as the commands of the broker's protocol do, and
// returns them by name. For unbind, these are the variables of a new binding, as for bind. It runs neither OpenTofu nor
// BOSH. process supplies the stream for warnings in the log, and the environment, in which the operator's defaults
// and the variables of expressions are looked up. Variables reads no configuration file, but the variables
// SERVICE_ADAPTER_<KEY> in the environment apply, except those for paks and secure_manifests. request.Action is not
// checked: an unknown action counts as "update".
//
// A variable for which only the template has a default is left out; any other variable without a value has the origin
// "unset", which is not an error. If the action has no template, the result contains all resolved variables.
//
// Variables returns nil and an error if the pak or a variable SERVICE_ADAPTER_<KEY> is invalid, if the pak cannot be
// read, if the service or the plan cannot be determined, if the request, the description of the instance or the
// operator's defaults are not valid, or if a variable cannot be resolved. For bind and unbind, it is also an error if
// the service has no bind section, if it requires an app and the body names none, if a check of bind.requires does
// not hold, or if an output of the instance cannot be resolved. The error wraps a *fault.UserError if the cf user
// would see its message. Its text masks the secrets of the request, of the instance and of the operator's defaults.
func Variables(process session.Process, request Request) (variables map[string]Variable, err error) {
	process.Getenv = config.Override(process.Getenv, map[string]string{
		config.Variable:                       os.DevNull, // an author has no configuration
		config.VariableOf("paks"):             string(value.MustJSON([]any{request.Pak})),
		config.VariableOf("secure_manifests"): "true",
	})
	s := session.New(process, request.Action)
	err = s.Run(func() (err error) {
		variables, err = evaluate(s, request)
		return err
	})
	return variables, s.Secrets.CleanError(err)
}

// evaluate selects the service and plan of a request and resolves the variables of its action, with the open session
// s. It returns those that the template of the action receives, by name, or all of them if the action has no
// template. The template is that of the bind section for bind and unbind, and the provision template for any other
// action. A variable for which only the template has a default is left out; any other variable without a value has
// the origin "unset", which is not an error. The action provision ignores the manifest in the description of the
// instance. evaluate registers the secrets of the request, of the described instance and of the operator's defaults
// in s for masking.
//
// It returns nil and an error if the service or the plan cannot be determined, if the request, the description of the
// instance or the operator's defaults are not valid, or if the evaluation of a variable fails. For bind and unbind,
// it is also an error if the service has no bind section, if it requires an app and the body names none, if a check
// of bind.requires does not hold, or if an output of the instance cannot be resolved. Secrets are not yet masked in
// the error.
func evaluate(s *session.Session, request Request) (map[string]Variable, error) {
	body := request.Body
	var state instanceState
	if err := yaml.Unmarshal([]byte(request.Instance), &state); err != nil {
		return nil, fmt.Errorf("reading the instance: %w", err)
	}
	s.AddSecrets(state.Secrets, nil)
	s.Secrets.AddValues(state.Outputs)
	properties := map[string]any{
		session.PlanProperty: map[string]any{"service": request.Service, "plan": request.Plan},
	}
	chosen, err := s.Catalog.Choose(session.Hints{Properties: properties, Body: body})
	if err != nil {
		return nil, err
	}
	if request.Action == actionBind || request.Action == actionUnbind {
		return evaluateBind(s, chosen, body, state)
	}
	if request.Action == actionProvision {
		state.Manifest = ""
	}
	return evaluateProvision(s, chosen, body, state)
}

// evaluateProvision resolves the variables of a provision request for the chosen service and plan, and returns those
// that the provision template receives, by name, or all of them if the service has no provision template. A variable
// for which only the template has a default is left out; any other variable without a value has the origin "unset",
// which is not an error.
//
// body is the body of the request and may be nil. Releases, stemcells and sizes are invented (see odb.Sample). Of
// state, only the manifest and the secrets are used; with a manifest the request updates that instance, and without one
// it creates an instance. The secrets in body, in the record of the manifest and in the operator's defaults are
// registered in s for masking.
//
// evaluateProvision returns nil and an error if the request, the plan, the manifest or the operator's defaults are not
// valid, or if the evaluation of a variable fails.
func evaluateProvision(
	s *session.Session, chosen *session.Selection, body map[string]any, state instanceState,
) (map[string]Variable, error) {
	sample := odb.Sample(chosen.Service, &chosen.Plan, "evaluate")
	plan, err := input.DecodePlan("service plan", string(value.MustJSON(sample.Plan)))
	if err != nil {
		return nil, err
	}
	request := &manifestgen.Request{
		Deployment: sample.Deployment, BrokerPlan: plan, Body: body, PreviousManifest: state.Manifest,
		PreviousSecrets: state.Secrets,
	}
	if err := s.CompleteManifest(request, 0); err != nil {
		return nil, err
	}
	scope, err := s.Generator(request.Pak).Variables(*request)
	if err != nil {
		return nil, err
	}
	return selectVariables(&request.Service.Provision, scope), nil
}

// evaluateBind resolves the variables of a bind request for the chosen service and plan, and returns those that the
// bind template receives, by name, or all of them if the bind section has no template. A variable for which only the
// template has a default is left out; any other variable without a value has the origin "unset".
//
// body is the body of the request and may be nil; the ids of service and plan are added unless it contains them, but
// body is not changed. state describes the deployed instance. If its outputs are not nil, they replace the outputs of
// provision.bosh, and take precedence over those of the provision template. The secrets in body, in the instance and
// in the operator's defaults are registered in s for masking.
//
// evaluateBind returns nil and an error if the request, the manifest in state or the operator's defaults are not valid,
// if the service has no bind section, if it requires an app and the body names none, if a check of bind.requires does
// not hold, or if an output of the instance or a variable cannot be resolved.
func evaluateBind(
	s *session.Session, chosen *session.Selection, body map[string]any, state instanceState,
) (map[string]Variable, error) {
	request := &binding.Request{
		BindingID: "evaluate",
		Instance: &instance.View{
			VMs: state.VMs, Manifest: []byte(state.Manifest), Secrets: state.Secrets, DNS: state.DNSAddresses,
		},
		Body: value.Merge(map[string]any{
			"service_id": chosen.ServiceID, "plan_id": cmp.Or(chosen.Plan.ID, chosen.PlanID),
		}, body),
	}
	if err := s.CompleteBind(request, 0); err != nil {
		return nil, err
	}
	if state.Outputs != nil {
		setOutputs(request, state.Outputs)
	}
	scope, err := request.Resolve()
	if err != nil {
		return nil, err
	}
	return selectVariables(&request.Service.Bind, scope), nil
}

// setOutputs sets the outputs of the instance that the bind template can read as instance.details. They replace the
// recorded outputs of provision.bosh and those that would be evaluated with the addresses of BOSH. Recorded outputs
// of the provision template stay, but outputs with the same names take precedence over them.
//
// setOutputs replaces request.Service by a copy without provision.bosh, and request.Instance.Record by a changed
// copy, or by a new record if it is nil. The previous service and record are not changed. request.Instance and
// request.Service must not be nil.
func setOutputs(request *binding.Request, outputs map[string]any) {
	stored := record.InstanceRecord{}
	if request.Instance.Record != nil {
		stored = *request.Instance.Record
	}
	stored.Outputs, _ = value.Normalise(outputs).(map[string]any)
	request.Instance.Record = &stored
	service := *request.Service
	service.Provision.Bosh = nil
	request.Service = &service
}

// selectVariables returns the variables that the template of an action receives, by name, from all those in scope.
// These are the variables that the OpenTofu files of the action declare, and the inputs of the action that the files
// use without declaring them. A declared variable with a default is left out unless scope has a value for it; any other
// variable without a value has the origin "unset". If the action has no files, all variables of scope are returned.
// Errors in the files are ignored. The map is never nil.
func selectVariables(action *brokerpak.Action, scope *vars.Scope) map[string]Variable {
	variables := map[string]Variable{}
	if len(action.Templates) == 0 {
		for name := range scope.Values {
			variables[name] = variable(scope, name)
		}
		return variables
	}
	module, _ := hclfile.Inspect(action.Templates) // pak validate reports faults of the files
	for name, declared := range module.Variables {
		if _, set := scope.Values[name]; set || !declared.HasDefault {
			variables[name] = variable(scope, name)
		}
	}
	for name := range module.Undeclared {
		if slices.Contains(action.InputNames(), name) {
			variables[name] = variable(scope, name)
		}
	}
	return variables
}

// variable returns the value of the variable called name in scope, with its origin. If scope has no value for it, the
// result has a nil Value and the origin "unset". The position and the expression of the origin are "" if it has none.
func variable(scope *vars.Scope, name string) Variable {
	item, set := scope.Values[name]
	if !set {
		return Variable{From: "unset"}
	}
	origin := scope.Origins[name]
	resolved := Variable{Value: item, From: origin.Layer, Expression: origin.Expression}
	if origin.Pos.Line > 0 {
		resolved.At = origin.Pos.String()
	}
	return resolved
}
