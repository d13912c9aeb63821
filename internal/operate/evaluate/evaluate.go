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

// Actions returns the actions whose variables the package returns: "provision", "update", "bind" and "unbind".
func Actions() []string { return []string{actionProvision, actionUpdate, actionBind, actionUnbind} }

// A Request describes a request of the broker, for which Variables resolves the variables of a template. Pak and Action
// are required.
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

// A Variable is the value of one variable that a template receives, with the origin of the value.
type Variable struct {
	// Value is the value of the variable. It is nil if no layer sets one.
	Value any `json:"value"`
	// From is the layer that set the value: "operator defaults", "parameters", "plan overrides", "default", "plan
	// properties", "computed" or "unset".
	From string `json:"from"`
	// At is the file, line and column of a default or computed input, and Expression is the expression there. Both are
	// "" for the other layers.
	At         string `json:"at,omitempty"`
	Expression string `json:"expression,omitempty"`
}

// An instanceState is the decoded Request.Instance. Each field may be empty.
type instanceState struct {
	Manifest     string              `yaml:"manifest"`
	Secrets      map[string]string   `yaml:"secrets"`
	VMs          map[string][]string `yaml:"vms"`
	DNSAddresses map[string]string   `yaml:"dns_addresses"`
	Outputs      map[string]any      `yaml:"outputs"`
}

// Variables resolves the variables of a template as the commands of the protocol do, and returns them by name. It runs
// nothing and changes nothing. The Getenv of the process looks up the operator's defaults and the variables that
// expressions read; no configuration file is read. It returns an error if the pak, the request or the instance is not
// valid, or if a variable cannot be resolved. The error wraps a *fault.UserError if the cf user would see its message.
// Its text masks the secrets of the request, of the instance and of the operator's defaults.
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

// evaluate chooses the service and plan of a request and resolves the variables of its action, with an open session. It
// registers the secrets of the request and of the described instance for masking. See Variables for the errors, in
// whose texts secrets are not masked yet.
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

// evaluateProvision resolves the variables of the provision action for the chosen service and plan, with the deployment
// of odb.Sample. body is the body of the request. A state with a manifest means that the request updates the instance.
// It returns an error if the request is not valid or a variable cannot be resolved.
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

// evaluateBind resolves the variables of the bind action for the chosen service and plan. body is the body of the
// request, to which the ids of service and plan are added unless it has them. state describes the deployed instance;
// outputs in it replace those of the instance. It returns an error if the request is not valid or a variable cannot be
// resolved.
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

// setOutputs makes outputs those of the instance, which are otherwise read from the manifest and from BOSH. It replaces
// the record and the service of the request by copies, and does not change the originals.
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

// selectVariables returns the variables that the template receives: those that its OpenTofu files declare, and the
// inputs of the action that the files use without declaring them. A declared variable with a default is left out unless
// the scope has a value for it. If the action has no files, all variables of the scope are returned.
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

// variable returns the value of the variable name of the scope and its origin. A variable without a value has the
// origin "unset". At and Expression are "" if the origin has no position or expression.
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
