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

// The keys of the format are declared once, by the tags of the model or as rows of tables: the decoder, the JSON Schemas for editors and
// the documentation of this adapter's own keys come from them.

// schema is a JSON Schema, draft-07.
type schema = map[string]any

// field is what the value of a key may be, and how it is decoded.
type field struct {
	// words say what the value is, for documentation, and doc what it means, where no tag does; rows are the keys of a mapping, or of each
	// entry of a list, nil for others.
	words, doc string
	rows       func() fields
	// shape makes the schema of the value. Tables are made anew each time, and most decoding needs no schema.
	shape  func() schema
	decode func(node *yaml.Node)
	// required keys must be there and not be empty; of several keys that are alternatives exactly one must be there.
	required, alternative bool
}

// row is a key of a mapping: its name, what it means, and what its value may be.
type row struct {
	name, doc string
	field
}

// fields are the keys that a mapping may have.
type fields []row

// required makes a key one that must be there, and not be empty.
func required(f field) field {
	f.required = true
	return f.shaped(nil)
}

// alternative makes a key one of several of which exactly one must be there.
func alternative(f field) field {
	f.alternative = true
	return f
}

// shaped narrows the schema of a value; null is no value of a required key.
func (f field) shaped(narrower schema) field {
	wide, required := f.shape, f.required
	f.shape = func() schema {
		made := wide()
		maps.Copy(made, narrower)
		if kinds, ok := made["type"].([]any); ok && required {
			made["type"] = slices.DeleteFunc(slices.Clone(kinds), func(kind any) bool { return kind == "null" })
		}
		return made
	}
	return f
}

// called sets the words for documentation.
func (f field) called(words string) field {
	f.words = words
	return f
}

// meaning sets the documentation of a key, which would be long for a tag.
func (f field) meaning(doc string) field {
	f.doc = doc
	return f
}

// keys are those that the tags of a struct declare, in its order: `key:"NAME"`, `key:"NAME,required"` or `key:"NAME,alternative"`, and
// `doc:"MEANING"`. What is not decoded by its type alone is among own. Section stands before the names in errors.
func (d *document) keys(section string, target any, own map[string]field) fields {
	var rows fields
	structure := reflect.ValueOf(target).Elem()
	for i := range structure.NumField() {
		tag := structure.Type().Field(i).Tag
		name, option, _ := strings.Cut(tag.Get("key"), ",")
		if name == "" {
			continue
		}
		made, special := own[name]
		if !special {
			made = d.plain(section+name, structure.Field(i).Addr().Interface())
		}
		switch option {
		case "required":
			made = required(made)
		case "alternative":
			made = alternative(made)
		}
		rows = append(rows, row{name, cmp.Or(made.doc, tag.Get("doc")), made})
	}
	return rows
}

// plain decodes a value by the type of what a pointer names.
func (d *document) plain(what string, target any) field {
	switch target := target.(type) {
	case *string:
		return d.text(what, target)
	case *[]string:
		return d.texts(what, target)
	case *bool:
		return d.boolean(what, target)
	case *int:
		return d.integer(what, target)
	case *map[string]string:
		return d.textMap(what, target)
	case **expr.Template:
		return d.expression(what, target)
	case *map[string]*expr.Template:
		return d.expressions(what, target)
	default:
		object, _ := target.(*map[string]any)
		return d.object(what, object)
	}
}

// typed returns the schema of a type, which admits null as well.
func typed(kinds ...any) func() schema {
	return func() schema { return schema{"type": append(slices.Clone(kinds), "null")} }
}

// oneOf is the schema of a value that is one of a few; each is listed once.
func oneOf(values ...any) schema {
	var each []any
	for _, v := range values {
		if !slices.Contains(each, v) {
			each = append(each, v)
		}
	}
	return schema{"enum": each}
}

// listOf returns the schema of a list, mapOf that of a mapping with any keys.
func listOf(item func() schema) func() schema {
	return func() schema { return schema{"type": []any{"array", "null"}, "items": item()} }
}

func mapOf(item func() schema) func() schema {
	return func() schema { return schema{"type": []any{"object", "null"}, "additionalProperties": item()} }
}

