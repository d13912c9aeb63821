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

// ResolvingNames returns the names and functions that expressions may use, besides inputs, while the variables of the
// provision action are resolved. It serves checks without a request, such as lint. The names of the previous deployment
// are included, although only checks and the update block may use them.
func ResolvingNames() expr.Names { return publishedNames(map[string]any{}) }

// RenderingNames returns the names and functions that expressions may use, besides inputs, while the manifest is
// rendered: those of ResolvingNames, and instance.details with the outputs of the provision template.
func RenderingNames() expr.Names {
	return publishedNames(map[string]any{brokerpak.InstanceDetails: map[string]any{}})
}

// publishedNames returns the names and functions that the adapter publishes to provision expressions, together with the
// names in the map extra, which constants with the same name replace. Of a value in extra, only whether it is a map
// matters.
func publishedNames(extra map[string]any) expr.Names {
	r := &resolution{inputs: &inputs{previous: &deployedInstance{}}}
	received := record.Received{Context: map[string]any{}, UAAClient: map[string]any{}}
	published := constants(record.Identity{}, received, nil, map[string]any{})
	previous, previousFunctions := previousNames(r)
	return vars.NamesOf(value.Merge(extra, published, previous), value.Merge(functions(r.inputs), previousFunctions))
}

// constants returns the constants of provision expressions: those about the request and the plan, the deployment, the
// UAA client, and the default labels. Their values are taken from the parts of the record, from globalLabels, which are
// added to the default labels, and from properties, which are those of the plan. A field of the UAA client without a
// value is null.
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

// functions returns the functions that expressions may call besides the standard library: those about the plan and the
// releases of the deployment.
func functions(in *inputs) map[string]expr.Function {
	return instance.ProvisionFunctions(&in.BrokerPlan, in.Plan.Properties, releaseVersions(in.Deployment.Releases))
}

// releaseVersions returns the versions of the releases by the names of the releases.
func releaseVersions(releases []serviceadapter.ServiceRelease) map[string]string {
	versions := map[string]string{}
	for _, release := range releases {
		versions[release.Name] = release.Version
	}
	return versions
}

// previousNames returns the constants and functions about the deployed instance. Only checks and the update block may
// use them: a value in the manifest that depends on them would differ between the broker's check for pending changes
// and the update itself. If no instance is deployed, all of them are false, 0, "", null or empty. The function
// previous.parameter fails if the variables of the deployed instance cannot be computed; the others never fail.
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

// instanceLabels returns the default labels of an instance: the global ones, and the GUIDs of its organization and
// space, which owner contains, and of the instance itself. The GUIDs take precedence. In the GUIDs, characters that a
// label must not contain are replaced; see labelText. The GUID of the instance is part of the name of its deployment.
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

// labelText returns the text with each run of characters other than letters, digits, underscores and hyphens, which a
// label must not contain, replaced by one underscore.
func labelText(text string) string { return notLabel.ReplaceAllString(text, "_") }
