package brokerpak

import "maps"

// ManifestSchema returns the JSON Schema, draft-07, of a pak's manifest.yml.
func ManifestSchema() map[string]any {
	d := &document{}
	return published("Brokerpak manifest", "The file manifest.yml of a brokerpak, Brokerpak V1.", d.manifestKeys(&Manifest{}, &[]Path{}))
}

// DefinitionSchema returns the JSON Schema, draft-07, of a service definition.
func DefinitionSchema() map[string]any {
	d := &definition{document: &document{}}
	return published("Brokerpak service definition",
		"A service definition of a brokerpak, Brokerpak V1, with the sections that this adapter adds.", d.serviceKeys(&Service{}, new(int)))
}

func published(title, description string, keys fields) schema {
	made := keys.schema()
	maps.Copy(made, schema{"$schema": "http://json-schema.org/draft-07/schema#", "title": title, "description": description})
	return made
}
