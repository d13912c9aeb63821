package binding

import (
	"maps"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/lifecycle"
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
		"request.app_guid":                          lifecycle.OwnerOf(r.Body).App,
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
