package adapter

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"service-adapter/internal/tfjson"
	"service-adapter/internal/value"
)

// Change is a place where the manifest that the adapter makes differs from the deployed one, so that the broker refuses updates with
// "pending changes"; or something that OpenTofu will do with the next update, for which the broker does not refuse it.
type Change struct {
	// Path is a path of ops files: "/instance_groups/name=redis-server/vm_type"; for OpenTofu, the address of a resource, or
	// "outputs" where it changes no resource.
	Path string `json:"path"`
	// Deployed and Generated are the values, with secrets masked; nil where there is none, and for OpenTofu.
	Deployed  any `json:"deployed"`
	Generated any `json:"generated"`
	// OpenTofu is what it will do to the resource: create, change, destroy or replace; "" for the manifest.
	OpenTofu string `json:"opentofu,omitempty"`
	// Reason says where to look.
	Reason string `json:"reason"`
	// Effect is what becomes of the instance when the change is deployed, and Consequence says it.
	Effect      Effect `json:"effect"`
	Consequence string `json:"consequence"`
	// reordered tells that Deployed and Generated are the names of the entries of a list in its two orders.
	reordered bool
}

// Diff lists the places where two values differ, in order. Lists whose entries have names are compared by them.
func Diff(path string, deployed, generated any) []Change {
	if reflect.DeepEqual(deployed, generated) {
		return nil
	}
	var changes []Change
	switch d := deployed.(type) {
	case map[string]any:
		if g, ok := generated.(map[string]any); ok {
			for _, key := range value.Keys(value.Merge(d, g)) {
				changes = append(changes, Diff(path+"/"+key, d[key], g[key])...)
			}
		}
	case []any:
		if g, ok := generated.([]any); ok {
			changes = listDiff(path, d, g)
		}
	}
	if len(changes) > 0 {
		return changes
	}
	return []Change{{Path: path, Deployed: deployed, Generated: generated}}
}

// listDiff is diff for lists; nil where they are best shown as a whole.
func listDiff(path string, deployed, generated []any) (changes []Change) {
	before, old := byName(deployed, nil)
	after, names := byName(generated, before)
	if before == nil || after == nil {
		for i := range deployed {
			if len(deployed) == len(generated) {
				changes = append(changes, Diff(path+"/"+strconv.Itoa(i), deployed[i], generated[i])...)
			}
		}
		return changes
	}
	kept := slices.DeleteFunc(slices.Clone(old), func(name string) bool { return after[name] == nil })
	again := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return before[name] == nil })
	added := slices.DeleteFunc(names, func(name string) bool { return before[name] != nil })
	for _, name := range slices.Concat(old, added) {
		changes = append(changes, Diff(path+"/name="+name, before[name], after[name])...)
	}
	if !slices.Equal(kept, again) {
		changes = append(changes, Change{Path: path, Deployed: value.Texts(kept), Generated: value.Texts(again), reordered: true})
	}
	return changes
}

// byName are the entries of a list by their names, and the names in their order; nil unless each entry has a name of its own. An instance
// group with a new name counts as the deployed one that it is migrated from.
func byName(list []any, deployed map[string]any) (entries map[string]any, names []string) {
	entries = map[string]any{}
	for _, item := range list {
		entry, _ := item.(map[string]any)
		name, _ := entry["name"].(string)
		for _, from := range value.Mappings(entry["migrated_from"]) {
			if old, _ := from["name"].(string); deployed[name] == nil && deployed[old] != nil {
				name = old
			}
		}
		if name == "" || entries[name] != nil {
			return nil, nil
		}
		entries[name] = entry
		names = append(names, name)
	}
	return entries, names
}

// Effect is what becomes of an instance when a change is deployed. A later one is felt more.
type Effect int

// The effects. Unknown is that of an instance which cannot be checked.
const (
	NoEffect Effect = iota
	Metadata
	Restart
	Recreate
	OpenTofuRuns
	DataAtRisk
	Unknown
)

func (e Effect) String() string {
	return []string{"none", "metadata", "restart", "recreate", "opentofu", "data-at-risk", "error"}[e]
}

// MarshalText makes the effect its name in JSON.
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// EffectRule says what becomes of an instance for a kind of change. Of the rules the first one counts that a change fits.
type EffectRule struct {
	// Changes says which changes it is about.
	Changes string
	Effect  Effect
	// Consequence is what BOSH or OpenTofu does.
	Consequence string
	fits        func(s subject) bool
}

// EffectRules returns all rules; the last one fits every change. They are what the Director's updater of instances does: it makes a VM
// anew for another stemcell, network, environment or cloud properties, and else stops and starts its jobs.
func EffectRules() []EffectRule { return effectRules }

