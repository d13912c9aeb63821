package manifestgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak/instance"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// instanceGroups completes the template's groups from the plan's, in the order of the template. Alias is the stemcell of groups that
// name none.
func instanceGroups(in *input, template any, alias string) ([]any, error) {
	list, _ := template.([]any)
	templates := byName(template)
	known := value.Keys(templates)
	errands, err := errandGroup(in, known)
	if err != nil {
		return nil, err
	}
	if errands != nil {
		known = append(known, errands.Name)
	}
	if err := checkGroups(in, known); err != nil {
		return nil, err
	}
	all := []any{} // a deployment may have none
	for _, item := range list {
		entry, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: every entry of instance_groups must be a mapping", in.bosh.Manifest.Pos.File)
		}
		group := instance.FindGroup(in.plan, value.Text(entry["name"]))
		if group == nil {
			continue // optional; checked
		}
		fillGroup(entry, group, alias, in.before)
		all = append(all, entry)
	}
	if all, err = placeErrands(in, all, errands, alias); err != nil {
		return nil, err
	}
	return all, errors.Join(colocateErrands(in, all, templates), fillJobs("instance group", all, in.Deployment.Releases))
}

// checkGroups compares the plan's instance groups with the service's.
func checkGroups(in *input, known []string) error {
	planned := value.Each(in.plan.InstanceGroups, func(group serviceadapter.InstanceGroup) string { return group.Name })
	for _, name := range planned {
		switch {
		case slices.Contains(known, name):
		case in.before.exists() && instance.FindGroup(in.PreviousPlan, name) != nil:
			in.Logger.Warn("the plan has an instance group that the service does not know; the deployed instance has none", "group", name)
		default:
			return fault.Operatorf("the plan has an instance group %q that the service does not know%s; the plan has: %s; the service has: %s",
				name, diag.Suggest(name, known), diag.Names(planned), diag.Names(known))
		}
	}
	for _, name := range known {
		if !slices.Contains(planned, name) && !slices.Contains(in.bosh.OptionalInstanceGroups, name) {
			return fault.Operatorf("the plan lacks the instance group %q, which the service requires; the plan has: %s; the service has: %s",
				name, diag.Names(planned), diag.Names(known))
		}
	}
	return nil
}

// fillGroup sets what the plan says about an instance group.
func fillGroup(entry map[string]any, group *serviceadapter.InstanceGroup, alias string, before *previous) {
	entry["instances"] = int64(group.Instances)
	entry["vm_type"] = group.VMType
	delete(entry, "vm_resources")
	entry["azs"] = value.Texts(group.AZs)
	networks := listed(entry["networks"], group.Networks)
	if len(networks) > 1 && !leftToBosh(before.group(group.Name)["networks"], group.Networks) {
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
		from := value.Each(group.MigratedFrom, func(migration serviceadapter.Migration) string { return migration.Name })
		entry["migrated_from"] = listed(entry["migrated_from"], from)
	}
	if entry["stemcell"] == nil {
		entry["stemcell"] = alias
	}
	if entry["jobs"] == nil {
		entry["jobs"] = []any{}
	}
}

// vmExtensions are the plan's, then those of the template that the plan does not have.
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

// chooseDefaults gives the first of several networks what none is marked for, dns or gateway, because BOSH demands a choice.
func chooseDefaults(networks []map[string]any) {
	for _, purpose := range []any{"dns", "gateway"} {
		if !slices.ContainsFunc(networks, func(network map[string]any) bool { return slices.Contains(defaults(network), purpose) }) {
			networks[0]["default"] = append(defaults(networks[0]), purpose)
		}
	}
}

func defaults(network map[string]any) []any {
	purposes, _ := network["default"].([]any)
	return purposes
}

// leftToBosh tells whether a group runs with these several networks already, and another adapter left the choice of defaults to BOSH.
func leftToBosh(deployed any, planned []string) bool {
	var names []string
	for _, network := range value.Mappings(deployed) {
		if network["default"] != nil {
			return false
		}
		names = append(names, value.Text(network["name"]))
	}
	return slices.Equal(names, planned)
}

// colocateErrands adds the jobs of lifecycle errands that the plan places on instances of a group, unless it has them, and refuses errands
// that the manifest does not have.
func colocateErrands(in *input, groups []any, templates map[string]map[string]any) error {
	index := byName(groups)
	var failed []error
	for _, errand := range errands(&in.BrokerPlan) {
		for _, place := range errand.Instances {
			name, _, _ := strings.Cut(place, "/")
			group := index[name]
			if group == nil {
				failed = append(failed, fmt.Errorf("the plan places the errand %q on %q, but has no such instance group", errand.Name, name))
				continue
			}
			jobs, _ := group["jobs"].([]any)
			if byName(jobs)[errand.Name] == nil {
				group["jobs"] = append(jobs, errandJob(errand.Name, templates))
			}
		}
		switch {
		case len(errand.Instances) > 0 || index[errand.Name] != nil || slices.ContainsFunc(value.Mappings(groups), func(group map[string]any) bool {
			return byName(group["jobs"])[errand.Name] != nil
		}):
		case in.before.exists() && hasErrand(in.PreviousPlan, errand.Name):
			in.Logger.Warn("the plan has a lifecycle errand that the deployed instance does not have, either", "errand", errand.Name)
		default:
			failed = append(failed, fmt.Errorf("the plan's lifecycle errand %q is neither an instance group nor a job of this plan", errand.Name))
		}
	}
	return errors.Join(failed...)
}

func errands(plan *serviceadapter.Plan) []serviceadapter.Errand {
	return slices.Concat(plan.LifecycleErrands.PreDelete, plan.LifecycleErrands.PostDeploy)
}

// hasErrand tells whether a plan, which may be missing, has a lifecycle errand.
func hasErrand(plan *serviceadapter.Plan, name string) bool {
	return plan != nil && slices.ContainsFunc(errands(plan), func(errand serviceadapter.Errand) bool { return errand.Name == name })
}

// errandJob is the job as the template has it, maybe in a group of its own, else one without properties.
func errandJob(name string, templates map[string]map[string]any) map[string]any {
	for _, group := range value.Keys(templates) {
		if declared := byName(templates[group]["jobs"])[name]; declared != nil {
			return value.CloneMap(declared)
		}
	}
	return map[string]any{"name": name}
}
