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

// reevaluate evaluates the ephemeral inputs of a stored binding or instance, whose values are never stored, again
// without its deployment: their expressions can read the configuration, the environment, the plan and the recorded
// inputs. It returns the values by the names of the inputs. failed contains, by name, the errors of the inputs that
// have no value, such as those whose expression reads the running instance; it is nil if all have one. reevaluate is
// used as Reevaluate of lifecycle.Manager.
//
// Both results are nil if the request of a binding cannot be reconstructed. stored must have an ephemeral input,
// because reevaluate otherwise deletes the entries of an instance's stored.Inputs. For a binding, at least one pak must
// be readable.
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

// recordedRequest returns the request to delete the stored binding with the record stored, whose service instance is
// not available. The request contains the id and the body of the record, and the pak, service, plan, environment and
// defaults from the configuration, as far as they can be determined. If no service can be chosen, that is only logged,
// the pak is the first readable one, and the service is nil. At least one pak must be readable. The Instance of the
// request is nil. recordedRequest registers for masking the ephemeral values that the plan, the operator's defaults and
// the definition contain.
//
// The error is that of session.Session.CompleteUnbind, which rejects invalid manifests; here it is always nil, because
// the request has no manifest.
func (o *Operator) recordedRequest(stored *lifecycle.StateRecord) (*binding.Request, error) {
	request := &binding.Request{BindingID: stored.BindingID, Instance: &instance.View{}, Body: stored.Request}
	err := o.session.CompleteUnbind(request)
	request.Instance = nil
	return request, err
}

// instanceInputs returns the recorded inputs of an instance together with its ephemeral inputs, whose values are not
// recorded. The value of an ephemeral input is the text in supplied, cast to its type, or else that of its recorded
// expression, evaluated again with the configuration and the recorded inputs, or else the constant that the installed
// definition, the plan or the operator sets. If one of these sources exists but fails, the next one is not tried.
// supplied contains texts by the name of the input, and may be nil; other names in it are ignored.
//
// failed contains, by name, the errors of the ephemeral inputs that have no value; these are absent from inputs.
// Examples are a parameter of the user, a generated value, and an expression that reads the running instance, unless
// supplied contains the value. failed is nil if all ephemeral inputs have a value.
//
// If no service fits the record, instanceInputs logs a warning and evaluates the recorded expressions without the
// configuration and the definition. The map is new, but without ephemeral inputs it is stored.Inputs itself, which the
// caller must not change.
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
		o.session.Logger.Warn("the service of the instance cannot be determined",
			"instance", stored.InstanceID, "error", err)
	}
	scope := vars.NewScope(options)
	scope.Set("record", stored.Inputs)
	failed = lifecycle.Evaluation{
		Scope: scope, Definition: definition, Supplied: supplied, WithoutInstance: true,
	}.Evaluate(stored)
	return scope.Values, failed
}

// ephemeralOf returns a copy of values, a map from names of inputs to texts, that contains only the names of ephemeral
// inputs of the record. The result is nil if values is nil, and empty if no name remains. stored must not be nil.
func ephemeralOf(stored *lifecycle.StateRecord, values map[string]string) map[string]string {
	values = maps.Clone(values)
	maps.DeleteFunc(values, func(name string, _ string) bool {
		return !slices.ContainsFunc(stored.Ephemeral,
			func(input lifecycle.EphemeralInput) bool { return input.Name == name })
	})
	return values
}
