package binding

import (
	"fmt"
	"maps"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/redact"
	"service-adapter/internal/vars"
)

// bindResource returns the object at the key "bind_resource" of a request's body, which names the app or route of the
// binding. It returns nil if the key is missing or its value is not an object. The body may be nil. The object is not
// copied.
func bindResource(body map[string]any) map[string]any {
	resource, _ := body["bind_resource"].(map[string]any)
	return resource
}

// scope returns a new scope in which expressions of the bind action are evaluated. It contains the constants of the
// request, the functions bosh.* and manifest.* of the instance, and the Environment, but no inputs yet. The request
// must have an Instance. details are the outputs of the instance, and may be nil. carried are generated values that are
// used again instead of new ones; nil means that all values are generated.
func (r *Request) scope(details map[string]any, carried vars.Generated) *vars.Scope {
	return vars.NewScope(vars.Options{
		Constants: r.constants(details), Functions: r.Instance.Functions(),
		Environment: r.Environment, Carried: carried,
	})
}

// PublishedNames returns the names of the variables and functions that bind expressions may use in addition to inputs,
// such as request.binding_id and bosh.host. The checks of a service definition use it without a request, so the names
// have no values.
func PublishedNames() expr.Names {
	r := &Request{Instance: &instance.View{}}
	return vars.NamesOf(r.constants(nil), r.Instance.Functions())
}

// constants returns a new map with the variables that bind expressions can read in addition to inputs, by name, such as
// "request.binding_id": those of the deployed instance, of the request, and the details, which are the outputs of the
// instance and may be nil. Variables without a value are nil or empty. If r.recorded is set, the id of the instance and
// the deployment are those of that record. The request must have an Instance.
func (r *Request) constants(details map[string]any) map[string]any {
	constants := r.Instance.Constants()
	requestContext, _ := r.Body["context"].(map[string]any)
	name, _ := requestContext["instance_name"].(string)
	maps.Copy(constants, map[string]any{
		"request.binding_id":                        r.BindingID,
		"request.instance_id":                       r.Instance.InstanceID(),
		"request.service_id":                        r.ServiceID,
		"request.plan_id":                           r.PlanID,
		"request.app_guid":                          record.OwnerOf(r.Body).App,
		"request.plan_properties":                   r.Plan.Properties,
		"request.context":                           vars.WithoutAnnotations(requestContext),
		"request.x_broker_api_originating_identity": map[string]any{}, // the broker does not pass it on
		"instance.name":                             name,
		brokerpak.InstanceDetails:                   details,
	})
	resource := bindResource(r.Body)
	for _, field := range []string{"app_guid", "space_guid", "route", "credential_client_id", "backup_agent"} {
		constants["request.bind_resource."+field] = resource[field]
	}
	if r.recorded != nil {
		// The manifest may no longer exist, and an existing one has the same values.
		constants["request.instance_id"], constants["bosh.deployment"] = r.recorded.InstanceID, r.recorded.Deployment
	}
	return constants
}

// newRecord returns the record of a binding that is to be created now: the ids, the body of the request, the inputs and
// generated values of the scope, the descriptions of the live and the ephemeral inputs, the template of the service,
// the versions of the pak and the installation, and the current time. An input that is both live and ephemeral is
// recorded as ephemeral. The record is not stored.
//
// The body in the record does not contain parameters that are ephemeral inputs, whose values must not be stored. Inputs
// and Generated are the maps of the scope and contain the values of ephemeral inputs; the record's Encode leaves these
// out. The request must have a Pak, a Service and an Instance.
func newRecord(r *Request, scope *vars.Scope, installation opentofu.Installation) *lifecycle.StateRecord {
	action := &r.Service.Bind
	ephemeral := lifecycle.EphemeralInputs(action, scope)
	isEphemeral := func(name string) bool {
		return slices.ContainsFunc(ephemeral, func(input lifecycle.EphemeralInput) bool { return input.Name == name })
	}
	live := slices.DeleteFunc(liveInputs(action, scope),
		func(input lifecycle.LiveInput) bool { return isEphemeral(input.Name) })
	created := &lifecycle.StateRecord{
		Subject: lifecycle.Subject{BindingID: r.BindingID, Instance: record.Instance{
			InstanceID: r.Instance.InstanceID(), Deployment: r.Instance.Deployment(),
			Service: r.Service.Name, ServiceID: r.ServiceID, Plan: r.Plan.Name, PlanID: r.PlanID,
		}},
		Source: lifecycle.Source{Templates: r.Service.Bind.Templates, Declared: r.Service.Bind.InputNames()},
		ResolvedInputs: lifecycle.ResolvedInputs{
			Request: withoutParameters(r.Body, func(name string) bool { return isEphemeral(action.InputOf(name)) }),
			Inputs:  scope.Values, Live: live, Generated: scope.Generated, Ephemeral: ephemeral,
		},
		Times: lifecycle.Times{CreatedAt: lifecycle.Now()},
	}
	created.SetInstallation(r.Pak, installation)
	return created
}

