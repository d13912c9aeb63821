package binding

import (
	"fmt"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/diag"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/opentofu"
)

// newRecord describes a binding before anything of it exists.
func newRecord(r *Request, scope *vars.Scope, installation opentofu.Installation) *lifecycle.Record {
	record := &lifecycle.Record{
		CreatedAt: lifecycle.Now(), BindingID: r.BindingID, InstanceID: r.Instance.InstanceID(), Deployment: r.Instance.Deployment(),
		Service: r.Service.Name, ServiceID: r.ServiceID, Plan: r.Plan.Name, PlanID: r.PlanID,
		Templates: r.Service.Bind.Templates, Declared: r.Service.Bind.InputNames(),
		Request: r.Body, Inputs: scope.Values, Live: liveInputs(&r.Service.Bind, scope), Generated: scope.Generated,
	}
	record.MadeBy(r.Pak, installation)
	return record
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
