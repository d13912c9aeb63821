package brokerpak

import (
	"bytes"
	"io/fs"
	"slices"
	"strings"
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

// AddedKeys returns the keys that this adapter adds to the format, by section: "a definition", "provision.bosh",
// "provision" and "bind".
func AddedKeys() map[string][]Key {
	d := &definition{document: &document{}}
	published := func(r row) bool { return r.name != "requires_commands" }
	return map[string][]Key{
		"a definition":   documented(slices.DeleteFunc(d.serviceKeys(&Service{}), published)),
		"provision.bosh": documented(d.boshKeys(&Bosh{})),
		"provision":      documented(d.provisionKeys(&Action{})),
		"bind":           documented(d.bindKeys(&Action{})),
	}
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
