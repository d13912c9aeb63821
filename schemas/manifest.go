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

// PreloadManifestSchema starts a goroutine that compiles the built-in JSON Schema of BOSH manifests, and returns at
// once. The first check of a manifest waits until the schema is compiled, and returns the error if that fails; without
// a preceding call, the check compiles the schema itself. Further calls have no effect. Compiling while a manifest is
// generated saves a tenth of the time of generate-manifest.
func PreloadManifestSchema() { go func() { _, _ = manifestSchema() }() }

// CheckManifest checks a decoded BOSH manifest against the built-in JSON Schema, which rejects unknown keys. It returns
// nil if the manifest satisfies the schema. Otherwise the error names the path of each fault, such as
// /instance_groups/name=redis/instances, and contains no other values of the manifest; it lists up to nine faults and
// counts the others. CheckManifest also returns an error if the check itself fails, because the schema cannot be
// compiled or JSON cannot represent a number in the manifest.
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

// A ManifestFault is one of the violations that ManifestFaults returns: a violation of the JSON Schema of BOSH
// manifests at one path in a manifest. It contains the path, such as /instance_groups/name=redis/instances, and a
// message that begins with the path and contains no values of the manifest other than names in the path. If the fault
// concerns the manifest as a whole, Path is empty and the message begins with "the manifest".
type ManifestFault struct {
	// Path is the path of the fault as in ops files. It consists of keys and, for items of lists, name=NAME or, if the
	// item has no name, the index.
	Path []string
	// Message is a sentence without values that begins with the path, such as /instance_groups/name=redis/instances.
	Message string
}

// ManifestFaults checks a decoded BOSH manifest against the built-in JSON Schema and returns the violations, one for
// each path in the manifest that has any. They are sorted by path, with the index of each list item as a text. In the
// paths of the result, a list item that has a name is name=NAME in place of its index. The result is nil if the
// manifest satisfies the schema. ManifestFaults returns an error only if the check itself fails, because the schema
// cannot be compiled or JSON cannot represent a number in the manifest.
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

// jsonNumber converts a number of any Go type to json.Number, as the library expects it, and returns nil, a bool or a
// string unchanged. It returns an error, and a result that must not be used, for a number that JSON cannot represent,
// which is an infinity or NaN.
func jsonNumber(scalar any) (any, error) {
	switch scalar.(type) {
	case nil, bool, string:
		return scalar, nil
	}
	text, err := json.Marshal(scalar)
	return json.Number(text), err
}

// named returns a copy of a path in a document in which the index of a list item is replaced by name=NAME if the item
// is a mapping with a string as its name: ["jobs", "0"] becomes ["jobs", "name=redis"]. The node is the root of the
// document to which the path belongs. Other elements stay unchanged, also those after a key or index that does not
// exist.
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
