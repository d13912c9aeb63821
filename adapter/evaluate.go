package adapter

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"gopkg.in/yaml.v3"

	"service-adapter/binding"
	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/odb"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/manifestgen"
)

// The actions that Evaluate knows.
const (
	actionProvision = "provision"
	actionUpdate    = "update"
	actionBind      = "bind"
	actionUnbind    = "unbind"
)

// Actions returns the actions that Evaluate knows.
func Actions() []string { return []string{actionProvision, actionUpdate, actionBind, actionUnbind} }

// Question asks which variables a template of a pak would receive.
type Question struct {
	// Pak is a path; Service and Plan are names. A pak's only service need not be named.
	Pak, Service, Plan string
	// Action is one of Actions.
	Action string
	// Request is the JSON body of the request, with its parameters under "parameters".
	Request string
	// Instance is YAML about the instance as it is deployed: manifest (text), secrets (reference → value), vms (group →
	// addresses), dns_addresses, outputs (instance.details). "" for none.
	Instance string
}

// Variable is one variable of an answer.
type Variable struct {
	Value any `json:"value"`
	// From is the layer: "operator defaults", "parameters", "plan overrides", "default", "plan properties", "computed" or "unset".
	From string `json:"from"`
	// At is the place of a default or computed input, Expression what was evaluated there.
	At         string `json:"at,omitempty"`
	Expression string `json:"expression,omitempty"`
}

// deployed is what a question's instance tells.
type deployed struct {
	Manifest     string              `yaml:"manifest"`
	Secrets      map[string]string   `yaml:"secrets"`
	VMs          map[string][]string `yaml:"vms"`
	DNSAddresses map[string]string   `yaml:"dns_addresses"`
	Outputs      map[string]any      `yaml:"outputs"`
}

// Evaluate answers a question by the code that the commands of the protocol use. The error is a *fault.UserError where the
// user would read it. getenv looks up the operator's defaults and what expressions read.
func Evaluate(invocation Invocation, question Question) (variables map[string]Variable, err error) {
	invocation.Getenv = over(invocation.Getenv, map[string]string{
		ConfigVariable:                 os.DevNull, // an author has no configuration
		envPrefix + "PAKS":             string(value.MustJSON([]any{question.Pak})),
		envPrefix + "SECURE_MANIFESTS": "true",
	})
	s := newSession(invocation, question.Action)
	err = s.do(func() (err error) {
		variables, err = evaluate(s, question)
		return err
	})
	return variables, err
}

func evaluate(s *session, question Question) (map[string]Variable, error) {
	var body map[string]any
	if question.Request != "" {
		if err := decodeBody("the request", question.Request, &body); err != nil {
			return nil, &fault.UserError{Message: "the request must be a JSON object", Err: err}
		}
	}
	var state deployed
	if err := yaml.Unmarshal([]byte(question.Instance), &state); err != nil {
		return nil, fmt.Errorf("reading the instance: %w", err)
	}
	property := map[string]any{"service": question.Service, "plan": question.Plan}
	chosen, err := s.choose(hints{properties: map[string]any{planProperty: property}, body: body})
	if err != nil {
		return nil, err
	}
	if question.Action == actionBind || question.Action == actionUnbind {
		return evaluateBind(s, chosen, body, state)
	}
	if question.Action == actionProvision {
		state.Manifest = ""
	}
	return evaluateProvision(s, chosen, body, state)
}

func evaluateProvision(s *session, chosen *selection, body map[string]any, state deployed) (map[string]Variable, error) {
	sample := odb.Sample(chosen.service, &chosen.plan, "evaluate")
	plan, err := decodePlan("service plan", string(value.MustJSON(sample.Plan)))
	if err != nil {
		return nil, err
	}
	request := &manifestgen.Request{
		Deployment: sample.Deployment, BrokerPlan: plan, Body: body, PreviousManifest: state.Manifest, PreviousSecrets: state.Secrets,
	}
	if err := s.completeManifest(request, 0); err != nil {
		return nil, err
	}
	scope, err := s.generator(request.Pak).Variables(*request)
	if err != nil {
		return nil, err
	}
	return answer(&request.Service.Provision, scope), nil
}

func evaluateBind(s *session, chosen *selection, body map[string]any, state deployed) (map[string]Variable, error) {
	request := &binding.Request{
		BindingID: "evaluate",
		Instance:  &instance.View{VMs: state.VMs, Manifest: []byte(state.Manifest), Secrets: state.Secrets, DNS: state.DNSAddresses},
		Body:      value.Merge(map[string]any{"service_id": chosen.serviceID, "plan_id": cmp.Or(chosen.plan.ID, chosen.planID)}, body),
	}
	if err := s.completeBind(request, 0); err != nil {
		return nil, err
	}
	if state.Outputs != nil {
		givenOutputs(request, state.Outputs)
	}
	scope, err := request.Resolve()
	if err != nil {
		return nil, err
	}
	return answer(&request.Service.Bind, scope), nil
}

// givenOutputs makes the instance's outputs those of the question instead of what the manifest and BOSH tell.
func givenOutputs(request *binding.Request, outputs map[string]any) {
	known := record.Record{}
	if request.Instance.Record != nil {
		known = *request.Instance.Record
	}
	known.Outputs, _ = value.Normalise(outputs).(map[string]any)
	request.Instance.Record = &known
	service := *request.Service
	service.Provision.Bosh = nil
	request.Service = &service
}

// answer keeps what the template would receive: the variables of the OpenTofu files, or all where there are none.
func answer(action *brokerpak.Action, scope *vars.Scope) map[string]Variable {
	variables := map[string]Variable{}
	if len(action.Templates) == 0 {
		for name := range scope.Values {
			variables[name] = variable(scope, name)
		}
		return variables
	}
	module, _ := hclfile.Inspect(action.Templates) // what is wrong with the files is for validate to say
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

func variable(scope *vars.Scope, name string) Variable {
	item, set := scope.Values[name]
	if !set {
		return Variable{From: "unset"}
	}
	origin := scope.Origins[name]
	found := Variable{Value: item, From: origin.Layer, Expression: origin.Expression}
	if origin.Pos.Line > 0 {
		found.At = origin.Pos.String()
	}
	return found
}
