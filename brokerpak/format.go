package brokerpak

import (
	_ "embed" // examples
	"maps"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
)

// The examples have a value for each key of the files.
var (
	//go:embed examples/manifest.yml
	manifestExamples string
	//go:embed examples/definition.yml
	definitionExamples string
)

// ManifestSchema returns the JSON Schema, draft-07, of a pak's manifest.yml.
func ManifestSchema() map[string]any {
	d := &document{}
	return published("Brokerpak manifest", "The file manifest.yml of a brokerpak, Brokerpak V1.", manifestExamples,
		d.manifestKeys(&Manifest{}, &[]Path{}))
}

// DefinitionSchema returns the JSON Schema, draft-07, of a service definition.
func DefinitionSchema() map[string]any {
	d := &definition{document: &document{}}
	return published("Brokerpak service definition",
		"A service definition of a brokerpak, Brokerpak V1, with the sections that this adapter adds.", definitionExamples,
		d.serviceKeys(&Service{}))
}

func published(title, description, examples string, keys fields) schema {
	made := keys.schema()
	var example any
	_ = yaml.Unmarshal([]byte(examples), &example) // a part of the program
	illustrate(made, value.Normalise(example))
	maps.Copy(made, schema{"$schema": "http://json-schema.org/draft-07/schema#", "title": title, "description": description})
	return made
}

// illustrate gives the keys of a schema, and those of the mappings below them, their values in an example.
func illustrate(s schema, example any) {
	inner := s
	alternatives, _ := s["anyOf"].([]any)
	for _, alternative := range append(alternatives, s["items"]) {
		if mapping, ok := alternative.(schema); ok && mapping["properties"] != nil {
			inner = mapping
		}
	}
	if list := value.Mappings(example); len(list) > 0 {
		example = list[0]
	}
	properties, ok := inner["properties"].(schema)
	if !ok {
		s["examples"] = []any{example}
		return
	}
	values, _ := example.(map[string]any)
	for key, item := range values {
		if property, known := properties[key].(schema); known {
			illustrate(property, item)
		}
	}
}
