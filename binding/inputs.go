package binding

import (
	"fmt"
	"maps"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/diag"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/record"
)

// bindResource is the object of that name in a request.
func bindResource(body map[string]any) map[string]any {
	resource, _ := body["bind_resource"].(map[string]any)
	return resource
}

// scope has the published names of a bind call, and those of BOSH.
func (r *Request) scope(details map[string]any, carried vars.Generated) *vars.Scope {
	return vars.NewScope(vars.Options{
		Constants: r.constants(details), Functions: r.Instance.Functions(), Environment: r.Environment, Carried: carried,
	})
}

// Known returns what bind expressions may use besides inputs, for checks without a request.
func Known() expr.Known {
	r := &Request{Instance: &instance.View{}}
	return vars.Known(r.constants(nil), r.Instance.Functions())
}

func (r *Request) constants(details map[string]any) map[string]any {
	constants := r.Instance.Constants()
	sent, _ := r.Body["context"].(map[string]any)
	name, _ := sent["instance_name"].(string)
	maps.Copy(constants, map[string]any{
		"request.binding_id":                        r.BindingID,
		"request.instance_id":                       r.Instance.InstanceID(),
		"request.service_id":                        r.ServiceID,
		"request.plan_id":                           r.PlanID,
		"request.app_guid":                          record.OwnerOf(r.Body).App,
		"request.plan_properties":                   r.Plan.Properties,
		"request.context":                           vars.WithoutAnnotations(sent),
		"request.x_broker_api_originating_identity": map[string]any{}, // the broker does not pass it on
		"instance.name":                             name,
		brokerpak.InstanceDetails:                   details,
	})
	resource := bindResource(r.Body)
	for _, field := range []string{"app_guid", "space_guid", "route", "credential_client_id", "backup_agent"} {
		constants["request.bind_resource."+field] = resource[field]
	}
	if r.past != nil {
		// The manifest may be gone, and cannot say otherwise.
		constants["request.instance_id"], constants["bosh.deployment"] = r.past.InstanceID, r.past.Deployment
	}
	return constants
}

// newRecord describes a binding before anything of it exists.
func newRecord(r *Request, scope *vars.Scope, installation opentofu.Installation) *lifecycle.Record {
	made := &lifecycle.Record{
		CreatedAt: lifecycle.Now(), BindingID: r.BindingID,
		Instance: record.Instance{
			InstanceID: r.Instance.InstanceID(), Deployment: r.Instance.Deployment(),
			Service: r.Service.Name, ServiceID: r.ServiceID, Plan: r.Plan.Name, PlanID: r.PlanID,
		},
		Templates: r.Service.Bind.Templates, Declared: r.Service.Bind.InputNames(),
		Request: r.Body, Inputs: scope.Values, Live: liveInputs(&r.Service.Bind, scope), Generated: scope.Generated,
	}
	made.MadeBy(r.Pak, installation)
	return made
}

// liveInputs finds the inputs whose values came from expressions over the running instance, or over such inputs.
func liveInputs(action *brokerpak.Action, scope *vars.Scope) []lifecycle.LiveInput {
	var live []lifecycle.LiveInput
	names := map[string]bool{}
	add := func(name, typ, layer string, template *expr.Template) {
		if template == nil || scope.Origins[name].Layer != layer {
			return
		}
		dependent := instance.Deferred(template) || brokerpak.ReadsDetails(template) ||
			slices.ContainsFunc(template.References(), func(ref expr.Reference) bool { return names[ref.Name] })
		if dependent {
			names[name] = true
			live = append(live, lifecycle.LiveInput{Name: name, Type: typ, Expr: template.Text()})
		}
	}
	for _, input := range action.UserInputs {
		add(input.Name, input.Type, vars.DefaultLayer, input.DefaultExpr)
	}
	for _, input := range action.ComputedInputs {
		add(input.Name, input.Type, vars.ComputedLayer, input.DefaultExpr)
	}
	return live
}

// refresh evaluates the live inputs against the instance as it is now, because admin passwords rotate and addresses change.
// What cannot be evaluated any more keeps its recorded value; the reasons are returned.
func refresh(r *lifecycle.Record, scope *vars.Scope) []error {
	scope.Set("record", r.Inputs)
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
