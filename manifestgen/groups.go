package manifestgen

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/instance"
	"service-adapter/internal/value"
)

// instanceGroups returns the instance groups of the manifest: those in template, the list of the manifest template, in
// its order, completed in place from the plan's groups, then the group of this adapter's errands, if the plan has one.
// Lifecycle errands that the plan places on a group become jobs of that group, and each job that names no release gets
// the one that provides it. alias is the stemcell of groups that name none. Optional groups that the plan does not have
// are omitted. A template that is not a list counts as empty. The result without an error is never nil; the result with
// an error must not be used.
//
// The error is or contains a *fault.UserError if the plan and the service do not have the same groups (see
// checkGroups), if the plan's group for this adapter's errands is missing, ambiguous or unused, or if no release or
// several provide a job. It is another error if the plan places an errand on a missing group, if an errand of the plan
// is neither a group nor a job, or if an entry of the template or a job is not a mapping. An unknown group or errand
// that the previous plan had as well is only logged as a warning.
func instanceGroups(d *decisions, template any, alias string) ([]any, error) {
	list, _ := template.([]any)
	templates := byName(template)
	serviceGroups := value.Keys(templates)
	errands, err := errandGroup(d.inputs, serviceGroups)
	if err != nil {
		return nil, err
	}
	if errands != nil {
		serviceGroups = append(serviceGroups, errands.Name)
	}
	if err := checkGroups(d, serviceGroups); err != nil {
		return nil, err
	}
	all := []any{} // not nil: a deployment without groups has an empty list
	for _, item := range list {
		entry, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: every entry of instance_groups must be a mapping", d.bosh.Manifest.Pos.File)
		}
		group := instance.FindGroup(d.plan, value.Text(entry["name"]))
		if group == nil {
			continue // optional, otherwise checkGroups returns an error
		}
		fillGroup(entry, group, alias, d.previous)
		all = append(all, entry)
	}
	if all, err = addErrandGroup(d.inputs, all, errands, alias); err != nil {
		return nil, err
	}
	err = errors.Join(
		colocateErrands(d.inputs, all, templates), fillJobs("instance group", all, d.Deployment.Releases))
	return all, err
}

// checkGroups returns a *fault.UserError for the first instance group that the plan has and the service does not, or
// that the service requires and the plan lacks. It returns nil if there is none. serviceGroups are the names of the
// groups in the manifest template and of the group for errands. The plan need not have a group that the definition
// lists as optional. The service need not have an optional group, nor one that only the definition adds to the plan.
//
// A group of the plan that the service does not have only causes a logged warning if an instance is deployed and the
// previous plan in the request has the group as well, because an error would block every update of that instance.
func checkGroups(d *decisions, serviceGroups []string) error {
	groupName := func(group serviceadapter.InstanceGroup) string { return group.Name }
	planned := value.Convert(d.plan.InstanceGroups, groupName)
	ofBroker := value.Convert(d.BrokerPlan.InstanceGroups, groupName) // without those that only the definition sizes
	for _, name := range planned {
		switch {
		case slices.Contains(serviceGroups, name):
		case slices.Contains(d.bosh.OptionalInstanceGroups, name), !slices.Contains(ofBroker, name):
			// An ops file adds the group to the manifests of other instances.
		case d.previous.exists() && instance.FindGroup(d.PreviousPlan, name) != nil:
			d.Logger.Warn("ignoring an instance group that is not a group of the service, "+
				"because the previous plan has it as well", "group", name)
		default:
			return fault.Operatorf("the plan has an instance group %q that is not a group of the service%s; "+
				"the plan has: %s; the service has: %s",
				name, diag.Suggest(name, serviceGroups), diag.Names(ofBroker), diag.Names(serviceGroups))
		}
	}
	for _, name := range serviceGroups {
		if !slices.Contains(planned, name) && !slices.Contains(d.bosh.OptionalInstanceGroups, name) {
			return fault.Operatorf("the plan lacks the instance group %q, which the service requires; "+
				"the plan has: %s; the service has: %s",
				name, diag.Names(ofBroker), diag.Names(serviceGroups))
		}
	}
	return nil
}