// withoutParameters returns a copy of a request's body in which the object at the key "parameters" lacks the entries
// for whose names omit returns true. It returns the body itself if it has no such entries, no parameters, or parameters
// that are not an object. It never changes the body, which may be nil.
func withoutParameters(body map[string]any, omit func(name string) bool) map[string]any {
	parameters, _ := body["parameters"].(map[string]any)
	kept := maps.Clone(parameters)
	maps.DeleteFunc(kept, func(name string, _ any) bool { return omit(name) })
	if len(kept) == len(parameters) {
		return body
	}
	body = maps.Clone(body)
	body["parameters"] = kept
	return body
}

// MaskEphemeral adds the values of the ephemeral inputs of the bind action, which are never stored, to secrets, so that
// they are masked also if the request fails. It adds the values that these inputs have without the user's parameters:
// from the plan, the operator's defaults and the service definition. Inputs that cannot be evaluated without the
// parameters are skipped, and errors are ignored. Values that the user sent are not added.
//
// MaskEphemeral does nothing if the request has no Service or the bind action has no ephemeral inputs. Otherwise the
// request must have an Instance, and secrets must not be nil.
func (r *Request) MaskEphemeral(secrets *redact.Secrets) {
	if r.Service == nil {
		return
	}
	names := r.Service.Bind.EphemeralInputs()
	if len(names) == 0 {
		return
	}
	details, _ := r.Instance.Details(r.Service, r.Environment) // without them, fewer inputs can be evaluated
	scope := r.definitionScope(details)
	for _, name := range names {
		secrets.Add(scope.Values[name])
	}
}

// liveInputs returns the live inputs of the action, in the order of evaluation: those whose values in the scope were
// evaluated from an expression that reads the running instance (its manifest, addresses or outputs) or another live
// input. Inputs whose values were sent or configured are not live. The result is nil if no input is live.
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

// refreshInputs evaluates the live inputs of a record again and sets them in the scope, which must contain the recorded
// inputs and read the running instance. Live inputs depend on the instance, in which admin passwords are rotated and
// addresses change. An input that cannot be evaluated keeps its recorded value; refreshInputs returns the errors of
// these inputs, and nil if there are none. The record is not changed.
func refreshInputs(r *lifecycle.StateRecord, scope *vars.Scope) []error {
	var errs []error
	for _, input := range r.Live {
		template, err := parseLive(input)
		if err == nil {
			err = scope.Assign(input.Name, input.Type, template)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("input %q cannot be evaluated: %w", input.Name, err))
		}
	}
	return errs
}

// readsDetails reports whether the expression of a live input of the record reads the outputs of the instance. A live
// input is one that depends on the running instance, so that a deletion evaluates its expression again. An expression
// that cannot be parsed reads none, so readsDetails never fails.
func readsDetails(r *lifecycle.StateRecord) bool {
	return slices.ContainsFunc(r.Live, func(input lifecycle.LiveInput) bool {
		template, err := parseLive(input)
		return err == nil && brokerpak.ReadsDetails(template)
	})
}

// parseLive parses the expression of a live input as the record of a binding contains it. It returns an error, whose
// position names the record, if the expression is not valid.
func parseLive(input lifecycle.LiveInput) (*expr.Template, error) {
	return expr.Parse(expr.Source{Text: input.Expr, Pos: diag.Pos{File: "the binding's record"}})
}
