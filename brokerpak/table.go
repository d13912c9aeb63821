package brokerpak

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// Each key of the format is declared once, by a struct tag of the model or as a row of a table. The decoder, the JSON
// Schemas for editors and the documentation of the keys that this adapter adds are derived from these declarations.

// A schema is a JSON Schema (draft-07) as a tree of Go values: its keys are keywords, such as "type". An empty schema
// allows any value.
type schema = map[string]any

// A field describes the value of one key of a YAML mapping in a pak's files, and decodes it: it contains descriptions
// for documentation, a function that creates the JSON Schema of the value, and a function that stores the value of a
// node in a Go variable and reports errors. It also contains the marks required and alternative, which document.mapping
// checks. The variable is the target with which the field was created. The zero field cannot be used.
type field struct {
	// words describes the type of the value for documentation, such as "list of texts".
	words string
	// doc is the meaning of the key for documentation. It is "" if the struct tag `doc` contains it.
	doc string
	// rows returns the keys of the value if it is a mapping, or of each entry if it is a list of mappings. It is nil
	// for other values.
	rows func() fields
	// newSchema returns a new schema of the value. It is a function because decoding rarely needs the schema.
	newSchema func() schema
	// decode stores the value of a node in the variable for which the field was created, and reports errors.
	decode func(node *yaml.Node)
	// required means that the key must be present and not empty.
	required bool
	// alternative means that exactly one of the alternative keys of a mapping must be present.
	alternative bool
}

// A row is a key that a YAML mapping may have: its name, its meaning for documentation ("" if it has none), and the
// field that describes its value and decodes it.
type row struct {
	name, doc string
	field
}

// fields are the keys that a YAML mapping in a pak's files may have, in the order of the documentation, each with its
// meaning and the field that decodes its value. If some keys are marked as alternatives, a mapping must have exactly
// one of these. With nil fields, every key of a mapping is unknown; see document.mapping.
type fields []row

// required returns a copy of f for a key that must be present, with a value other than null, an empty string or an
// empty list; an empty mapping is allowed. The JSON Schema of the copy does not allow null in its keyword type. The
// decoding of f itself does not change: document.mapping reports a missing or empty key as an error.
func required(f field) field {
	f.required = true
	return f.withSchema(nil)
}

// alternative returns a copy of f for a key that is one of several alternatives: exactly one of the keys of a mapping
// that have this mark must be present, with a value other than null. document.mapping reports an error otherwise. The
// decoding of f itself does not change.
func alternative(f field) field {
	f.alternative = true
	return f
}

// withSchema returns a copy of the field in whose JSON Schema the given keywords replace those of the same names;
// keywords may be nil and is not changed. If f is marked as required, "null" is then removed from the list in the
// keyword type; if f is marked later, the function required removes it. Decoding does not change.
func (f field) withSchema(keywords schema) field {
	create, required := f.newSchema, f.required
	f.newSchema = func() schema {
		merged := create()
		maps.Copy(merged, keywords)
		if kinds, ok := merged["type"].([]any); ok && required {
			merged["type"] = slices.DeleteFunc(slices.Clone(kinds), func(kind any) bool { return kind == "null" })
		}
		return merged
	}
	return f
}

// withTypeWords returns a copy of the field with another text, such as "list of texts", that describes the type of the
// value in documentation. Decoding and the JSON Schema do not change.
func (f field) withTypeWords(words string) field {
	f.words = words
	return f
}

// withDoc returns a copy of the field with another description of the key for documentation. It takes precedence over
// the struct tag `doc` unless it is "", and is for descriptions that are too long for a tag. Decoding does not change.
func (f field) withDoc(doc string) field {
	f.doc = doc
	return f
}

// keys returns descriptions of the keys that the tags of a struct declare, in the order of its fields. target is a
// pointer to the struct, in whose fields decoding stores the values; keys panics for any other type. The tags are
// `key:"NAME"`, `key:"NAME,required"` or `key:"NAME,alternative"`, and `doc:"MEANING"`. Struct fields without a key tag
// are left out, and the keys of an embedded struct are keys of the outer one.
//
// overrides contains, by key, a field that replaces the one that fieldFor derives from the Go type. It may be nil, and
// keys in it that the struct does not declare are ignored. section is a prefix of the key names in error messages, such
// as "requires.", or "".
func (d *document) keys(section string, target any, overrides map[string]field) fields {
	var rows fields
	structure := reflect.ValueOf(target).Elem()
	for i := range structure.NumField() {
		if structure.Type().Field(i).Anonymous {
			rows = append(rows, d.keys(section, structure.Field(i).Addr().Interface(), overrides)...)
			continue
		}
		tag := structure.Type().Field(i).Tag
		name, option, _ := strings.Cut(tag.Get("key"), ",")
		if name == "" {
			continue
		}
		f, overridden := overrides[name]
		if !overridden {
			f = d.fieldFor(section+name, structure.Field(i).Addr().Interface())
		}
		switch option {
		case "required":
			f = required(f)
		case "alternative":
			f = alternative(f)
		}
		rows = append(rows, row{name, cmp.Or(f.doc, tag.Get("doc")), f})
	}
	return rows
}

