package manifestgen

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/value"
)

// stemcells returns the stemcells of the manifest and the alias of the first one, which is the default of instance
// groups. Each has an alias, a version and, if the deployment has them, an operating system and a name. template and
// groups are the lists "stemcells" and "instance_groups" of the manifest template; other values count as empty lists.
// deployed are the stemcells of the deployment, which determine the order; their aliases are those of stemcellAliases.
//
// A stemcell after the first is omitted if the manifest of previous, the deployed instance, lacks its alias, and
// neither a template entry nor a group uses the alias; a manifest that cannot be parsed has no aliases. previous must
// not be nil; on create it has no manifest, and no stemcell is omitted.
//
// stemcells returns an error, and no other results, if the deployment has no stemcells or if a version is "latest" or
// ends with it.
func stemcells(
	template, groups any, deployed []serviceadapter.Stemcell, previous *deployedInstance,
) (list []any, defaultAlias string, err error) {
	if len(deployed) == 0 {
		return nil, "", errors.New("the deployment has no stemcells")
	}
	entries := value.Mappings(template)
	aliases := stemcellAliases(entries, deployed)
	var all []any
	for i, stemcell := range deployed {
		if err := checkExact("stemcell", stemcell.OS, stemcell.Version); err != nil {
			return nil, "", err
		}
		used := hasEntry(entries, "alias", aliases[i]) || hasEntry(value.Mappings(groups), "stemcell", aliases[i])
		if i > 0 && !used && previous.exists() && !hasEntry(previous.list("stemcells"), "alias", aliases[i]) {
			continue
		}
		entry := map[string]any{"alias": aliases[i], "version": stemcell.Version}
		if stemcell.OS != "" {
			entry["os"] = stemcell.OS
		}
		if stemcell.Name != "" {
			entry["name"] = stemcell.Name
		}
		all = append(all, entry)
	}
	return all, aliases[0], nil
}

// hasEntry reports whether at least one of the entries has exactly this text as the value of the key, for example the
// alias of a stemcell under "alias". A value that is not a string never matches.
func hasEntry(entries []map[string]any, key, text string) bool {
	return slices.ContainsFunc(entries, func(entry map[string]any) bool { return entry[key] == text })
}

// stemcellAliases returns the alias of each stemcell, in the order of stemcells. A stemcell gets the alias of the first
// unused entry of template, the stemcells in the manifest template, that has the same operating system or name. Then
// each remaining stemcell gets the alias of the first unused entry that has neither. Entries without an alias are
// ignored. A stemcell that still has no alias gets "default" if it is the first, "stemcell-2" if it is the second, and
// so on; if that alias is taken, the next free number. The arguments are not changed.
func stemcellAliases(template []map[string]any, stemcells []serviceadapter.Stemcell) []string {
	aliases, unused := make([]string, len(stemcells)), slices.Clone(template)
	assign := func(fits func(entry map[string]any, stemcell serviceadapter.Stemcell) bool) {
		for i, stemcell := range stemcells {
			at := slices.IndexFunc(unused, func(entry map[string]any) bool {
				return value.Text(entry["alias"]) != "" && fits(entry, stemcell)
			})
			if at >= 0 && aliases[i] == "" {
				aliases[i], unused = value.Text(unused[at]["alias"]), slices.Delete(unused, at, at+1)
			}
		}
	}
	assign(func(entry map[string]any, stemcell serviceadapter.Stemcell) bool {
		return entry["os"] != nil && entry["os"] == stemcell.OS ||
			entry["name"] != nil && entry["name"] == stemcell.Name
	})
	assign(func(entry map[string]any, _ serviceadapter.Stemcell) bool {
		return entry["os"] == nil && entry["name"] == nil
	})
	for i := range aliases {
		name := "default"
		for n := i; aliases[i] == ""; n++ {
			if n > 0 {
				name = fmt.Sprintf("stemcell-%d", n+1)
			}
			if !slices.Contains(aliases, name) {
				aliases[i] = name
			}
		}
	}
	return aliases
}
