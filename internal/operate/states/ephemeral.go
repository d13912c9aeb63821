package states

import (
	"maps"
	"slices"

	"service-adapter/adapter/session"
	"service-adapter/binding"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/vars"
)

// reevaluate is lifecycle.Manager.Reevaluate for bindings and instances whose deployment is not available: it evaluates
// expressions that read the configuration, the environment, the plan and the recorded inputs.
func (o *Operator) reevaluate(stored *lifecycle.StateRecord) (values map[string]any, failed map[string]error) {
	if kind, _ := stored.KindAndID(); kind == lifecycle.Instance {
		inputs, failed := o.instanceInputs(stored, nil)
		maps.DeleteFunc(inputs, func(name string, _ any) bool {
			_, recorded := stored.Inputs[name]
			return recorded
		})
		return inputs, failed
	}
	request, err := o.recordedRequest(stored)
	if err != nil {
		return nil, nil // checkEphemeral names the variables
	}
	return (&binding.Binder{Manager: o.Manager}).Reevaluate(request, stored)
}

// recordedRequest returns the request of a deletion of a stored binding whose instance is not available. It has what
// the installed paks and the configuration contain, and no Instance. See session.Session.CompleteUnbind for the errors.
func (o *Operator) recordedRequest(stored *lifecycle.StateRecord) (*binding.Request, error) {
	request := &binding.Request{BindingID: stored.BindingID, Instance: &instance.View{}, Body: stored.Request}
	err := o.session.CompleteUnbind(request)
	request.Instance = nil
	return request, err
}

// instanceInputs returns the recorded inputs of an instance together with its ephemeral inputs, which are evaluated
// again or have the supplied texts. failed contains the errors of the ephemeral inputs that have no value, by name.
func (o *Operator) instanceInputs(
	stored *lifecycle.StateRecord, supplied map[string]string,
) (inputs map[string]any, failed map[string]error) {
	if len(stored.Ephemeral) == 0 {
		return stored.Inputs, nil
	}
	constants := map[string]any{
		"request.service_id": stored.ServiceID, "request.plan_id": stored.PlanID,
		"request.instance_id": stored.InstanceID, "bosh.deployment": stored.Deployment,
	}
	options := vars.Options{Constants: constants}
	chosen, err := o.session.Catalog.Choose(session.Hints{Record: &record.InstanceRecord{Identity: record.Identity{
		Pak: stored.Pak, PakVersion: stored.PakVersion, Service: stored.Service, ServiceID: stored.ServiceID,
		Plan: stored.Plan, PlanID: stored.PlanID, Deployment: stored.Deployment,
	}}})
	var definition *vars.Scope
	if err == nil {
		constants["plan.properties"] = chosen.Plan.Properties
		options.Environment = o.session.Values().Environment(chosen.Pak)
		definition = vars.NewScope(options)
		defaults, _ := o.session.Values().ProvisionDefaults(chosen.Service) // without them, such inputs have no value
		provision := vars.Provision{
			Service: chosen.Service, Plan: chosen.Plan, Defaults: defaults, Unchecked: true,
		}
		_ = provision.Resolve(definition) // expressions may need parameters
	} else {
		o.session.Logger.Warn("the service of the instance is not known any more",
			"instance", stored.InstanceID, "error", err)
	}
	scope := vars.NewScope(options)
	scope.Set("record", stored.Inputs)
	failed = lifecycle.Evaluation{
		Scope: scope, Definition: definition, Supplied: supplied, WithoutInstance: true,
	}.Evaluate(stored)
	return scope.Values, failed
}

// ephemeralOf returns those of the values, by the name of the input, that are values of ephemeral inputs of the record,
// as texts.
func ephemeralOf(stored *lifecycle.StateRecord, values map[string]string) map[string]string {
	values = maps.Clone(values)
	maps.DeleteFunc(values, func(name string, _ string) bool {
		return !slices.ContainsFunc(stored.Ephemeral,
			func(input lifecycle.EphemeralInput) bool { return input.Name == name })
	})
	return values
}