// fieldFor returns the field for a key whose value is decoded according to the Go type of target, which must be a
// pointer to a string, bool, int, []string, map[string]string, map[string]any, *expr.Template or
// map[string]*expr.Template. For any other type, the decoding function of the field panics if the value of the key is
// a mapping. Decoding adds an error to the diagnostics of d for a value of the wrong type, but not for null. The
// label names the value in error messages.
func (d *document) fieldFor(label string, target any) field {
	switch target := target.(type) {
	case *string:
		return d.text(label, target)
	case *[]string:
		return d.texts(label, target)
	case *bool:
		return d.boolean(label, target)
	case *int:
		return d.integer(label, target)
	case *map[string]string:
		return d.textMap(label, target)
	case **expr.Template:
		return d.expression(label, target)
	case *map[string]*expr.Template:
		return d.expressions(label, target)
	default:
		object, _ := target.(*map[string]any)
		return d.object(label, object)
	}
}

// typed returns a function that returns a new JSON Schema at each call. The schema allows null and values of the given
// JSON types, such as "string" and "number".
func typed(kinds ...any) func() schema {
	return func() schema { return schema{"type": append(slices.Clone(kinds), "null")} }
}

// oneOf returns a new JSON Schema (an enum) of a value that must equal one of the given values, which may be nil for
// null. Duplicates are removed; the values must be comparable with ==. At least one value is required.
func oneOf(values ...any) schema {
	var each []any
	for _, v := range values {
		if !slices.Contains(each, v) {
			each = append(each, v)
		}
	}
	return schema{"enum": each}
}

// listOf returns a function that returns a new JSON Schema at each call. The schema allows null, and lists whose
// elements have the schema that the function item returns.
func listOf(item func() schema) func() schema {
	return func() schema { return schema{"type": []any{"array", "null"}, "items": item()} }
}

// mapOf returns a function that returns a new JSON Schema at each call. The schema allows null, and mappings with any
// keys whose values have the schema that the function item returns.
func mapOf(item func() schema) func() schema {
	return func() schema { return schema{"type": []any{"object", "null"}, "additionalProperties": item()} }
}

// schema returns a new JSON Schema of a mapping that has these keys and no others, with the keys' meanings as
// descriptions. Keys marked as required must be present, and of the keys marked as alternatives exactly one. The schema
// does not allow null instead of the mapping.
func (f fields) schema() schema {
	properties, requiredNames, alternatives := schema{}, []any{}, []any{}
	for _, r := range f {
		property := r.newSchema()
		property["description"] = r.doc
		properties[r.name] = property
		if r.required {
			requiredNames = append(requiredNames, r.name)
		}
		if r.alternative {
			alternatives = append(alternatives, schema{"required": []any{r.name}})
		}
	}
	result := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(requiredNames) > 0 {
		result["required"] = requiredNames
	}
	if len(alternatives) > 0 {
		result["oneOf"] = alternatives
	}
	return result
}

// names returns the names of the keys, sorted. It returns nil if there are none.
func (f fields) names() []string {
	return slices.Sorted(slices.Values(value.Convert(f, func(r row) string { return r.name })))
}

// mapping decodes a YAML mapping. For each of its keys, in the order of the file, it calls the decoding function of the
// key, which stores the value in its target. keys are the keys that the mapping may have, and label names the mapping
// in error messages. The result contains the nodes of the values, for further checks.
//
// mapping adds errors to the diagnostics of d for values that cannot be decoded, for required keys that are missing or
// empty, for alternative keys unless exactly one is present, and for unknown keys, which are only warnings unless
// strict is true. A node that is not a mapping, or is null, is reported as an error; no key is decoded then, and the
// result has no nodes.
func (d *document) mapping(node *yaml.Node, label string, strict bool, keys fields) mappingNode {
	decoded := mappingNode{document: d, pos: d.pos(node), values: map[string]*yaml.Node{}}
	if yamltree.IsNull(node) {
		d.errorf(node, "type", "%s must be a mapping, not null", label)
		return decoded
	}
	for key, item := range d.pairs(node, label) {
		index := slices.IndexFunc(keys, func(r row) bool { return r.name == key.Value })
		if index >= 0 {
			decoded.values[key.Value] = item
			keys[index].decode(item)
			continue
		}
		d.reportUnknownKey(key, label, strict, keys)
	}
	if node.Kind == yaml.MappingNode {
		d.checkPresence(decoded, label, keys)
	}
	return decoded
}

