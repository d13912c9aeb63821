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

// manifest renders the service's manifest and completes it from the broker's input. It also returns the references of the manifest.
func (w *generation) manifest() (manifest map[string]any, references []string, err error) {
	ops, err := w.selectOps(false)
	if err != nil {
		return nil, nil, err
	}
	result, err := w.renderDocument(w.bosh.Manifest, ops)
	if err != nil {
		return nil, nil, err
	}
	tree := result.tree
	tree["name"] = w.Deployment.DeploymentName
	if tree["releases"], err = w.releases(tree["releases"]); err != nil {
		return nil, nil, err
	}
	stemcells, alias, err := w.stemcells(tree["stemcells"], tree["instance_groups"])
	if err != nil {
		return nil, nil, err
	}
	tree["stemcells"] = stemcells
	if tree["instance_groups"], err = w.instanceGroups(tree["instance_groups"], alias); err != nil {
		return nil, nil, err
	}
	if tree["update"], err = w.update(tree["update"]); err != nil {
		return nil, nil, err
	}
	completeUpdates(tree)
	for _, key := range []string{"variables", "addons"} {
		if list, ok := tree[key].([]any); ok && len(list) == 0 {
			delete(tree, key)
		}
	}
	if err := w.fillAddons(tree["addons"]); err != nil {
		return nil, nil, err
	}
	if err := w.finish(result); err != nil {
		return nil, nil, err
	}
	references, err = w.checkReferences(result)
	return result.tree, references, err
}

// releases lists the deployment's releases; further keys that the template has for one are kept.
func (w *generation) releases(template any) ([]any, error) {
	kept := byName(template)
	var all []any
	var failed []error
	for _, release := range w.Deployment.Releases {
		if strings.HasSuffix(release.Version, "latest") {
			failed = append(failed, fmt.Errorf("release %q has the version %q; the broker needs an exact version", release.Name, release.Version))
		}
		entry := kept[release.Name]
		if entry == nil {
			entry = map[string]any{}
		}
		entry["name"], entry["version"] = release.Name, release.Version
		all = append(all, entry)
	}
	return all, errors.Join(failed...)
}

// byName indexes a list of mappings.
func byName(list any) map[string]map[string]any {
	index := map[string]map[string]any{}
	for _, entry := range mappings(list) {
		index[value.Text(entry["name"])] = entry
	}
	return index
}

// instanceGroups completes the template's groups from the plan's, in the order of the template.
func (w *generation) instanceGroups(template any, alias string) ([]any, error) {
	list, _ := template.([]any)
	templates := byName(template)
	if err := w.checkGroups(templates); err != nil {
		return nil, err
	}
	all := []any{} // a deployment may have none
	for _, item := range list {
		entry, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: every entry of instance_groups must be a mapping", w.bosh.Manifest.Pos.File)
		}
		group := instance.FindGroup(&w.BrokerPlan, value.Text(entry["name"]))
		if group == nil {
			continue // optional; checked
		}
		w.fillGroup(entry, group, alias)
		all = append(all, entry)
	}
	failed := []error{w.colocateErrands(all, templates)}
	for _, entry := range mappings(all) {
		failed = append(failed, w.fillJobs(entry["jobs"], "instance group "+value.Text(entry["name"])))
	}
	return all, errors.Join(failed...)
}

// checkGroups compares the plan's instance groups with the service's.
func (w *generation) checkGroups(templates map[string]map[string]any) error {
	known := value.Keys(templates)
	var planned []string
	for _, group := range w.BrokerPlan.InstanceGroups {
		planned = append(planned, group.Name)
	}
	for _, name := range planned {
		if !slices.Contains(known, name) {
			if len(w.PreviousManifest) > 0 && instance.FindGroup(w.PreviousPlan, name) != nil {
				w.Logger.Warn("the plan has an instance group that the service does not know; the deployed instance has none", "group", name)
				continue
			}
			return fault.Operatorf("the plan has an instance group %q that the service does not know%s; the plan has: %s; the service has: %s",
				name, diag.Suggest(name, known), diag.Names(planned), diag.Names(known))
		}
	}
	for _, name := range known {
		if !slices.Contains(planned, name) && !slices.Contains(w.bosh.OptionalInstanceGroups, name) {
			return fault.Operatorf("the plan lacks the instance group %q, which the service requires; the plan has: %s; the service has: %s",
				name, diag.Names(planned), diag.Names(known))
		}
	}
	return nil
}

