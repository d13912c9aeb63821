package binding

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/diag"
	"service-adapter/internal/tofu"
	"service-adapter/internal/value"
)

// recordFormat is the version of the record; it changes only when an older adapter could misread a newer record.
const recordFormat = 1

// recorded is what a binding's state remembers, so that it can be deleted whatever pak is installed by then.
type recorded struct {
	Format     int        `json:"format"`
	BindingID  string     `json:"binding_id"`
	InstanceID string     `json:"instance_id"`
	Deployment string     `json:"deployment"`
	Pak        string     `json:"pak"`
	PakVersion string     `json:"pak_version"`
	Service    string     `json:"service"`
	ServiceID  string     `json:"service_id"`
	Plan       string     `json:"plan,omitempty"`
	PlanID     string     `json:"plan_id,omitempty"`
	Tofu       string     `json:"tofu_version"`
	Providers  []provider `json:"providers,omitempty"`
	// Templates are the HCL files; Declared are the inputs that may be declared for them.
	Templates map[string]string `json:"templates"`
	Declared  []string          `json:"declared,omitempty"`
	// Request is the bind request as it came.
	Request map[string]any `json:"request"`
	// Inputs are the resolved variables.
	Inputs map[string]any `json:"inputs"`
	// Live are the inputs that depend on the running instance, in the order of evaluation.
	Live []liveInput `json:"live,omitempty"`
	// Generated are the generated values: input → call → value.
	Generated map[string]map[string]any `json:"generated,omitempty"`
}

type provider struct {
	FQN     string `json:"fqn"`
	Version string `json:"version"`
}

// is tells whether a provider is this one, of whatever version. The two public registries have the same providers.
func (p provider) is(other tofu.Provider) bool {
	name := func(fqn string) string {
		host, rest, _ := strings.Cut(fqn, "/")
		if host == "registry.terraform.io" {
			return "registry.opentofu.org/" + rest
		}
		return fqn
	}
	return name(p.FQN) == name(other.FQN)
}

// liveInput is an input whose expression reads the running instance: its manifest, secrets, addresses or outputs.
type liveInput struct {
	Name string `json:"name"`
	Type string `json:"type,omitempty"`
	Expr string `json:"expr"`
}

// newRecord describes a binding before anything of it exists.
func newRecord(r *Request, scope *vars.Scope, installation tofu.Installation) *recorded {
	record := &recorded{
		Format: recordFormat, BindingID: r.BindingID, InstanceID: r.Instance.InstanceID(), Deployment: r.Instance.Deployment(),
		Pak: r.Pak.Manifest.Name, PakVersion: r.Pak.Manifest.Version,
		Service: r.Service.Name, ServiceID: r.ServiceID, Plan: r.Plan.Name, PlanID: r.PlanID,
		Tofu: installation.Version, Templates: r.Service.Bind.Templates, Declared: r.Service.Bind.InputNames(),
		Request: r.Body, Inputs: scope.Values, Live: liveInputs(&r.Service.Bind, scope), Generated: scope.Generated,
	}
	for _, p := range installation.Providers {
		record.Providers = append(record.Providers, provider{FQN: p.FQN, Version: p.Version})
	}
	return record
}

// liveInputs finds the inputs whose values came from expressions over the running instance, or over such inputs.
func liveInputs(action *brokerpak.Action, scope *vars.Scope) []liveInput {
	var live []liveInput
	names := map[string]bool{}
	add := func(name, typ, layer string, template *expr.Template) {
		if template == nil || scope.Origins[name].Layer != layer {
			return
		}
		dependent := instance.Deferred(template) || slices.ContainsFunc(template.References(), func(ref expr.Reference) bool {
			return names[ref.Name] || ref.Name == "instance.details" || strings.HasPrefix(ref.Name, "instance.details.")
		})
		if dependent {
			names[name] = true
			live = append(live, liveInput{Name: name, Type: typ, Expr: template.Text()})
		}
	}
	for _, input := range action.UserInputs {
		add(input.Name, input.Type, vars.DefaultLayer, input.DefaultExpr)
	}
	for _, input := range action.ComputedInputs {
		add(input.Name, input.Type, vars.ComputedLayer, input.Expr)
	}
	return live
}

// encode renders the record for the state. It fails where the request holds a number that no double holds: a binding whose
// record cannot be read could never be deleted.
func (r *recorded) encode() ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("recording the binding: %w", err)
	}
	return text, nil
}

// decodeRecord reads a record from the state.
func decodeRecord(data []byte) (*recorded, error) {
	if len(data) == 0 {
		return nil, errors.New("reading the binding's record: the state holds none; its resource terraform_data._binding was removed")
	}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	var r recorded
	if err := decoder.Decode(&r); err != nil {
		return nil, fmt.Errorf("reading the binding's record: %w", err)
	}
	if r.Format < 1 || r.Format > recordFormat {
		return nil, fmt.Errorf("reading the binding's record: format %d is not supported; was it made by a newer adapter?", r.Format)
	}
	for _, field := range []*map[string]any{&r.Request, &r.Inputs} {
		*field, _ = value.Normalise(*field).(map[string]any)
	}
	for input, calls := range r.Generated {
		r.Generated[input], _ = value.Normalise(calls).(map[string]any)
	}
	return &r, nil
}

// template is the binding's OpenTofu configuration.
func (r *recorded) template() tofu.Template {
	return tofu.Template{Files: r.Templates, Inputs: r.Declared}
}

// refresh evaluates the live inputs against the instance as it is now, because admin passwords rotate and addresses change.
// What cannot be evaluated any more keeps its recorded value; the reasons are returned.
func (r *recorded) refresh(scope *vars.Scope) []error {
	scope.Set(vars.Layer{Name: "record", Values: r.Inputs})
	var failed []error
	for _, input := range r.Live {
		template, err := expr.Parse(expr.Source{Text: input.Expr, Pos: diag.Pos{File: "the binding's record"}})
		if err == nil {
			err = scope.Assign(input.Name, input.Type, template)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("input %q keeps its recorded value: %w", input.Name, err))
		}
	}
	return failed
}