var effectRules = []EffectRule{ //nolint:gochecknoglobals // a constant table
	rule("OpenTofu destroys or replaces a resource", DataAtRisk, "what the resource holds is lost",
		func(s subject) bool { return s.OpenTofu == tfjson.Destroy || s.OpenTofu == tfjson.Replace }),
	rule("OpenTofu makes or changes a resource, or outputs", OpenTofuRuns, "OpenTofu does it with the next update",
		func(s subject) bool { return s.OpenTofu != "" }),
	rule("an instance group that is an errand, in whole or in part", Metadata, "it has no VM until it runs",
		func(s subject) bool { return s.group != "" && !hasVMs(s.before) && !hasVMs(s.after) }),
	rule("an instance group goes, and another one has it in `migrated_from`", Recreate, "its instances go on in the other group, with their disks",
		func(s subject) bool { return hasVMs(s.before) && s.after == nil && s.migrated }),
	rule("an instance group goes, has a new name without `migrated_from`, or becomes an errand", DataAtRisk, "its VMs are deleted and their disks orphaned",
		func(s subject) bool { return hasVMs(s.before) && !hasVMs(s.after) }),
	rule("fewer `instances`", DataAtRisk, "VMs are deleted and their disks orphaned",
		func(s subject) bool { return s.isIn("instances") && fewer(s.Deployed, s.Generated) }),
	rule("another `persistent_disk_type` or none", DataAtRisk,
		"the data is copied to another disk, which must be large enough; without one the disk is orphaned",
		func(s subject) bool { return s.isIn("persistent_disk_type") && s.Deployed != nil }),
	rule("an instance group with a persistent disk loses one of its `azs`", DataAtRisk, "VMs there are deleted and their disks orphaned",
		func(s subject) bool { return s.isIn("azs") && s.before["persistent_disk_type"] != nil && s.losesAZ() }),
	rule("the order of a list, `tags`, `migrated_from`, a release or a variable that comes or goes, the `alias` of a stemcell", Metadata,
		"no job is stopped for it", func(s subject) bool { return s.reordered || s.isIn("migrated_from") || quiet.MatchString(s.Path) }),
	rule("`vm_type`, `vm_extensions`, `networks`, `azs`, `stemcell`, `env`, `name` or a new `persistent_disk_type` of an instance group, a stemcell", Recreate,
		"VMs are made anew, with their persistent disks", func(s subject) bool {
			return strings.HasPrefix(s.Path, "/stemcells") ||
				s.isIn("vm_type", "vm_extensions", "vm_resources", "networks", "azs", "stemcell", "env", "name", "persistent_disk_type")
		}),
	rule("a new instance group, or more `instances`", Restart, "VMs are added; jobs with links to them restart",
		func(s subject) bool { return s.group != "" && s.before == nil || s.isIn("instances") }),
	rule("anything else: jobs, their properties, a version of a release, an option of a variable, `addons`, `features`", Restart,
		"jobs restart whose configuration or packages change", func(subject) bool { return true }),
}

func rule(changes string, effect Effect, consequence string, fits func(s subject) bool) EffectRule {
	return EffectRule{Changes: changes, Effect: effect, Consequence: consequence, fits: fits}
}

// quiet are the paths of changes for which no job is stopped.
var quiet = regexp.MustCompile(`^/tags(/|$)|^/(releases|variables)/name=[^/]+$|^/stemcells/\d+/alias$`)

// subject is a change with the instance group that it is in.
type subject struct {
	*Change
	// group is its deployed name, "" for none; key is the one in it, "" for all of it.
	group, key string
	// before and after are the group as deployed and as generated; nil where there is none.
	before, after map[string]any
	// migrated tells that a generated group has it in migrated_from.
	migrated bool
}

func (s subject) isIn(keys ...string) bool { return slices.Contains(keys, s.key) }

// losesAZ tells whether a deployed AZ is none of the generated ones.
func (s subject) losesAZ() bool {
	before, _ := s.before["azs"].([]any)
	after, _ := s.after["azs"].([]any)
	return slices.ContainsFunc(before, func(az any) bool { return !slices.Contains(after, az) })
}

func hasVMs(group map[string]any) bool { return group != nil && group["lifecycle"] != "errand" }

func fewer(deployed, generated any) bool {
	before, _ := deployed.(int64)
	after, _ := generated.(int64)
	return after < before
}

// groupsOf are the instance groups of a manifest by their names; deployed are those that they may be migrated from.
func groupsOf(manifest any, deployed map[string]any) map[string]any {
	tree, _ := manifest.(map[string]any)
	list, _ := tree["instance_groups"].([]any)
	groups, _ := byName(list, deployed)
	return groups
}

// judge fills in the effects of the changes from one manifest to another.
func judge(changes []Change, deployed, generated any) {
	before := groupsOf(deployed, nil)
	after := groupsOf(generated, before)
	migrated := map[any]bool{}
	for _, group := range after {
		tree, _ := group.(map[string]any)
		for _, from := range value.Mappings(tree["migrated_from"]) {
			migrated[from["name"]] = true
		}
	}
	inGroup := regexp.MustCompile(`^/instance_groups/name=([^/]+)(?:/([^/]+))?`)
	for i := range changes {
		s := subject{Change: &changes[i]}
		if found := inGroup.FindStringSubmatch(s.Path); found != nil {
			s.group, s.key, s.migrated = found[1], found[2], migrated[found[1]]
			s.before, _ = before[s.group].(map[string]any)
			s.after, _ = after[s.group].(map[string]any)
		}
		first := effectRules[slices.IndexFunc(effectRules, func(rule EffectRule) bool { return rule.fits(s) })]
		s.Effect, s.Consequence = first.Effect, first.Consequence
	}
}
