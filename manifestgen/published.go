package manifestgen

import (
	"fmt"
	"regexp"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// Known returns what provision expressions may use besides inputs, for checks without a request. The names of the previous
// deployment are among them, although only checks and the update block may use them.
func Known() expr.Known { return known(map[string]any{}) }

// KnownOfInstance returns what the other expressions of provision.bosh may use: those names and the outputs of the provision
// template.
func KnownOfInstance() expr.Known {
	return known(map[string]any{brokerpak.InstanceDetails: map[string]any{}})
}

func known(names map[string]any) expr.Known {
	in := &input{before: &previous{}}
	published := constants(&record.Record{Context: map[string]any{}, UAAClient: map[string]any{}}, nil, map[string]any{})
	further, available := previousNames(in)
	return vars.Known(value.Merge(names, published, further), value.Merge(functions(in), available))
}

// constants are the published names of a provision call, and those of BOSH.
func constants(r *record.Record, globalLabels map[string]string, properties map[string]any) map[string]any {
	constants := map[string]any{
		"request.service_id":                        r.ServiceID,
		"request.plan_id":                           r.PlanID,
		"request.instance_id":                       instance.ID(r.Deployment),
		"request.context":                           r.Context,
		"request.x_broker_api_originating_identity": map[string]any{}, // the broker does not pass it on
		"bosh.deployment":                           r.Deployment,
		planProperties:                              properties,
		"uaa_client":                                r.UAAClient,
		defaultLabels:                               labelsByDefault(r, globalLabels),
	}
	// The fields of a UAA client as the broker sends it.
	for _, field := range []string{
		"allowpublic", "authorities", "authorized_grant_types", "client_id", "client_secret", "name", "redirect_uri",
		"resource_ids", "scopes",
	} {
		constants[brokerpak.UAAClient+field] = r.UAAClient[field]
	}
	return constants
}

// planProperties is the name of all properties of the plan.
const planProperties = "plan.properties"

// functions are what expressions may ask besides the standard library.
func functions(in *input) map[string]expr.Function {
	return instance.ProvisionFunctions(&in.BrokerPlan, in.Plan.Properties, releaseVersions(in.Deployment.Releases))
}

// releaseVersions are the versions of releases by name.
func releaseVersions(releases []serviceadapter.ServiceRelease) map[string]string {
	versions := map[string]string{}
	for _, release := range releases {
		versions[release.Name] = release.Version
	}
	return versions
}

// previousNames are the names that only rules and the update block may use: in a value they would differ between the broker's
// check for pending changes and the update itself.
func previousNames(in *input) (map[string]any, map[string]expr.Function) {
	names := map[string]any{
		"previous.exists": in.before.exists(), "previous.plan": in.before.record.Plan,
		"previous_plan.properties": value.Merge(in.PreviousProperties),
	}
	available := instance.PlanFunctions("previous_plan", in.PreviousPlan)
	available["previous.instances"] = instance.FunctionOf(expr.Int, func(group string) (any, error) {
		instances, _ := in.before.group(group)["instances"].(int64)
		return instances, nil
	})
	available["previous.parameter"] = instance.FunctionOf(expr.Any, func(name string) (any, error) {
		if !in.before.exists() {
			return nil, nil
		}
		deployed, err := in.deployed()
		if err != nil {
			return nil, fmt.Errorf("computing the variables of the deployed instance: %w", err)
		}
		return deployed.Values[name], nil
	})
	return names, available
}

// defaultLabels is the name of the published labels of an instance.
const defaultLabels = "request.default_labels"

// labelsByDefault are the published labels of an instance.
func labelsByDefault(r *record.Record, global map[string]string) map[string]any {
	labels := map[string]any{}
	for name, text := range global {
		labels[name] = text
	}
	labels["pcf-organization-guid"] = labelText(r.Organization)
	labels["pcf-space-guid"] = labelText(r.Space)
	labels["pcf-instance-id"] = labelText(instance.ID(r.Deployment))
	return labels
}

// notLabel is a run of characters that a label cannot hold.
var notLabel = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// labelText replaces what a label cannot hold: each run of other characters by one _.
func labelText(text string) string { return notLabel.ReplaceAllString(text, "_") }