// schema is that of a mapping with these keys.
func (f fields) schema() schema {
	properties, needed, alternatives := schema{}, []any{}, []any{}
	for _, r := range f {
		property := r.shape()
		property["description"] = r.doc
		properties[r.name] = property
		if r.required {
			needed = append(needed, r.name)
		}
		if r.alternative {
			alternatives = append(alternatives, schema{"required": []any{r.name}})
		}
	}
	made := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(needed) > 0 {
		made["required"] = needed
	}
	if len(alternatives) > 0 {
		made["oneOf"] = alternatives
	}
	return made
}

// names are the keys' names, sorted.
func (f fields) names() []string {
	return slices.Sorted(slices.Values(value.Each(f, func(r row) string { return r.name })))
}

// mapping decodes a mapping by the rows of a table. Unknown keys are errors where strict, else warnings.
func (d *document) mapping(node *yaml.Node, what string, strict bool, known fields) places {
	found := places{document: d, self: d.pos(node), values: map[string]*yaml.Node{}}
	if yamltree.IsNull(node) {
		d.errorf(node, "type", "%s must be a mapping, not null", what)
		return found
	}
	for key, item := range d.pairs(node, what) {
		at := slices.IndexFunc(known, func(r row) bool { return r.name == key.Value })
		if at >= 0 {
			found.values[key.Value] = item
			known[at].decode(item)
			continue
		}
		d.unknown(key, what, strict, known)
	}
	if node.Kind == yaml.MappingNode {
		d.complete(found, what, known)
	}
	return found
}

// unknown reports a key that the table does not have.
func (d *document) unknown(name *yaml.Node, what string, strict bool, known fields) {
	hint, names := diag.Suggest(name.Value, known.names()), ""
	if hint == "" {
		names = "; allowed: " + diag.Names(known.names())
	}
	if strict {
		d.errorf(name, "unknown-key", "unknown key %q in %s%s%s", name.Value, what, hint, names)
		return
	}
	d.diags.Warnf(d.pos(name), "unknown-key", "unknown key %q in %s is ignored%s%s", name.Value, what, hint, names)
}

// complete reports required keys that are missing or empty, and alternatives of which none or several are there.
func (d *document) complete(found places, what string, known fields) {
	var alternatives, given []string
	for _, r := range known {
		if r.required && !found.filled(r.name) {
			d.failf(found.at(r.name), "required", "%s of %s is required and must not be empty", r.name, what)
		}
		if r.alternative {
			alternatives = append(alternatives, r.name)
		}
		if r.alternative && found.has(r.name) {
			given = append(given, r.name)
		}
	}
	switch {
	case len(alternatives) > 0 && len(given) == 0:
		d.failf(found.self, "required", "%s needs %s", what, strings.Join(alternatives, " or "))
	case len(given) > 1:
		d.failf(found.at(given[1]), "conflict", "%s may have only one of %s", what, strings.Join(alternatives, " and "))
	}
}

// section is a mapping as the value of a key; null leaves the target as it is.
func (d *document) section(what string, strict bool, table func() fields, done func(at places)) field {
	return field{
		words: "mapping", rows: table,
		shape: func() schema { return schema{"anyOf": []any{schema{"type": "null"}, table().schema()}} },
		decode: func(node *yaml.Node) {
			if yamltree.IsNull(node) {
				return
			}
			at := d.mapping(node, what, strict, table())
			if done != nil {
				done(at)
			}
		},
	}
}

// entries is a list of mappings as the value of a key. Each gets its place in its field Pos, if it has one. Without a table its keys are
// those that its tags declare; accept, which may be nil, tells whether an entry counts.
func entries[T any](
	d *document, what string, strict bool, target *[]T, table func(entry *T) fields, accept func(at places, entry *T) bool,
) field {
	if table == nil {
		table = func(entry *T) fields { return d.keys("", entry, nil) }
	}
	return field{
		words: "list", rows: func() fields { return table(new(T)) },
		shape: func() schema {
			return schema{"type": []any{"array", "null"}, "items": table(new(T)).schema()}
		},
		decode: func(node *yaml.Node) {
			d.sequence(node, what, func(element *yaml.Node) {
				var entry T
				at := d.mapping(element, "an entry of "+what, strict, table(&entry))
				if pos := reflect.ValueOf(&entry).Elem().FieldByName("Pos"); pos.IsValid() {
					pos.Set(reflect.ValueOf(at.self))
				}
				if accept == nil || accept(at, &entry) {
					*target = append(*target, entry)
				}
			})
		},
	}
}
