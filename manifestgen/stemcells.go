package manifestgen

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/value"
)

// stemcells returns the stemcells of the manifest, and the alias of the first one, which is the default of instance
// groups. The template and groups arguments are the lists in the template; see stemcellAliases for the aliases. A
// further stemcell is omitted if the instance is deployed without its alias and neither the template nor a group uses
// the alias. It returns an error if the deployment has no stemcells or one without an exact version.
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

// hasEntry reports whether the value of the key is the text in one of the entries, such as the alias of a stemcell.
func hasEntry(entries []map[string]any, key, text string) bool {
	return slices.ContainsFunc(entries, func(entry map[string]any) bool { return entry[key] == text })
}

// stemcellAliases returns the alias of each stemcell, in the order of the stemcells: that of the template's entry with
// the same operating system or name, otherwise that of an entry with neither, in order. Each entry is used once, and
// entries without an alias are ignored. A remaining stemcell at index N-1 gets the alias "stemcell-N", or "default" if
// it is the first; if that is taken, a later number.
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
