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
// name and the names of its jobs, with the properties that decide whether a plan must contain the group. A name is ""
// if the text does not have it. Lifecycle is "errand" for a group of errands.
//
// A plan may omit the group if Optional or Sized is true: the definition lists the group under
// optional_instance_groups, or computes its size completely. If is the condition of the first ops file that adds the
// group, and nil if the manifest template or an ops file without a condition contains the group. For an addon, Optional
// and Sized are always false and If is nil.
type InstanceGroup struct {
	Name      string
	Jobs      []string
	Lifecycle string // "errand" for a group of errands; "" or "service" otherwise
	Optional  bool   // listed under optional_instance_groups, so that a plan may omit it
	Sized     bool   // the definition computes its size completely, so that a plan may omit it
	// If is the condition of the first ops file that adds the group. It is nil if the template or an ops file without a
	// condition contains the group.
	If *expr.Template
}

// groupsOf returns outlines of the entries of a top-level list of the manifest template, in the order of the list. key
// is "instance_groups" or "addons". Entries that are not mappings are left out. groupsOf returns nil if the key is
// missing or has no list of mappings, or if the template is not valid YAML or not a mapping; it does not report the
// reason, but rendering the manifest does. Optional, Sized and If are not set.
func (b *Bosh) groupsOf(key string) []InstanceGroup {
	var manifest map[string]any
	if err := yaml.Unmarshal([]byte(b.Manifest.Text), &manifest); err != nil {
		return nil
	}
	return value.Convert(value.Mappings(value.Normalise(manifest[key])), outlineOf)
}

// outlineOf returns the outline of an entry of instance_groups or addons, which is the parameter owner: its name, its
// lifecycle and the names of its jobs. A missing name or lifecycle is "", also that of a job; Jobs is nil if there are
// none. Entries of jobs that are not mappings are left out. Names and lifecycles of other types are converted to text.
// Optional, Sized and If are not set.
func outlineOf(owner map[string]any) InstanceGroup {
	name := func(entry map[string]any) string { return value.Text(entry["name"]) }
	jobs := value.Convert(value.Mappings(owner["jobs"]), name)
	return InstanceGroup{Name: name(owner), Lifecycle: value.Text(owner["lifecycle"]), Jobs: jobs}
}

// InstanceGroups returns outlines of the instance groups of the manifest template, in its order, followed by those
// that ops files add and the template does not have, each once, as the first of the ops files adds it. Ops files that
// are applied to the completed manifest do not count, because plans do not contain their groups. Conditions of ops
// files are not evaluated: the field If of an added group is the condition of the first ops file that adds it, or nil
// if any ops file that adds it has no condition. The field If of a group of the template is nil. Optional and Sized
// have their values, true or false, for all groups; see InstanceGroup.
//
// InstanceGroups returns nil if there are no groups. A template that is not a YAML mapping, and an ops file that is not
// a YAML list, count as having none.
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

// addedGroups returns outlines of the instance groups that the operations of an ops file add or replace, in the order
// of the file and with repetitions. The parameter text is the content of the ops file. An operation counts if its path
// is /instance_groups and its value a list of groups, whose names may be "" here, or if its path is one level deeper,
// such as /instance_groups/-, and its value a mapping with a name. Operations that change a part of a group, and those
// of the type test, do not count. Question marks in a path are ignored. Optional, Sized and If are not set. addedGroups
// returns nil if there are none or if the text is not a YAML list.
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
		case operation["type"] == "test": // it changes nothing
		case target == list:
			groups = append(groups, value.Convert(value.Mappings(operation["value"]), outlineOf)...)
		case isGroup && path.Dir(target) == list && added["name"] != nil:
			groups = append(groups, outlineOf(added))
		}
	}
	return groups
}

// HasGroupOrJob reports whether an instance group of the manifest template, or one that an ops file adds, has this name
// or has a job of this name. Ops files count whatever their conditions are, except those that are applied to the
// completed manifest. A job that an ops file adds to an existing group, also by replacing the group, and jobs of addons
// do not count. The result is false for a nil Bosh.
func (b *Bosh) HasGroupOrJob(name string) bool {
	return b != nil && slices.ContainsFunc(b.InstanceGroups(), func(group InstanceGroup) bool {
		return group.Name == name || slices.Contains(group.Jobs, name)
	})
}

// AddonJobs returns the names of the jobs of the addons in the manifest template, in its order and with repetitions;
// the name of a job without a name is "". Addons that ops files add do not count. AddonJobs returns nil if there are no
// jobs, or if the template is not a YAML mapping.
func (b *Bosh) AddonJobs() []string {
	jobs := func(addon InstanceGroup) []string { return addon.Jobs }
	return slices.Concat(value.Convert(b.groupsOf("addons"), jobs)...)
}

// JobNames returns the names of the jobs that manifests of the service may contain: those of the addons and the
// instance groups of the manifest template, and those that operations of ops files add (see addedJobs), including ops
// files for the completed manifest, whether or not their conditions are true. The jobs of the template's addons come
// first. A name may be contained several times, and may be "". JobNames returns nil if there are none. A template or
// ops file that is not valid YAML has none.
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

// addedJobs returns the names of the jobs that the operations of an ops file add or replace, in the order of the file
// and with repetitions: single jobs, lists of jobs, and the jobs of instance groups and addons. The parameter text is
// the content of the ops file. The name of a job that a group or addon contains may be ""; any other job without a name
// is left out. Operations that change only a part of a job, such as its name, do not count, nor do those of the type
// test and those whose path contains /properties. addedJobs returns nil if there are none or if the text is not a YAML
// list.
func addedJobs(text string) (names []string) {
	var operations []any
	if err := yaml.Unmarshal([]byte(text), &operations); err != nil {
		return nil // package lint reports the reason
	}
	for _, operation := range value.Mappings(value.Normalise(operations)) {
		target := strings.ReplaceAll(value.Text(operation["path"]), "?", "")
		if strings.Contains(target, "/properties") || operation["type"] == "test" {
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
