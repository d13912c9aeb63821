package instance

import (
	"cmp"
	"fmt"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/value"
)

// DeployedPlan is what a deployed manifest tells of the plan that it was made for.
func DeployedPlan(manifest map[string]any) *serviceadapter.Plan {
	plan := &serviceadapter.Plan{}
	for _, group := range value.Mappings(manifest["instance_groups"]) {
		instances, _ := group["instances"].(int64)
		disk, _ := group["persistent_disk_type"].(string)
		deployed := serviceadapter.InstanceGroup{Name: value.Text(group["name"]), Instances: int(instances), PersistentDiskType: disk}
		for _, network := range value.Mappings(group["networks"]) {
			deployed.Networks = append(deployed.Networks, value.Text(network["name"]))
		}
		plan.InstanceGroups = append(plan.InstanceGroups, deployed)
	}
	return plan
}

// DeployedReleases are the versions of the releases of a deployed manifest.
func DeployedReleases(manifest map[string]any) map[string]string {
	versions := map[string]string{}
	for _, release := range value.Mappings(manifest["releases"]) {
		versions[value.Text(release["name"])] = value.Text(release["version"])
	}
	return versions
}

// ProvisionFunctions are what provision expressions can ask besides the standard library: about the plan, whose properties and
// instance groups may come from different places, and about the releases, name → version.
func ProvisionFunctions(
	plan *serviceadapter.Plan, properties map[string]any, releases map[string]string,
) map[string]expr.Function {
	functions := PlanFunctions("plan", plan)
	functions["plan.has_property"] = FunctionOf(expr.Bool, func(name string) (any, error) { return properties[name] != nil, nil })
	functions["release.version"] = FunctionOf(expr.String, func(name string) (any, error) {
		version, ok := releases[name]
		if !ok {
			return nil, fmt.Errorf("the deployment has no release %q", name)
		}
		return version, nil
	})
	return functions
}

// FunctionOf is a function of one text, such as the name of an instance group.
func FunctionOf(result expr.Type, call func(text string) (any, error)) expr.Function {
	return expr.Function{
		Args: []expr.Type{expr.String}, Result: result,
		Call: func(args []any) (any, error) { return call(value.Text(args[0])) },
	}
}

// PlanFunctions are the functions over a plan's instance groups; the plan may be nil. A group that it does not have is like an empty one.
func PlanFunctions(prefix string, plan *serviceadapter.Plan) map[string]expr.Function {
	function := func(result expr.Type, of func(group *serviceadapter.InstanceGroup) any) expr.Function {
		return FunctionOf(result, func(name string) (any, error) {
			return of(cmp.Or(FindGroup(plan, name), &serviceadapter.InstanceGroup{})), nil
		})
	}
	return map[string]expr.Function{
		prefix + ".has_update":     {Result: expr.Bool, Call: func([]any) (any, error) { return plan != nil && plan.Update != nil, nil }},
		prefix + ".instance_count": function(expr.Int, func(group *serviceadapter.InstanceGroup) any { return group.Instances }),
		prefix + ".has_group":      function(expr.Bool, func(group *serviceadapter.InstanceGroup) any { return group.Name != "" }),
		prefix + ".networks":       function(expr.List, func(group *serviceadapter.InstanceGroup) any { return value.Texts(group.Networks) }),
		prefix + ".vm_type":        function(expr.String, func(group *serviceadapter.InstanceGroup) any { return group.VMType }),
		prefix + ".disk_type":      function(expr.String, func(group *serviceadapter.InstanceGroup) any { return group.PersistentDiskType }),
		prefix + ".has_disk":       function(expr.Bool, func(group *serviceadapter.InstanceGroup) any { return group.PersistentDiskType != "" }),
	}
}

// FindGroup is an instance group of a plan, nil when it has none of that name or there is no plan.
func FindGroup(plan *serviceadapter.Plan, name string) *serviceadapter.InstanceGroup {
	if plan == nil {
		return nil
	}
	for i := range plan.InstanceGroups {
		if plan.InstanceGroups[i].Name == name {
			return &plan.InstanceGroups[i]
		}
	}
	return nil
}