// reportUnknownKey adds a diagnostic for a key that the format does not define to the diagnostics of d: an error if
// strict is true, otherwise a warning that the key is ignored. The message contains the most similar allowed key or, if
// none is similar, the list of the allowed keys. name is the node of the key, label names the mapping in the message,
// and keys are the allowed keys.
func (d *document) reportUnknownKey(name *yaml.Node, label string, strict bool, keys fields) {
	hint, names := diag.Suggest(name.Value, keys.names()), ""
	if hint == "" {
		names = "; allowed: " + diag.Names(keys.names())
	}
	if strict {
		d.errorf(name, "unknown-key", "unknown key %q in %s%s%s", name.Value, label, hint, names)
		return
	}
	d.diags.Warnf(d.pos(name), "unknown-key", "unknown key %q in %s is ignored%s%s", name.Value, label, hint, names)
}

// checkPresence adds errors to the diagnostics of d for keys marked as required that are missing or have the value
// null, an empty string or an empty list, and for keys marked as alternatives if none or more than one of them is
// present. An alternative with the value null counts as missing, but one with an empty string or list as present.
// decoded contains the nodes of the mapping, label names the mapping in the messages, and keys are the keys that it may
// have.
func (d *document) checkPresence(decoded mappingNode, label string, keys fields) {
	var alternatives, present []string
	for _, r := range keys {
		if r.required && !decoded.nonEmpty(r.name) {
			d.failf(decoded.posOf(r.name), "required", "%s of %s is required and must not be empty", r.name, label)
		}
		if r.alternative {
			alternatives = append(alternatives, r.name)
		}
		if r.alternative && decoded.has(r.name) {
			present = append(present, r.name)
		}
	}
	switch {
	case len(alternatives) > 0 && len(present) == 0:
		d.failf(decoded.pos, "required", "%s needs %s", label, strings.Join(alternatives, " or "))
	case len(present) > 1:
		d.failf(decoded.posOf(present[1]), "conflict", "%s may have only one of %s", label,
			strings.Join(alternatives, " and "))
	}
}

// section returns the field of a key whose value is a mapping. The function table returns descriptions of the keys of
// the mapping, and is called for each decoding. After the mapping has been decoded, even with errors, done is called
// with its nodes; done may be nil. If the value is null, no key is decoded and done is not called. A value that is
// neither null nor a mapping is reported as an error in the diagnostics of d, and done is called without nodes. The
// label names the mapping in error messages. Unknown keys are errors if strict is true, otherwise warnings.
func (d *document) section(label string, strict bool, table func() fields, done func(decoded mappingNode)) field {
	return field{
		words: "mapping", rows: table,
		newSchema: func() schema { return schema{"anyOf": []any{schema{"type": "null"}, table().schema()}} },
		decode: func(node *yaml.Node) {
			if yamltree.IsNull(node) {
				return
			}
			decoded := d.mapping(node, label, strict, table())
			if done != nil {
				done(decoded)
			}
		},
	}
}

// entries returns the field of a key whose value is a list of mappings; decoding appends each of them to target as a T,
// which must be a struct. The function table returns descriptions of the keys of an entry; if it is nil, the tags of T
// declare the keys (see keys). If T has a field Pos, it is set to the position of the entry.
//
// After an entry has been decoded, even with errors, accept is called with its nodes and may change the entry; if
// accept returns false, the entry is not appended. A nil accept appends every entry.
//
// Null is an empty list, and any other value that is not a list is reported as an error in the diagnostics of d. In an
// entry, missing or empty required keys are errors, and so are alternative keys unless exactly one of them is present.
// Unknown keys are errors if strict is true, otherwise warnings. An element that is null or any other value except a
// mapping is reported as a single error, and its required and alternative keys are not checked; accept is called for it
// without nodes. The label names the list in error messages.
func entries[T any](
	d *document, label string, strict bool, target *[]T,
	table func(entry *T) fields, accept func(decoded mappingNode, entry *T) bool,
) field {
	if table == nil {
		table = func(entry *T) fields { return d.keys("", entry, nil) }
	}
	return field{
		words: "list", rows: func() fields { return table(new(T)) },
		newSchema: func() schema {
			return schema{"type": []any{"array", "null"}, "items": table(new(T)).schema()}
		},
		decode: func(node *yaml.Node) {
			d.sequence(node, label, func(element *yaml.Node) {
				var entry T
				decoded := d.mapping(element, "an entry of "+label, strict, table(&entry))
				if pos := reflect.ValueOf(&entry).Elem().FieldByName("Pos"); pos.IsValid() {
					pos.Set(reflect.ValueOf(decoded.pos))
				}
				if accept == nil || accept(decoded, &entry) {
					*target = append(*target, entry)
				}
			})
		},
	}
}
