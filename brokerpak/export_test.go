package brokerpak

import (
	"bytes"
	"io/fs"
	"slices"
	"strings"

	"service-adapter/internal/value"
)

// OpenFiles opens a pak from any file system, for fuzz tests. The error is a diag.Errors if the content is invalid.
func OpenFiles(files fs.FS) (*Pak, error) {
	pak, diags, err := load(&Pak{Path: "pak", files: files})
	if err != nil {
		return nil, err
	}
	return pak, diags.Err()
}

// OpenZip opens a pak from the bytes of a zip, for fuzz tests. The error is a diag.Errors if the content is invalid.
func OpenZip(data []byte) (*Pak, error) {
	archive, err := readIndex(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	pak, diags, err := load(&Pak{Path: "pak.brokerpak", files: archive, archive: archive})
	if err != nil {
		return nil, err
	}
	return pak, diags.Err()
}

// A Key documents a key that this adapter adds to the format.
type Key struct{ Name, Type, Meaning string }

// DocumentedKeys returns the keys that docs/format.md documents, by section. The sections "a definition",
// "provision.bosh", "provision" and "bind" have the keys that this adapter adds to the format, "user_inputs" and
// "constraints" have all keys, and "a plan" has those that set inputs.
func DocumentedKeys() map[string][]Key {
	d := &definition{document: &document{}}
	published := func(r row) bool { return r.name != "requires_commands" }
	return map[string][]Key{
		"a definition":   documented(slices.DeleteFunc(d.serviceKeys(&Service{}), published)),
		"provision.bosh": documented(d.boshKeys(&Bosh{})),
		"provision":      documented(d.provisionKeys(&Action{})),
		"bind":           documented(d.bindKeys(&Action{})),
		"user_inputs":    documented(d.variableKeys("user_inputs", &Variable{})),
		"constraints":    documentedConstraints(),
		"a plan": documented(slices.DeleteFunc((&definition{document: d.document}).planKeys(&Plan{}), func(r row) bool {
			return r.name != "properties" && !strings.HasSuffix(r.name, "_overrides")
		})),
	}
}

// documentedConstraints returns the documentation of the keywords for constraints, sorted by name.
func documentedConstraints() []Key {
	all := constraintKeywords()
	var keys []Key
	for _, name := range value.Keys(all) {
		keyword := all[name].(schema)
		words := "any"
		if kinds, ok := keyword["type"].([]any); ok {
			words = strings.Join(value.Convert(kinds, func(kind any) string { return kind.(string) }), " or ")
		}
		keys = append(keys, Key{Name: name, Type: words, Meaning: keyword["description"].(string)})
	}
	return keys
}

// documented returns the documentation of the keys of a table.
func documented(f fields) []Key {
	var keys []Key
	for _, r := range f {
		keys = append(keys, Key{Name: r.name, Type: r.typeWords(), Meaning: r.doc})
	}
	return keys
}

// typeWords returns the description of a value's type. For a mapping or a list of mappings it includes the keys.
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
