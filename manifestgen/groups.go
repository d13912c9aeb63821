package manifestgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/instance"
	"service-adapter/internal/value"
)

// instanceGroups returns the instance groups of the manifest: those of the template, in its order, completed in place
// from the plan's groups, then the group of this adapter's errands, if the plan has one. Lifecycle errands that the
// plan places on a group become jobs of that group. The alias is the stemcell of groups that name none. Optional groups
// that the plan does not have are omitted. The result without an error is never nil. See checkGroups and
// colocateErrands for violations that are only logged as warnings.
//
// The error is or contains a *fault.UserError if the plan and the service do not have the same groups (see
// checkGroups), if the plan's group for this adapter's errands is missing, ambiguous or unused, or if the release of a
// job cannot be determined. It is another error if an errand of the plan does not exist, or if an entry of the template
// or a job is not a mapping.
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

// checkGroups returns a *fault.UserError if the plan has an instance group that the service does not have, or lacks one
// that is not optional. serviceGroups are the names of the groups of the template and of the errands. An unknown group
// that the deployed instance's plan had as well only causes a logged warning, because an error would block every update
// of that instance. An optional group, and one that only the definition sizes, may be missing in the manifest.
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
			d.Logger.Warn("ignoring an instance group that the service does not know, "+
				"because the previous plan has it as well", "group", name)
		default:
			return fault.Operatorf("the plan has an instance group %q that the service does not know%s; "+
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

// fillGroup sets, in place, the plan's values in a group of the manifest: instances, VM type, AZs, networks and VM
// extensions, and, if the plan has them, disk, lifecycle and migrated_from. Further keys of the template's networks and
// its further VM extensions are kept; vm_resources and, if the plan has a disk, persistent_disk are removed. fillGroup
// adds defaults for the stemcell, which is the alias, and the jobs, which are an empty list. The previous argument is
// the deployed instance; see defaultsLeftToBosh.
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

// vmExtensions returns the plan's VM extensions, followed by those of the template's list that the plan does not have.
// The template may be anything; a value that is not a list has none.
func vmExtensions(template any, planned []string) []any {
	all := value.Texts(planned)
	list, _ := template.([]any)
	for _, name := range list {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// chooseDefaults marks the first of several networks, in place, as the default for dns and gateway, each unless another
// network is marked for it. The list must not be empty. BOSH rejects several networks without these defaults.
func chooseDefaults(networks []map[string]any) {
	for _, purpose := range []any{"dns", "gateway"} {
		hasPurpose := func(network map[string]any) bool { return slices.Contains(defaultPurposes(network), purpose) }
		if !slices.ContainsFunc(networks, hasPurpose) {
			networks[0]["default"] = append(defaultPurposes(networks[0]), purpose)
		}
	}
}

// defaultPurposes returns the purposes, such as dns, in a network's key "default". It returns nil if the key is missing
// or its value is not a list.
func defaultPurposes(network map[string]any) []any {
	purposes, _ := network["default"].([]any)
	return purposes
}

// defaultsLeftToBosh reports whether the networks of a deployed group are exactly the planned ones, in the same order,
// and none of them is marked as a default, as another adapter may have left them. Marking one would show up as a
// pending change. deployed is the list in the deployed manifest, or nil if the group is not deployed.
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

// colocateErrands adds the jobs of lifecycle errands, in place, to the instance groups on which the plan places them,
// unless they have them. The templates are the template's groups by name. It returns an error for each errand that the
// plan places on a missing group, and for each one that is neither a group nor a job of the manifest; the latter only
// causes a logged warning if the deployed instance's plan had the same errand.
func colocateErrands(in *inputs, groups []any, templates map[string]map[string]any) error {
	index := byName(groups)
	var failed []error
	for _, errand := range lifecycleErrands(&in.BrokerPlan) {
		for _, target := range errand.Instances {
			name, _, _ := strings.Cut(target, "/")
			group := index[name]
			if group == nil {
				failed = append(failed,
					fmt.Errorf("the plan places the errand %q on %q, but has no such instance group",
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

// hasJob reports whether one of the instance groups of the manifest has a job of this name.
func hasJob(groups []any, name string) bool {
	return slices.ContainsFunc(value.Mappings(groups), func(group map[string]any) bool {
		return byName(group["jobs"])[name] != nil
	})
}

// lifecycleErrands returns the lifecycle errands of the plan, those of pre_delete first.
func lifecycleErrands(plan *serviceadapter.Plan) []serviceadapter.Errand {
	return slices.Concat(plan.LifecycleErrands.PreDelete, plan.LifecycleErrands.PostDeploy)
}

// hasLifecycleErrand reports whether the plan has a lifecycle errand of this name. A nil plan has none.
func hasLifecycleErrand(plan *serviceadapter.Plan, name string) bool {
	return plan != nil && slices.ContainsFunc(lifecycleErrands(plan), func(errand serviceadapter.Errand) bool {
		return errand.Name == name
	})
}

// errandJob returns a copy of the job of an errand, name, as declared in any instance group of the manifest template,
// or a job with only the name if no group declares it. If several groups declare it, the first by name counts.
// templates are the template's instance groups by name.
func errandJob(name string, templates map[string]map[string]any) map[string]any {
	for _, group := range value.Keys(templates) {
		if declared := byName(templates[group]["jobs"])[name]; declared != nil {
			return value.CloneMap(declared)
		}
	}
	return map[string]any{"name": name}
}