// fillGroup sets, in place, the values of group, the plan's instance group, in entry, the group of the manifest:
// instances, VM type, AZs, networks and VM extensions, and, if the plan has them, disk, lifecycle and migrated_from.
// Networks of the template that the plan does not have are dropped, and so are entries of the template's migrated_from
// if the plan has migrated_from without them. The further keys of the remaining ones and the template's further VM
// extensions are kept. vm_resources and, if the plan has a disk, persistent_disk are removed. A missing stemcell
// becomes alias, and missing jobs become an empty list.
//
// If the group has several networks, fillGroup marks the first as the default for dns, unless the template marks one
// of them as the default for dns, and likewise for gateway. It adds no marks if previous, the deployed instance, has
// the group with the same networks and without marks (see defaultsLeftToBosh). fillGroup may parse the deployed
// manifest; if the manifest cannot be parsed, the group counts as not deployed.
func fillGroup(entry map[string]any, group *serviceadapter.InstanceGroup, alias string, previous *deployedInstance) {
	entry["instances"] = int64(group.Instances)
	entry["vm_type"] = group.VMType
	delete(entry, "vm_resources")
	entry["azs"] = value.Texts(group.AZs)
	networks := entriesNamed(entry["networks"], group.Networks)
	if len(networks) > 1 && !defaultsLeftToBosh(previous.group(group.Name)["networks"], group.Networks) {
		chooseDefaults(value.Mappings(networks))
	}
	entry["networks"] = networks
	if extensions := vmExtensions(entry["vm_extensions"], group.VMExtensions); len(extensions) > 0 {
		entry["vm_extensions"] = extensions
	} else {
		delete(entry, "vm_extensions")
	}
	if group.PersistentDiskType != "" {
		entry["persistent_disk_type"] = group.PersistentDiskType
		delete(entry, "persistent_disk")
	}
	if group.Lifecycle != "" {
		entry["lifecycle"] = group.Lifecycle
	}
	if len(group.MigratedFrom) > 0 {
		from := value.Convert(group.MigratedFrom,
			func(migration serviceadapter.Migration) string { return migration.Name })
		entry["migrated_from"] = entriesNamed(entry["migrated_from"], from)
	}
	if entry["stemcell"] == nil {
		entry["stemcell"] = alias
	}
	if entry["jobs"] == nil {
		entry["jobs"] = []any{}
	}
}

// vmExtensions returns the plan's VM extensions, followed by the elements of template, the list in the manifest
// template, that the plan does not have, each once. A template that is not a list has no elements. The result is never
// nil.
func vmExtensions(template any, planned []string) []any {
	all := value.Texts(planned)
	list, _ := template.([]any)
	for _, name := range list {
		if !slices.ContainsFunc(all, func(other any) bool { return reflect.DeepEqual(other, name) }) {
			all = append(all, name)
		}
	}
	return all
}

// chooseDefaults marks the first of the networks, in place, as the default for dns, unless one of the networks has this
// mark already, and likewise for gateway. The marks are elements of a network's key "default". BOSH rejects a group
// with several networks that lacks them. networks must have at least one element.
func chooseDefaults(networks []map[string]any) {
	for _, purpose := range []any{"dns", "gateway"} {
		hasPurpose := func(network map[string]any) bool { return slices.Contains(defaultPurposes(network), purpose) }
		if !slices.ContainsFunc(networks, hasPurpose) {
			networks[0]["default"] = append(defaultPurposes(networks[0]), purpose)
		}
	}
}

// defaultPurposes returns the list in a network's key "default", without copying it: the purposes, "dns" or "gateway",
// for which the network is the default. It returns nil if the key is missing or its value is not a list.
func defaultPurposes(network map[string]any) []any {
	purposes, _ := network["default"].([]any)
	return purposes
}

