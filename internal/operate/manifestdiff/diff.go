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

// A Change is one pending change of a service instance. There are three kinds:
//   - a difference between the deployed and the generated manifest, because of which the broker rejects updates with
//     "pending changes",
//   - a change that OpenTofu will make with the next update, of a resource or only of outputs, for which OpenTofu is
//     set,
//   - a new value that the next upgrade gives a secret, for which Secret is set.
//
// The broker does not reject updates because of the latter two, and their values Deployed and Generated are nil. A
// Change consists of the path of the difference, the two values, the probable reason, and the effect of the
// deployment on the instance. It is encoded as an element of the JSON of `pending-changes`. The zero value is not a
// change.
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

// Diff returns the differences between two normalised trees of maps, lists and scalars; it is nil if and only if they
// are equal. path is the path of both values, such as "/instance_groups" or "" for the root, with which the paths of
// the changes begin. A value that is missing on one side is nil in the change. Reason, Effect and Consequence are not
// set, and secrets are not masked.
//
// Mappings are compared by their keys in sorted order. The entries of two lists are matched by name if all of them
// are mappings with unique names; a generated entry without a deployed entry of its name is matched with the deployed
// one that its migrated_from names, under the name of the latter. If the entries that both lists contain are in
// another order, one more change has the path of the lists, and their names in the two orders as its values. AZs of
// an instance group that are only in another order are one change with both lists. Other lists are compared entry by
// entry if they have the same length, and otherwise as a whole.
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

// listDiff returns the differences between two different lists at a path; see Diff for the rules. deployed and
// generated are not changed. It returns nil if the entries cannot be matched, because they have no unique names and the
// lengths differ; Diff then reports the lists as a whole.
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

// hasOtherOrder reports whether two different lists at path are the AZs of an instance group, as in
// "/instance_groups/name=db/azs", and contain the same AZs in another order. It returns false for all other paths,
// because the order of another list may matter to the jobs that read it. The lists are not changed.
func hasOtherOrder(path string, deployed, generated []any) bool {
	before, after := value.Convert(deployed, value.Text), value.Convert(generated, value.Text)
	slices.Sort(before)
	slices.Sort(after)
	return azsPath.MatchString(path) && slices.Equal(before, after)
}

// azsPath matches the paths of the AZs of instance groups.
var azsPath = regexp.MustCompile(`^/instance_groups/[^/]+/azs$`)

// byName returns the entries of a list by their names, and the names in the order of the list. deployed contains the
// deployed instance groups by name: the name of an entry that is not among them, but names one of them in
// migrated_from, is in both results the name of the latter. With a nil deployed, every entry has its own name. Both
// results are nil unless each entry is a mapping whose name in the results is not "" and unique. For an empty list,
// entries is empty and not nil.
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
