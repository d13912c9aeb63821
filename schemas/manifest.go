package schemas

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/xeipuuv/gojsonschema"
)

// manifestSchema describes BOSH manifests, version 2, as the Director accepts them and the on-demand broker can compare
// them; unknown keys are refused. Besides, the top-level key "brokerpak" is a string.
//
//go:embed bosh-manifest-v2.schema.json
var manifestSchema string

// CheckManifest checks a BOSH manifest. The error names the place of each fault, as in
// /instance_groups/name=redis/instances, and shows no value.
func CheckManifest(tree map[string]any) error {
	schema, err := gojsonschema.NewSchema(gojsonschema.NewStringLoader(manifestSchema))
	if err != nil {
		return fmt.Errorf("reading the schema of BOSH manifests: %w", err)
	}
	result, err := schema.Validate(gojsonschema.NewGoLoader(tree))
	if err != nil {
		return fmt.Errorf("checking the BOSH manifest: %w", err)
	}
	var failed findings
	failed.collect(result)
	faults := limit(failed.sentences(func(path []string) string { return place(tree, path) }))
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("checking the BOSH manifest: %s", strings.Join(faults, "; "))
}

// place writes a path as ops files do: an item of a list is called by its name where it has one.
func place(node any, path []string) string {
	if len(path) == 0 {
		return "the manifest"
	}
	var text strings.Builder
	for _, element := range path {
		switch parent := node.(type) {
		case map[string]any:
			node = parent[element]
		case []any:
			node = item(parent, element)
			if named, ok := node.(map[string]any); ok {
				if name, ok := named["name"].(string); ok {
					element = "name=" + name
				}
			}
		}
		text.WriteString("/" + strings.ReplaceAll(quote(element), `"`, ""))
	}
	return text.String()
}

func item(list []any, index string) any {
	if i, err := strconv.Atoi(index); err == nil && i >= 0 && i < len(list) {
		return list[i]
	}
	return nil
}
