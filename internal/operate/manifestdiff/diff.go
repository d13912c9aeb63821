// Package manifestdiff compares generated manifests with deployed ones, as the broker does before an update, and
// determines the probable reason and the effect of each difference.
package manifestdiff

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"service-adapter/internal/value"
)

// A Change is either a difference between the generated and the deployed manifest, because of which the broker
// rejects updates with "pending changes", or a change for which the broker does not reject it: of a resource, which
// OpenTofu makes with the next update, or of the value of a secret, which an upgrade makes.
type Change struct {
	// Path is the path of the difference in the syntax of ops files, such as
	// "/instance_groups/name=redis-server/vm_type". For OpenTofu it is the address of a resource, or "outputs" if
	// only outputs change. For a secret it is "secrets/name=" and the name of the secret.
	Path string `json:"path"`
	// Deployed and Generated are the two values, with secrets masked. A value that does not exist is nil. Both are
	// nil for OpenTofu and for a secret.
	Deployed  any `json:"deployed"`
	Generated any `json:"generated"`
	// OpenTofu is the action on the resource: create, change, destroy or replace. It is "" for a difference in the
	// manifest.
	OpenTofu string `json:"opentofu,omitempty"`
	// Secret is "renew" if an upgrade gives a secret another value. It is "" for all other changes.
	Secret string `json:"secret,omitempty"`
	// Reason is a text on the probable reason.
	Reason string `json:"reason"`
	// Effect is the effect on the instance when the change is deployed, and Consequence describes it.
	Effect      Effect `json:"effect"`
	Consequence string `json:"consequence"`
	// reordered reports that only the order of a list differs. Deployed and Generated are then the names of its
	// entries, or its AZs.
	reordered bool
}

// Diff returns the differences between two values; it is nil only if they are equal. The paths begin with path, and the
// keys of a mapping are compared in sorted order. The entries of two lists are matched by their names if all of them
// have one; a different order of such entries, or of AZs, is a change of its own. Other lists without names are
// compared entry by entry if they have the same length, and otherwise as a whole. Reason, Effect and Consequence are
// not set.
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

// listDiff returns the differences between two lists at a path; see Diff for the rules. It returns nil if the entries
// cannot be matched, because they have no unique names and the lengths differ; Diff then reports the lists as a whole.
func listDiff(path string, deployed, generated []any) (changes []Change) {
	before, old := byName(deployed, nil)
	after, names := byName(generated, before)
	if before == nil || after == nil {
		if hasOtherOrder(path, deployed, generated) {
			return []Change{{Path: path, Deployed: deployed, Generated: generated, reordered: true}}
		}
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
		order := Change{Path: path, Deployed: value.Texts(kept), Generated: value.Texts(again), reordered: true}
		changes = append(changes, order)
	}
	return changes
}

// hasOtherOrder reports whether two different lists at a path are the AZs of an instance group and contain the same
// AZs, so that only their order differs. It returns false for all other lists without names, because their order may
// matter to the jobs that read them.
func hasOtherOrder(path string, deployed, generated []any) bool {
	before, after := value.Convert(deployed, value.Text), value.Convert(generated, value.Text)
	slices.Sort(before)
	slices.Sort(after)
	return azsPath.MatchString(path) && slices.Equal(before, after)
}

// azsPath matches the paths of the AZs of instance groups.
var azsPath = regexp.MustCompile(`^/instance_groups/[^/]+/azs$`)

// byName returns the entries of a list by name, and their names in order. Both are nil unless each entry is a mapping
// with a unique name. An instance group that is migrated from a deployed one has the name of the latter; deployed
// contains the deployed groups by name for that. With a nil deployed, every entry has its own name.
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
