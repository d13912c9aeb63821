package schemas

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/xeipuuv/gojsonschema"
)

// manifestSchema describes BOSH manifests, version 2, as the Director accepts them and the on-demand broker can compare
// them; unknown keys are refused. Besides, the top-level key "brokerpak" is a string, and
// "brokerpak_outputs" a mapping of strings.
//
//go:embed bosh-manifest-v2.schema.json
var manifestSchema string

// CheckManifest checks a BOSH manifest. The error names the place of each fault, as in
// /instance_groups/name=redis/instances, and shows no value.
func CheckManifest(tree map[string]any) error {
	found, err := ManifestFaults(tree)
	if err != nil {
		return err
	}
	var faults []string
	for _, fault := range found {
		faults = append(faults, fault.Message)
	}
	if faults = limit(faults); len(faults) > 0 {
		return fmt.Errorf("checking the BOSH manifest: %s", strings.Join(faults, "; "))
	}
	return nil
}

// ManifestFault says what is wrong at a place of a manifest. Path leads to it: keys, indices as decimal numbers. The message
// begins with the place as in /instance_groups/name=redis/instances.
type ManifestFault struct {
	Path    []string
	Message string
}

// ManifestFaults checks a BOSH manifest and returns all faults, sorted by place. The error means that the check failed.
func ManifestFaults(tree map[string]any) ([]ManifestFault, error) {
	schema, err := gojsonschema.NewSchema(gojsonschema.NewStringLoader(manifestSchema))
	if err != nil {
		return nil, fmt.Errorf("reading the schema of BOSH manifests: %w", err)
	}
	result, err := schema.Validate(gojsonschema.NewGoLoader(tree))
	if err != nil {
		return nil, fmt.Errorf("checking the BOSH manifest: %w", err)
	}
	var failed findings
	failed.collect(result)
	var paths [][]string
	sentences := failed.sentences(func(path []string) string {
		paths = append(paths, path)
		return place(tree, path)
	})
	faults := make([]ManifestFault, len(sentences))
	for i, sentence := range sentences {
		faults[i] = ManifestFault{Path: paths[i], Message: sentence}
	}
	return faults, nil
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
