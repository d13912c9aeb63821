package instance

import (
	"cmp"
	"fmt"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/value"
)

// DeployedPlan returns the part of a plan that can be read from a parsed BOSH manifest: the instance groups with their
// names, number of instances, persistent disk type and names of networks. Other parts, such as VM types and properties,
// are not set. The manifest must consist of values as value.Normalise returns them. A number of instances that is not
// an int64, and a disk type that is not a text, count as missing. A value that the manifest does not contain is 0, ""
// or nil. The plan is never nil; that of a nil manifest has no groups.
func DeployedPlan(manifest map[string]any) *serviceadapter.Plan {
	plan := &serviceadapter.Plan{}
	for _, group := range value.Mappings(manifest["instance_groups"]) {
		instances, _ := group["instances"].(int64)
		disk, _ := group["persistent_disk_type"].(string)
		deployed := serviceadapter.InstanceGroup{
			Name: value.Text(group["name"]), Instances: int(instances), PersistentDiskType: disk,
		}
		for _, network := range value.Mappings(group["networks"]) {
			deployed.Networks = append(deployed.Networks, value.Text(network["name"]))
		}
		plan.InstanceGroups = append(plan.InstanceGroups, deployed)
	}
	return plan
}

// DeployedReleases returns the versions of the releases in a parsed BOSH manifest, by the name of the release. The
// manifest must consist of values as value.Normalise returns them. A name or a version that the manifest does not
// contain is "". Of several releases with one name, the last counts. The map is never nil; that of a nil manifest is
// empty.
func DeployedReleases(manifest map[string]any) map[string]string {
	versions := map[string]string{}
	for _, release := range value.Mappings(manifest["releases"]) {
		versions[value.Text(release["name"])] = value.Text(release["version"])
	}
	return versions
}

// ProvisionFunctions returns the functions for provision expressions, in addition to the standard ones: those of
// PlanFunctions with the prefix "plan", such as plan.instance_count; plan.has_property, which reports whether
// properties contains a name with a value other than null; and release.version, which returns the version in releases
// of the release with a name. Every parameter may be nil. release.version fails for a release that the map does not
// contain; the other functions never fail.
func ProvisionFunctions(
	plan *serviceadapter.Plan, properties map[string]any, releases map[string]string,
) map[string]expr.Function {
	functions := PlanFunctions("plan", plan)
	functions["plan.has_property"] = FunctionOf(expr.Bool,
		func(name string) (any, error) { return properties[name] != nil, nil })
	functions["release.version"] = FunctionOf(expr.String, func(name string) (any, error) {
		version, ok := releases[name]
		if !ok {
			return nil, fmt.Errorf("the deployment has no release %q", name)
		}
		return version, nil
	})
	return functions
}

// FunctionOf returns a function for expressions that has one argument, a text such as the name of an instance group,
// and calls call with it. result is the type that the function is declared to return; the value of call is not
// converted to it. An error of call becomes the error of the function.
func FunctionOf(result expr.Type, call func(text string) (any, error)) expr.Function {
	return expr.Function{
		Args: []expr.Type{expr.String}, Result: result,
		Call: func(args []any) (any, error) { return call(value.Text(args[0])) },
	}
}

// PlanFunctions returns the functions that read a plan of the broker, by name. instance_count, has_group, networks,
// vm_type, disk_type and has_disk have the name of an instance group as their argument; the last two concern its
// persistent disk. has_update has no argument and reports whether the plan has an update block. prefix and a dot
// precede each name, as in "plan.has_group". The plan may be nil. A group that the plan does not have is treated as an
// empty one, so the functions return 0, false, "" or an empty list, and never fail.
func PlanFunctions(prefix string, plan *serviceadapter.Plan) map[string]expr.Function {
	function := func(result expr.Type, of func(group *serviceadapter.InstanceGroup) any) expr.Function {
		return FunctionOf(result, func(name string) (any, error) {
			return of(cmp.Or(FindGroup(plan, name), &serviceadapter.InstanceGroup{})), nil
		})
	}
	return map[string]expr.Function{
		prefix + ".has_update": {
			Result: expr.Bool,
			Call:   func([]any) (any, error) { return plan != nil && plan.Update != nil, nil },
		},
		prefix + ".instance_count": function(expr.Int,
			func(group *serviceadapter.InstanceGroup) any { return group.Instances }),
		prefix + ".has_group": function(expr.Bool,
			func(group *serviceadapter.InstanceGroup) any { return group.Name != "" }),
		prefix + ".networks": function(expr.List,
			func(group *serviceadapter.InstanceGroup) any { return value.Texts(group.Networks) }),
		prefix + ".vm_type": function(expr.String,
			func(group *serviceadapter.InstanceGroup) any { return group.VMType }),
		prefix + ".disk_type": function(expr.String,
			func(group *serviceadapter.InstanceGroup) any { return group.PersistentDiskType }),
		prefix + ".has_disk": function(expr.Bool,
			func(group *serviceadapter.InstanceGroup) any { return group.PersistentDiskType != "" }),
	}
}

// FindGroup returns a pointer to the instance group of a plan with this name, so that the caller can change the group
// in the plan. It returns nil if the plan has no such group or is nil.
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
