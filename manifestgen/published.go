package manifestgen

import (
	"fmt"
	"regexp"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// ResolvingNames returns the names and functions that expressions may use, in addition to inputs and the standard
// functions, while the variables of the provision action are resolved: for example request.instance_id, plan.properties
// and release.version. It serves checks without a request, such as lint, which do not call the functions. The names of
// the previous deployment, such as previous.exists, are included, although only checks and the update block may use
// them.
func ResolvingNames() expr.Names { return publishedNames(map[string]any{}) }

// RenderingNames returns the names and functions that expressions may use, in addition to inputs and the standard
// functions, while the manifest is rendered: those of ResolvingNames, and instance.details, the map of the outputs of
// the provision template. It serves checks without a request, such as lint.
func RenderingNames() expr.Names {
	return publishedNames(map[string]any{brokerpak.InstanceDetails: map[string]any{}})
}

// publishedNames returns the names and functions that the adapter publishes to provision expressions, together with
// the names in the map extra, which may be nil. The result only serves to check expressions without a request, so its
// functions must not be called. If a published constant has the same name as an entry of extra, the constant applies.
// Of a value in extra, only whether it is a map[string]any matters: expressions may then read every key of it.
func publishedNames(extra map[string]any) expr.Names {
	r := &resolution{inputs: &inputs{previous: &deployedInstance{}}}
	received := record.Received{Context: map[string]any{}, UAAClient: map[string]any{}}
	published := constants(record.Identity{}, received, nil, map[string]any{})
	previous, previousFunctions := previousNames(r)
	return vars.NamesOf(value.Merge(extra, published, previous), value.Merge(functions(r.inputs), previousFunctions))
}

// constants returns the constants that provision expressions can read, by their full names: those about the request
// (request.context and others), bosh.deployment, plan.properties, the UAA client as a whole and by field
// (uaa_client.client_id and others), and request.default_labels. identity and received are the parts of the record from
// which their values are taken. globalLabels are added to the default labels and may be nil. properties are the
// properties of the plan. A field of the UAA client without a value is nil. The map is new, but its maps are not
// copied.
func constants(
	identity record.Identity, received record.Received, globalLabels map[string]string, properties map[string]any,
) map[string]any {
	constants := map[string]any{
		"request.service_id":                        identity.ServiceID,
		"request.plan_id":                           identity.PlanID,
		"request.instance_id":                       instance.ID(identity.Deployment),
		"request.context":                           received.Context,
		"request.x_broker_api_originating_identity": map[string]any{}, // the broker does not send it
		"bosh.deployment":                           identity.Deployment,
		planProperties:                              properties,
		"uaa_client":                                received.UAAClient,
		defaultLabels:                               instanceLabels(identity.Deployment, received.Owner, globalLabels),
	}
	// These are the fields of a UAA client that the broker sends.
	for _, field := range []string{
		"allowpublic", "authorities", "authorized_grant_types", "client_id", "client_secret", "name", "redirect_uri",
		"resource_ids", "scopes",
	} {
		constants[brokerpak.UAAClient+field] = received.UAAClient[field]
	}
	return constants
}

// planProperties is the name of the constant that holds all plan properties.
const planProperties = "plan.properties"

// functions returns the functions that provision expressions may call in addition to the standard library, by name:
// those about the broker's plan, such as plan.instance_count, and release.version, which returns the version of a
// release of the deployment. release.version fails for a release that the deployment does not have; the other
// functions never fail, and those about an instance group return 0, false, "" or an empty list for a group that the
// plan does not have.
func functions(in *inputs) map[string]expr.Function {
	return instance.ProvisionFunctions(&in.BrokerPlan, in.Plan.Properties, releaseVersions(in.Deployment.Releases))
}

// releaseVersions returns the versions of the releases by the names of the releases. If a name occurs several times,
// the last version is returned. The map is never nil.
func releaseVersions(releases []serviceadapter.ServiceRelease) map[string]string {
	versions := map[string]string{}
	for _, release := range releases {
		versions[release.Name] = release.Version
	}
	return versions
}

// previousNames returns the constants and functions about the deployed instance, by name. Their sources are:
//
//   - the deployed manifest: previous.exists and the function previous.instances
//   - the record in it: previous.plan, the name of the plan
//   - the previous plan in the request: previous_plan.properties and functions such as previous_plan.vm_type
//   - the variables of the deployed instance, computed again: the function previous.parameter, which returns the value
//     of any input, also a default, and null for an input without a value; a secret parameter counts as omitted
//
// If the source is missing, as on create, or lacks the value, they are false, 0, "", null or empty; previous.instances
// also returns 0 if the deployed manifest cannot be parsed. An expression that reads a key that
// previous_plan.properties lacks cannot be evaluated. The function previous.parameter fails if the variables of the
// deployed instance cannot be computed; the others never fail, nor does previousNames.
//
// Only checks and the update block may use these names: a value in the manifest that depends on them would differ
// between the broker's check for pending changes and the update itself.
func previousNames(r *resolution) (map[string]any, map[string]expr.Function) {
	names := map[string]any{
		"previous.exists": r.previous.exists(), "previous.plan": r.previous.record.Plan,
		"previous_plan.properties": value.Merge(r.PreviousProperties),
	}
	functions := instance.PlanFunctions("previous_plan", r.PreviousPlan)
	functions["previous.instances"] = instance.FunctionOf(expr.Int, func(group string) (any, error) {
		instances, _ := r.previous.group(group)["instances"].(int64)
		return instances, nil
	})
	functions["previous.parameter"] = instance.FunctionOf(expr.Any, func(name string) (any, error) {
		if !r.previous.exists() {
			return nil, nil
		}
		deployed, err := r.deployedScope()
		if err != nil {
			return nil, fmt.Errorf("computing the variables of the deployed instance: %w", err)
		}
		return deployed.Values[name], nil
	})
	return names, functions
}

// defaultLabels is the name of the constant that holds the default labels of an instance.
const defaultLabels = "request.default_labels"

// instanceLabels returns the default labels of an instance: the global ones, which may be nil, and
// pcf-organization-guid, pcf-space-guid and pcf-instance-id. owner contains the GUIDs of the organization and the
// space; the label of a GUID that is not known has the value "". deployment is the name of the instance's deployment;
// the label pcf-instance-id contains this name without the prefix "service-instance_", or the whole name if it lacks
// the prefix. These three labels replace global ones of the same name, and characters that a label must not contain
// are replaced in their values (see labelText). The map is never nil.
func instanceLabels(deployment string, owner record.Owner, global map[string]string) map[string]any {
	labels := map[string]any{}
	for name, text := range global {
		labels[name] = text
	}
	labels["pcf-organization-guid"] = labelText(owner.Organization)
	labels["pcf-space-guid"] = labelText(owner.Space)
	labels["pcf-instance-id"] = labelText(instance.ID(deployment))
	return labels
}

// notLabel matches a run of characters that a label must not contain.
var notLabel = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// labelText returns the text with each run of characters that a label must not contain replaced by one underscore:
// characters other than ASCII letters, digits, underscores and hyphens. For example, "a.b: c" becomes "a_b_c".
func labelText(text string) string { return notLabel.ReplaceAllString(text, "_") }
