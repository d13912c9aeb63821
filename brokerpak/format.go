package brokerpak

import (
	_ "embed" // embeds the example files
	"maps"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
)

// The example files have a value for every key of the format. Their values become the examples in the JSON Schemas.
var (
	//go:embed examples/manifest.yml
	manifestExamples string
	//go:embed examples/definition.yml
	definitionExamples string
)

// ManifestSchema returns a JSON Schema (draft-07) of the file manifest.yml of a pak. It contains descriptions and
// examples of the keys, which editors can show. Every call returns a new map, which the caller may change.
func ManifestSchema() map[string]any {
	d := &document{}
	return schemaDocument("Brokerpak manifest", "The file manifest.yml of a brokerpak, Brokerpak V1.", manifestExamples,
		d.manifestKeys(&Manifest{}, &[]Path{}))
}

// DefinitionSchema returns a JSON Schema (draft-07) of a service definition, including the sections that this adapter
// adds to Brokerpak V1. It contains descriptions and examples of the keys, which editors can show. Every call returns a
// new map, which the caller may change.
func DefinitionSchema() map[string]any {
	d := &definition{document: &document{}}
	return schemaDocument("Brokerpak service definition",
		"A service definition of a brokerpak, Brokerpak V1, with the sections that this adapter adds.",
		definitionExamples, d.serviceKeys(&Service{}))
}

// schemaDocument returns the JSON Schema (draft-07) of a YAML file whose top-level mapping has the described keys and
// no others. The title and the description become keywords of the schema. The parameter examples is the text of a YAML
// mapping with a value for each key, which becomes the example of the key; see addExamples for keys whose values are
// mappings. A key without a value in the text gets no example. If the text is not valid YAML, no key gets one; that is
// not reported.
func schemaDocument(title, description, examples string, keys fields) schema {
	document := keys.schema()
	var example any
	_ = yaml.Unmarshal([]byte(examples), &example) // cannot fail: the text is embedded in the program
	addExamples(document, value.Normalise(example))
	maps.Copy(document, schema{
		"$schema": "http://json-schema.org/draft-07/schema#", "title": title, "description": description,
	})
	return document
}

// addExamples sets the keyword "examples" of a JSON Schema, in place, to a list that contains only the example. If the
// schema describes a mapping with known keys, or a list of such mappings, it instead sets the examples of the keys,
// recursively. Their values are those in the example mapping or, if the example is a list, in its first mapping. Keys
// that exist only in the schema or only in the example are ignored, and so is an example of another type.
func addExamples(s schema, example any) {
	inner := s
	alternatives, _ := s["anyOf"].([]any)
	for _, alternative := range append(alternatives, s["items"]) {
		if mapping, ok := alternative.(schema); ok && mapping["properties"] != nil {
			inner = mapping
		}
	}
	properties, ok := inner["properties"].(schema)
	if !ok {
		s["examples"] = []any{example}
		return
	}
	if list := value.Mappings(example); len(list) > 0 {
		example = list[0]
	}
	values, _ := example.(map[string]any)
	for key, item := range values {
		if property, ok := properties[key].(schema); ok {
			addExamples(property, item)
		}
	}
}