// defaultsLeftToBosh reports whether a deployed group has exactly the planned networks, in the same order, and none of
// them is marked as a default, as in manifests of some other adapters. A mark that this adapter added to such a group
// would appear as a pending change. deployed is the list of networks in the deployed manifest, or nil if the group is
// not deployed, which has no networks. planned contains the names of the plan's networks.
func defaultsLeftToBosh(deployed any, planned []string) bool {
	var names []string
	for _, network := range value.Mappings(deployed) {
		if network["default"] != nil {
			return false
		}
		names = append(names, value.Text(network["name"]))
	}
	return slices.Equal(names, planned)
}

// colocateErrands adds a job for each lifecycle errand of the plan, in place, to the instance groups on which the plan
// places the errand, for example with "web" or "web/0", unless the group has a job of that name. groups is the
// completed list of the manifest; templates are the groups of the manifest template by name, from which the declaration
// of the job is copied (see errandJob).
//
// The error joins one error for each missing group on which the plan places an errand, and one for each errand that is
// not placed on groups and is neither a group nor a job of the manifest. The latter only causes a logged warning if the
// previous plan had the same errand. None of them is a *fault.UserError.
func colocateErrands(in *inputs, groups []any, templates map[string]map[string]any) error {
	index := byName(groups)
	var failed []error
	for _, errand := range lifecycleErrands(&in.BrokerPlan) {
		for _, target := range errand.Instances {
			name, _, _ := strings.Cut(target, "/")
			group := index[name]
			if group == nil {
				failed = append(failed,
					fmt.Errorf("the plan runs the errand %q on %q, but has no instance group of this name",
						errand.Name, name))
				continue
			}
			jobs, _ := group["jobs"].([]any)
			if byName(jobs)[errand.Name] == nil {
				group["jobs"] = append(jobs, errandJob(errand.Name, templates))
			}
		}
		switch {
		case len(errand.Instances) > 0 || index[errand.Name] != nil || hasJob(groups, errand.Name):
		case in.previous.exists() && hasLifecycleErrand(in.PreviousPlan, errand.Name):
			in.Logger.Warn("ignoring a lifecycle errand without a job, because the previous plan has it as well",
				"errand", errand.Name)
		default:
			failed = append(failed, fmt.Errorf(
				"the plan's lifecycle errand %q is neither an instance group nor a job of this plan", errand.Name))
		}
	}
	return errors.Join(failed...)
}

// hasJob reports whether one of the instance groups of the manifest has a job of this name. Entries that are not
// mappings are ignored.
func hasJob(groups []any, name string) bool {
	return slices.ContainsFunc(value.Mappings(groups), func(group map[string]any) bool {
		return byName(group["jobs"])[name] != nil
	})
}

// lifecycleErrands returns the lifecycle errands of the plan: those of pre_delete, then those of post_deploy, each in
// the order of the plan. The list is empty if the plan has none. plan must not be nil.
func lifecycleErrands(plan *serviceadapter.Plan) []serviceadapter.Errand {
	return slices.Concat(plan.LifecycleErrands.PreDelete, plan.LifecycleErrands.PostDeploy)
}

// hasLifecycleErrand reports whether the plan has a pre_delete or post_deploy errand of this name. It is false if the
// plan is nil.
func hasLifecycleErrand(plan *serviceadapter.Plan, name string) bool {
	return plan != nil && slices.ContainsFunc(lifecycleErrands(plan), func(errand serviceadapter.Errand) bool {
		return errand.Name == name
	})
}

// errandJob returns the job for the errand of this name: a deep copy of the job of that name that an instance group of
// the manifest template declares, or a new mapping with only the key "name" if no group declares one. templates are the
// template's instance groups by name. If several groups declare the job, that of the first group in alphabetical order
// is copied.
func errandJob(name string, templates map[string]map[string]any) map[string]any {
	for _, group := range value.Keys(templates) {
		if declared := byName(templates[group]["jobs"])[name]; declared != nil {
			return value.CloneMap(declared)
		}
	}
	return map[string]any{"name": name}
}
