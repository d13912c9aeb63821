package brokerpak

import (
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/value"
)

// An InstanceGroup is the outline of an instance group of the manifest template or of an ops file, or of an addon: its
// name and the names of its jobs. An addon has neither Lifecycle nor Optional nor Sized.
type InstanceGroup struct {
	Name      string
	Jobs      []string
	Lifecycle string // "errand" for a group of errands; "" or "service" otherwise
	Optional  bool   // listed under optional_instance_groups, so that a plan may omit it
	Sized     bool   // the definition computes its size completely, so that a plan may omit it
	// If is the condition of the ops file that adds the group. It is nil for a group that every manifest has.
	If *expr.Template
}

// groupsOf returns the entries of a top-level list of the manifest template, which is "instance_groups" or "addons",
// with their jobs, in its order. Entries that are not mappings are left out. It returns nil if the template has no such
// list, or is not a YAML mapping; rendering reports the reason. Optional, Sized and If are not set.
func (b *Bosh) groupsOf(key string) []InstanceGroup {
	var manifest map[string]any
	if err := yaml.Unmarshal([]byte(b.Manifest.Text), &manifest); err != nil {
		return nil
	}
	return value.Convert(value.Mappings(value.Normalise(manifest[key])), outlineOf)
}

// outlineOf returns the outline of an entry of instance_groups or addons: its name, its lifecycle and its jobs. Missing
// values are "". Optional, Sized and If are not set.
func outlineOf(owner map[string]any) InstanceGroup {
	name := func(entry map[string]any) string { return value.Text(entry["name"]) }
	jobs := value.Convert(value.Mappings(owner["jobs"]), name)
	return InstanceGroup{Name: name(owner), Lifecycle: value.Text(owner["lifecycle"]), Jobs: jobs}
}

// InstanceGroups returns the instance groups of the manifest template, in its order, followed by those that ops files
// add, each once. Ops files for the completed manifest do not count, because plans do not contain their groups. If
// several ops files add a group, its If is the condition of the first, or nil if one has no condition. InstanceGroups
// returns nil if there are none. A template that is not a YAML mapping, and an ops file that is not a list, have none.
func (b *Bosh) InstanceGroups() []InstanceGroup {
	groups := b.groupsOf("instance_groups")
	for _, ops := range b.Ops {
		if ops.Completed {
			continue // it is applied after the plan, which does not have its groups
		}
		for _, group := range addedGroups(ops.Document.Text) {
			group.If = ops.If
			exists := func(other InstanceGroup) bool { return other.Name == group.Name }
			if i := slices.IndexFunc(groups, exists); i < 0 {
				groups = append(groups, group)
			} else if group.If == nil {
				groups[i].If = nil
			}
		}
	}
	for i, group := range groups {
		size := b.Group(group.Name)
		groups[i].Optional = slices.Contains(b.OptionalInstanceGroups, group.Name)
		groups[i].Sized = size != nil && size.Complete()
	}
	return groups
}

// addedGroups returns the outlines of the instance groups that the operations of an ops file add or replace, in the
// order of the file and with repetitions. Operations that only change a part of a group add none. It returns nil if
// there are none or if the text is not a YAML list.
func addedGroups(text string) (groups []InstanceGroup) {
	var operations []any
	if err := yaml.Unmarshal([]byte(text), &operations); err != nil {
		return nil // package lint reports the reason
	}
	const list = "/instance_groups"
	for _, operation := range value.Mappings(value.Normalise(operations)) {
		target := strings.ReplaceAll(value.Text(operation["path"]), "?", "")
		added, isGroup := operation["value"].(map[string]any)
		switch {
		case target == list:
			groups = append(groups, value.Convert(value.Mappings(operation["value"]), outlineOf)...)
		case isGroup && path.Dir(target) == list && added["name"] != nil:
			groups = append(groups, outlineOf(added))
		}
	}
	return groups
}

// HasGroupOrJob reports whether the manifest template or an ops file has an instance group, or an instance group with a
// job, of this name. Jobs of addons do not count. A nil Bosh has none. See InstanceGroups for the ops files that count.
func (b *Bosh) HasGroupOrJob(name string) bool {
	return b != nil && slices.ContainsFunc(b.InstanceGroups(), func(group InstanceGroup) bool {
		return group.Name == name || slices.Contains(group.Jobs, name)
	})
}

// AddonJobs returns the names of the jobs of the manifest template's addons, in its order and with repetitions. It
// returns nil if there are none, or if the template is not a YAML mapping.
func (b *Bosh) AddonJobs() []string {
	jobs := func(addon InstanceGroup) []string { return addon.Jobs }
	return slices.Concat(value.Convert(b.groupsOf("addons"), jobs)...)
}

// JobNames returns the names of all jobs that manifests of the service may contain: those of the instance groups and
// addons of the manifest template, and those that ops files of both kinds add, whether or not their conditions are
// true. The order is that of the addons, the groups and the ops files, and a name may be contained several times.
func (b *Bosh) JobNames() []string {
	names := b.AddonJobs()
	for _, group := range b.InstanceGroups() {
		names = append(names, group.Jobs...)
	}
	for _, ops := range b.Ops {
		names = append(names, addedJobs(ops.Document.Text)...)
	}
	return names
}

// addedJobs returns the names of the jobs that the operations of an ops file add or replace, alone or with an instance
// group or an addon, with repetitions. Operations below the properties of a job add none. It returns nil if there are
// none or if the text is not a YAML list.
func addedJobs(text string) (names []string) {
	var operations []any
	if err := yaml.Unmarshal([]byte(text), &operations); err != nil {
		return nil // package lint reports the reason
	}
	for _, operation := range value.Mappings(value.Normalise(operations)) {
		target := strings.ReplaceAll(value.Text(operation["path"]), "?", "")
		if strings.Contains(target, "/properties") {
			continue
		}
		entries := value.Mappings(operation["value"])
		if entry, isMapping := operation["value"].(map[string]any); isMapping {
			entries = []map[string]any{entry}
		}
		for _, entry := range entries {
			owner := outlineOf(entry)
			names = append(names, owner.Jobs...)
			isJob := path.Base(target) == "jobs" || path.Base(path.Dir(target)) == "jobs"
			if isJob && owner.Name != "" {
				names = append(names, owner.Name)
			}
		}
	}
	return names
}
