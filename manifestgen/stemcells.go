package manifestgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/value"
)

// stemcells gives the deployment's stemcells the aliases of the template: that of an entry with the same operating system or
// name, else that of an entry with neither, in order. It returns the first alias, the default of instance groups. What the deployed
// instance runs without, and no group names, is left out.
func (w *generation) stemcells(template, groups any) ([]any, string, error) {
	if len(w.Deployment.Stemcells) == 0 {
		return nil, "", errors.New("the deployment has no stemcells")
	}
	aliases := stemcellAliases(mappings(template), w.Deployment.Stemcells)
	var all []any
	for i, stemcell := range w.Deployment.Stemcells {
		if strings.HasSuffix(stemcell.Version, "latest") {
			return nil, "", fmt.Errorf("stemcell %q has the version %q; the broker needs an exact version", stemcell.OS, stemcell.Version)
		}
		if i > 0 && !hasAlias(template, aliases[i]) && !uses(groups, aliases[i]) && w.deployedWithout(aliases[i]) {
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

// hasAlias tells whether the template has an alias.
func hasAlias(template any, alias string) bool {
	return slices.ContainsFunc(mappings(template), func(entry map[string]any) bool { return entry["alias"] == alias })
}

// uses tells whether an instance group names a stemcell.
func uses(groups any, alias string) bool {
	return slices.ContainsFunc(mappings(groups), func(group map[string]any) bool { return group["stemcell"] == alias })
}

// deployedWithout tells whether there is a previous manifest, which lacks a stemcell.
func (w *generation) deployedWithout(alias string) bool {
	if len(w.PreviousManifest) == 0 {
		return false
	}
	root, _ := w.old.root() // what cannot be read was refused before
	tree, _ := root.(map[string]any)
	return !hasAlias(tree["stemcells"], alias)
}

// stemcellAliases returns the alias of each stemcell. No entry of the template serves twice.
func stemcellAliases(template []map[string]any, stemcells []serviceadapter.Stemcell) []string {
	aliases := make([]string, len(stemcells))
	used := make([]bool, len(template))
	assign := func(fits func(entry map[string]any, stemcell serviceadapter.Stemcell) bool) {
		for i, stemcell := range stemcells {
			for n, entry := range template {
				alias := value.Text(entry["alias"])
				if aliases[i] == "" && !used[n] && alias != "" && fits(entry, stemcell) {
					aliases[i], used[n] = alias, true
				}
			}
		}
	}
	assign(func(entry map[string]any, stemcell serviceadapter.Stemcell) bool {
		return entry["os"] != nil && entry["os"] == stemcell.OS || entry["name"] != nil && entry["name"] == stemcell.Name
	})
	assign(func(entry map[string]any, _ serviceadapter.Stemcell) bool {
		return entry["os"] == nil && entry["name"] == nil
	})
	for i := range aliases {
		if aliases[i] != "" {
			continue
		}
		for n := i; aliases[i] == ""; n++ {
			if name := generatedAlias(n); !slices.Contains(aliases, name) {
				aliases[i] = name
			}
		}
	}
	return aliases
}

func generatedAlias(index int) string {
	if index == 0 {
		return "default"
	}
	return fmt.Sprintf("stemcell-%d", index+1)
}
