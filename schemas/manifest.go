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

// manifestText is the JSON schema of BOSH manifests, version 2, as the Director accepts them and the on-demand broker
// can compare them. It rejects unknown keys. In addition, it allows the adapter's own top-level keys: "brokerpak", a
// string, and "brokerpak_outputs", a mapping of strings.
//
//go:embed bosh-manifest-v2.schema.json
var manifestText string

// manifestSchema compiles manifestText when it is first called.
var manifestSchema = sync.OnceValues(func() (*gojsonschema.Schema, error) { //nolint:gochecknoglobals // a constant
	return gojsonschema.NewSchema(gojsonschema.NewStringLoader(manifestText))
})

// PreloadManifestSchema starts to compile the schema of BOSH manifests in the background and returns at once. The first
// check waits until the schema is compiled, and returns the error if that fails. Further calls have no effect.
// Compiling while a manifest is generated saves a tenth of the time of generate-manifest.
func PreloadManifestSchema() { go func() { _, _ = manifestSchema() }() }

// CheckManifest returns an error if a BOSH manifest violates the schema, or if the check itself fails. The error names
// the path of each fault, such as /instance_groups/name=redis/instances, and contains no values. It lists up to nine
// faults and counts the others. The error is nil if there are none.
func CheckManifest(tree map[string]any) error {
	all, err := ManifestFaults(tree)
	if err != nil {
		return err
	}
	faults := limit(value.Convert(all, func(fault ManifestFault) string { return fault.Message }))
	if len(faults) > 0 {
		return fmt.Errorf("checking the BOSH manifest: %s", strings.Join(faults, "; "))
	}
	return nil
}

// A ManifestFault is a violation of the schema in a BOSH manifest.
type ManifestFault struct {
	// Path is the path of the fault as in ops files. It consists of keys and, for items of lists, name=NAME or, if the
	// item has no name, the index.
	Path []string
	// Message is a sentence without values that begins with the path, such as /instance_groups/name=redis/instances.
	Message string
}

// ManifestFaults checks a BOSH manifest against the schema and returns all faults, sorted by path, or nil if there are
// none. It returns an error only if the check itself fails, as for a number that JSON cannot represent.
func ManifestFaults(tree map[string]any) ([]ManifestFault, error) {
	schema, err := manifestSchema()
	if err != nil {
		return nil, fmt.Errorf("reading the schema of BOSH manifests: %w", err)
	}
	// The manifest is converted in memory, because encoding and decoding a large one as JSON would take longer.
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
	for _, item := range failed.byPath() {
		location, path := "", named(tree, item.path)
		for _, element := range path {
			location += "/" + strings.ReplaceAll(quote(element), `"`, "")
		}
		faults = append(faults, ManifestFault{Path: path, Message: cmp.Or(location, "the manifest") + " " + item.text})
	}
	return faults, nil
}

// jsonNumber converts a number to json.Number, as the library expects it, and returns any other scalar as it is. It
// returns an error for a number that JSON cannot represent.
func jsonNumber(scalar any) (any, error) {
	switch scalar.(type) {
	case nil, bool, string:
		return scalar, nil
	}
	text, err := json.Marshal(scalar)
	return json.Number(text), err
}

// named returns a copy of a path in which the index of a list item is replaced by name=NAME if the item has a name. The
// node is the root of the document. The rest of a path that leads out of the document stays unchanged.
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
