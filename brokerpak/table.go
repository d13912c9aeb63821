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

// A schema is a JSON Schema (draft-07).
type schema = map[string]any

// A field describes the value of a key and decodes it.
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

// A row is a key of a mapping: its name, its meaning, and the description of its value.
type row struct {
	name, doc string
	field
}

// fields are the keys that a mapping may have, with the descriptions of their values. If some of them are alternatives,
// a mapping must have exactly one of these.
type fields []row

// required returns a copy of a field whose key must be present, with a value other than null, an empty string or an
// empty list; an empty mapping is allowed. Its schema does not allow null. document.mapping reports violations.
func required(f field) field {
	f.required = true
	return f.withSchema(nil)
}

// alternative returns a copy of a field as that of an alternative key. Exactly one of the alternative keys of a mapping
// must be present; document.mapping reports violations.
func alternative(f field) field {
	f.alternative = true
	return f
}

// withSchema returns a copy of the field whose schema is overlaid with the given keywords, which may be nil. If f is
// required, the type "null" is removed from the schema.
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

// withTypeWords returns a copy of the field with another description of the value's type for documentation.
func (f field) withTypeWords(words string) field {
	f.words = words
	return f
}

// withDoc returns a copy of the field with a description of the key for documentation, which replaces that of the
// struct tag. It is for descriptions that are too long for a tag.
func (f field) withDoc(doc string) field {
	f.doc = doc
	return f
}

// keys returns the keys that the tags of a struct declare, in the order of its fields. The keys of an embedded struct
// are keys of the outer one, and fields without a key tag are left out. The target is a pointer to the struct into
// which the values are decoded. The tags are `key:"NAME"`, `key:"NAME,required"` or `key:"NAME,alternative"`, and
// `doc:"MEANING"`. The parameter overrides contains the keys for which the type of the struct's field does not
// determine how the value is decoded; those that the struct does not declare are ignored. The section is the prefix of
// key names in errors, such as "requires.", or "".
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

// fieldFor returns the field for a target whose type determines how the value is decoded. The target must be a pointer
// to a string, bool, int, []string, map[string]string, map[string]any, *expr.Template or map[string]*expr.Template;
// decoding panics if the target has another type. The parameter label names the value in errors.
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

// typed returns a function that creates the schema of a value with one of the given JSON types, or null. The function
// returns a new schema at each call.
func typed(kinds ...any) func() schema {
	return func() schema { return schema{"type": append(slices.Clone(kinds), "null")} }
}

// oneOf returns the schema of a value that must equal one of the given values. Duplicates are removed.
func oneOf(values ...any) schema {
	var each []any
	for _, v := range values {
		if !slices.Contains(each, v) {
			each = append(each, v)
		}
	}
	return schema{"enum": each}
}

// listOf returns a function that creates the schema of a list, with the given schema of its elements, or null.
func listOf(item func() schema) func() schema {
	return func() schema { return schema{"type": []any{"array", "null"}, "items": item()} }
}

// mapOf returns a function that creates the schema of a mapping with arbitrary keys, with the given schema of its
// values, or null.
func mapOf(item func() schema) func() schema {
	return func() schema { return schema{"type": []any{"object", "null"}, "additionalProperties": item()} }
}

// schema returns a new schema of a mapping with these keys and no others. Required keys must be present, and of the
// alternative keys exactly one.
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

// names returns the names of the keys, sorted.
func (f fields) names() []string {
	return slices.Sorted(slices.Values(value.Convert(f, func(r row) string { return r.name })))
}

// mapping decodes a mapping with the given keys, which stores the values in their targets, and returns its nodes. It
// reports unknown keys as errors if strict is set, else as warnings. It reports errors for required keys that are
// missing or empty, and for alternative keys unless exactly one is present. A node that is not a mapping, or is null,
// is reported as an error, and the result then has no nodes. The parameter label names the mapping in errors.
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

// reportUnknownKey reports a key that the format does not define, with a suggestion or the list of allowed keys: as an
// error if strict is set, else as a warning. name is the node of the key, label names the mapping in the message, and
// keys are the allowed keys.
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

// checkPresence reports errors for required keys that are missing or empty, and for alternative keys if none or more
// than one of them is present. decoded is the mapping, and the parameter label names it in errors.
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

// section returns the field of a key whose value is a mapping. The function table returns the keys of the mapping.
// After the mapping has been decoded, done is called with its nodes; it may be nil. If the value is null, no key is
// decoded and done is not called. A value of another kind is reported as an error, and done is called without nodes.
// See mapping for label and strict.
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

// entries returns the field of a key whose value is a list of mappings, which are decoded and appended to target. Null
// is an empty list. The function table returns the keys of an entry; if it is nil, the keys are those that the tags of
// T declare. If T has a field Pos, it is set to the position of the entry. After an entry has been decoded, even with
// errors, accept is called with its nodes and may change the entry; if accept returns false, the entry is not appended.
// A nil accept appends every entry. An element of the list that is not a mapping is reported as an error and is then an
// entry without keys. See mapping for label and strict.
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
