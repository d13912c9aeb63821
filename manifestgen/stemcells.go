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
// name, else that of an entry with neither, in order. It returns the first alias, the default of instance groups.
func (w *generation) stemcells(template any) ([]any, string, error) {
	if len(w.Deployment.Stemcells) == 0 {
		return nil, "", errors.New("the deployment has no stemcells")
	}
	aliases := stemcellAliases(mappings(template), w.Deployment.Stemcells)
	var all []any
	for i, stemcell := range w.Deployment.Stemcells {
		if strings.HasSuffix(stemcell.Version, "latest") {
			return nil, "", fmt.Errorf("stemcell %q has the version %q; the broker needs an exact version", stemcell.OS, stemcell.Version)
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
