package schemas

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/xeipuuv/gojsonschema"

	"service-adapter/internal/value"
)

// manifestText describes BOSH manifests, version 2, as the Director accepts them and the on-demand broker can compare
// them; unknown keys are refused. Besides, the top-level key "brokerpak" is a string, and
// "brokerpak_outputs" a mapping of strings.
//
//go:embed bosh-manifest-v2.schema.json
var manifestText string

var manifestSchema = sync.OnceValues(func() (*gojsonschema.Schema, error) { //nolint:gochecknoglobals // a constant, made when it is needed
	return gojsonschema.NewSchema(gojsonschema.NewStringLoader(manifestText))
})

// ExpectManifest begins to read the schema of BOSH manifests, for which the first check waits. Read while a manifest is made, it costs a
// generate-manifest a tenth less time.
func ExpectManifest() { go func() { _, _ = manifestSchema() }() }

// CheckManifest checks a BOSH manifest. The error names the place of each fault, as in
// /instance_groups/name=redis/instances, and shows no value.
func CheckManifest(tree map[string]any) error {
	found, err := ManifestFaults(tree)
	if err != nil {
		return err
	}
	faults := limit(value.Each(found, func(fault ManifestFault) string { return fault.Message }))
	if len(faults) > 0 {
		return fmt.Errorf("checking the BOSH manifest: %s", strings.Join(faults, "; "))
	}
	return nil
}

// ManifestFault says what is wrong at a place of a manifest. Path leads to it as in ops files: keys, name=NAME for an item of a list that has
// a name, else its index. The message begins with the place, as in /instance_groups/name=redis/instances.
type ManifestFault struct {
	Path    []string
	Message string
}

// ManifestFaults checks a BOSH manifest and returns all faults, sorted by place. The error means that the check failed.
func ManifestFaults(tree map[string]any) ([]ManifestFault, error) {
	schema, err := manifestSchema()
	if err != nil {
		return nil, fmt.Errorf("reading the schema of BOSH manifests: %w", err)
	}
	// A manifest may be large: it becomes what the library looks into without a text of JSON in between.
	document, err := value.Map(tree, jsonNumber)
	if err != nil {
		return nil, fmt.Errorf("checking the BOSH manifest: %w", err)
	}
	result, err := schema.Validate(gojsonschema.NewRawLoader(document))
	if err != nil {
		return nil, fmt.Errorf("checking the BOSH manifest: %w", err)
	}
	var failed findings
	failed.collect(result)
	var faults []ManifestFault
	for _, found := range failed.byPlace() {
		place, path := "", named(tree, found.path)
		for _, element := range path {
			place += "/" + strings.ReplaceAll(quote(element), `"`, "")
		}
		faults = append(faults, ManifestFault{Path: path, Message: cmp.Or(place, "the manifest") + " " + found.text})
	}
	return faults, nil
}

// jsonNumber makes a number one of JSON.
func jsonNumber(scalar any) (any, error) {
	switch scalar.(type) {
	case nil, bool, string:
		return scalar, nil
	}
	text, err := json.Marshal(scalar)
	return json.Number(text), err
}

// named is a path on which items of lists are called by their names, where they have one.
func named(node any, path []string) []string {
	all := slices.Clone(path)
	for i, element := range path {
		switch parent := node.(type) {
		case map[string]any:
			node = parent[element]
		case []any:
			index, err := strconv.Atoi(element)
			if err != nil || index < 0 || index >= len(parent) {
				return all
			}
			node = parent[index]
			if item, ok := node.(map[string]any); ok {
				if name, ok := item["name"].(string); ok {
					all[i] = "name=" + name
				}
			}
		}
	}
	return all
}
