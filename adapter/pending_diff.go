package adapter

import (
	"reflect"
	"slices"
	"strconv"

	"service-adapter/internal/value"
)

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
