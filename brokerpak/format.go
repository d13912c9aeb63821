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

// ManifestSchema returns a JSON Schema (draft-07) of a pak's manifest.yml, with descriptions and examples for editors.
// Every call returns a new map, which the caller may change.
func ManifestSchema() map[string]any {
	d := &document{}
	return schemaDocument("Brokerpak manifest", "The file manifest.yml of a brokerpak, Brokerpak V1.", manifestExamples,
		d.manifestKeys(&Manifest{}, &[]Path{}))
}

// DefinitionSchema returns a JSON Schema (draft-07) of a service definition, with descriptions and examples for
// editors. Every call returns a new map, which the caller may change.
func DefinitionSchema() map[string]any {
	d := &definition{document: &document{}}
	return schemaDocument("Brokerpak service definition",
		"A service definition of a brokerpak, Brokerpak V1, with the sections that this adapter adds.",
		definitionExamples, d.serviceKeys(&Service{}))
}

// schemaDocument returns the JSON Schema of a file whose top-level mapping has the given keys. The title and the
// description become keywords of the schema. The examples are YAML text with a value for each key; a key without a
// value there has no example.
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

// addExamples sets the "examples" keyword of a schema, in place, to a list with the given value alone. If the schema
// describes a mapping, or a list of mappings, it sets the examples of the keys instead, from the mapping or from the
// first mapping of the list. A key that only the schema or only the example has is ignored.
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