// fillGroup sets what the plan says about an instance group.
func (w *generation) fillGroup(entry map[string]any, group *serviceadapter.InstanceGroup, alias string) {
	entry["instances"] = int64(group.Instances)
	entry["vm_type"] = group.VMType
	delete(entry, "vm_resources")
	entry["azs"] = texts(group.AZs)
	entry["networks"] = networks(entry["networks"], group.Networks)
	if !w.deployedWithoutDefaults(group) {
		chooseDefaults(entry["networks"])
	}
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
		kept := byName(entry["migrated_from"])
		var from []any
		for _, migration := range group.MigratedFrom {
			source := kept[migration.Name]
			if source == nil {
				source = map[string]any{"name": migration.Name}
			}
			from = append(from, source)
		}
		entry["migrated_from"] = from
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
	all := texts(planned)
	list, _ := template.([]any)
	for _, name := range list {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// networks lists the plan's networks. Attributes that the template has for a network of that name are kept.
func networks(template any, names []string) []any {
	kept := byName(template)
	all := []any{}
	for _, name := range names {
		entry := kept[name]
		if entry == nil {
			entry = map[string]any{}
		}
		entry["name"] = name
		all = append(all, entry)
	}
	return all
}

// chooseDefaults gives the first of several networks what none is marked for, dns or gateway, because BOSH demands a choice.
func chooseDefaults(networks any) {
	entries := mappings(networks)
	if len(entries) < 2 {
		return
	}
	for _, purpose := range []any{"dns", "gateway"} {
		if !slices.ContainsFunc(entries, func(entry map[string]any) bool { return isDefault(entry, purpose) }) {
			defaults, _ := entries[0]["default"].([]any)
			entries[0]["default"] = append(defaults, purpose)
		}
	}
}

func isDefault(network map[string]any, purpose any) bool {
	defaults, _ := network["default"].([]any)
	return slices.Contains(defaults, purpose)
}

// deployedWithoutDefaults tells whether a group runs with these several networks, and another adapter left the choice of defaults to
// BOSH.
func (w *generation) deployedWithoutDefaults(group *serviceadapter.InstanceGroup) bool {
	if len(group.Networks) < 2 || len(w.PreviousManifest) == 0 {
		return false
	}
	var names []string
	for _, network := range mappings(w.deployedGroup(group.Name)["networks"]) {
		if network["default"] != nil {
			return false
		}
		names = append(names, value.Text(network["name"]))
	}
	return slices.Equal(names, group.Networks)
}

// deployedGroup is an instance group of the previous manifest, nil where it has none of that name.
func (w *generation) deployedGroup(name string) map[string]any {
	root, _ := w.old.root() // what cannot be read was refused before
	tree, _ := root.(map[string]any)
	return byName(tree["instance_groups"])[name]
}

// colocateErrands adds the jobs of lifecycle errands that the plan places on instances of a group, and refuses errands that
// the manifest does not have.
func (w *generation) colocateErrands(groups []any, templates map[string]map[string]any) error {
	index := byName(groups)
	var failed []error
	for _, errand := range slices.Concat(w.BrokerPlan.LifecycleErrands.PreDelete, w.BrokerPlan.LifecycleErrands.PostDeploy) {
		if w.deployedUnknown(errand, index) {
			w.Logger.Warn("the plan has a lifecycle errand that the deployed instance does not have, either", "errand", errand.Name)
			continue
		}
		if len(errand.Instances) == 0 {
			if !hasErrand(index, errand.Name) {
				failed = append(failed, fmt.Errorf("the plan's lifecycle errand %q is neither an instance group nor a job of this plan", errand.Name))
			}
			continue
		}
		for _, instance := range errand.Instances {
			name, _, _ := strings.Cut(instance, "/")
			group := index[name]
			if group == nil {
				failed = append(failed, fmt.Errorf("the plan places the errand %q on %q, but has no such instance group", errand.Name, name))
				continue
			}
			addErrandJob(group, errand.Name, templates)
		}
	}
	return errors.Join(failed...)
}

// deployedUnknown tells whether nothing of this plan is the errand, and the deployed instance has the same plan without it already.
func (w *generation) deployedUnknown(errand serviceadapter.Errand, groups map[string]map[string]any) bool {
	if len(w.PreviousManifest) == 0 || w.PreviousPlan == nil || len(errand.Instances) > 0 || hasErrand(groups, errand.Name) {
		return false
	}
	before := slices.Concat(w.PreviousPlan.LifecycleErrands.PreDelete, w.PreviousPlan.LifecycleErrands.PostDeploy)
	return slices.ContainsFunc(before, func(other serviceadapter.Errand) bool { return other.Name == errand.Name })
}

func hasErrand(groups map[string]map[string]any, errand string) bool {
	if groups[errand] != nil {
		return true
	}
	for _, group := range groups {
		if byName(group["jobs"])[errand] != nil {
			return true
		}
	}
	return false
}

// addErrandJob adds the errand's job unless the group has it. Where the template has that job in a group of its own, its
// properties come along.
func addErrandJob(group map[string]any, errand string, templates map[string]map[string]any) {
	jobs, _ := group["jobs"].([]any)
	if byName(jobs)[errand] != nil {
		return
	}
	job := map[string]any{"name": errand}
	for _, name := range value.Keys(templates) {
		if declared := byName(templates[name]["jobs"])[errand]; declared != nil {
			job = value.CloneMap(declared)
			break
		}
	}
	group["jobs"] = append(jobs, job)
}

// fillJobs sets the release of each job: the one of the deployment that provides it, unless the template names one.
func (w *generation) fillJobs(list any, where string) error {
	jobs, _ := list.([]any)
	var failed []error
	for _, item := range jobs {
		job, ok := item.(map[string]any)
		if !ok {
			failed = append(failed, fmt.Errorf("%s: every job must be a mapping", where))
			continue
		}
		if job["release"] != nil {
			continue
		}
		release, err := w.releaseOf(value.Text(job["name"]))
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", where, err))
			continue
		}
		job["release"] = release
	}
	return errors.Join(failed...)
}

func (w *generation) fillAddons(list any) error {
	addons, _ := list.([]any)
	var failed []error
	for _, item := range addons {
		addon, _ := item.(map[string]any)
		failed = append(failed, w.fillJobs(addon["jobs"], "addon "+value.Text(addon["name"])))
	}
	return errors.Join(failed...)
}

// releaseOf is the release that provides a job. The user reads an error of it: as with a version that is not admitted, there is nothing
// secret in it, and who created the instance can pass it on.
func (w *generation) releaseOf(job string) (string, error) {
	var found []string
	for _, release := range w.Deployment.Releases {
		if slices.Contains(release.Jobs, job) {
			found = append(found, release.Name)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fault.Operatorf("job '%s' not provided by any release of the deployment", job)
	default:
		return "", fault.Operatorf("job '%s' is provided by several releases of the deployment: %s", job, diag.Names(found))
	}
}

func texts(list []string) []any {
	out := make([]any, len(list))
	for i, text := range list {
		out[i] = text
	}
	return out
}
