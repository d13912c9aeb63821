package brokerpak

import (
	"maps"
	"strings"
)

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

// Key documents a key that this adapter adds to the format.
type Key struct{ Name, Type, Meaning string }

// AddedKeys returns the keys that this adapter adds to the format, by section: "provision.bosh", "provision" and "bind".
func AddedKeys() map[string][]Key {
	d := &definition{document: &document{}}
	return map[string][]Key{
		"provision.bosh": documented(d.boshKeys(&Bosh{})), "provision": documented(d.provisionKeys(&Action{})), "bind": documented(d.bindKeys(&Action{})),
	}
}

func documented(f fields) []Key {
	var keys []Key
	for _, r := range f {
		keys = append(keys, Key{Name: r.name, Type: r.typeWords(), Meaning: r.doc})
	}
	return keys
}

// typeWords say what a value is, with the keys of the mappings in it.
func (f field) typeWords() string {
	if f.rows == nil {
		return f.words
	}
	var names []string
	for _, r := range f.rows() {
		names = append(names, r.name)
	}
	keys := "`{" + strings.Join(names, ", ") + "}`"
	if f.words == "mapping" {
		return keys
	}
	return f.words + " of " + keys
}
