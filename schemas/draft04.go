package schemas

import (
	"errors"
	"math/big"
)

// errReference rejects references, because they would let a constraint depend on other documents or on its position.
var errReference = errors.New("$ref is not supported in constraints")

// A translator rewrites JSON Schemas of later drafts as draft-04: it replaces `const`, numeric exclusive limits and
// boolean schemas by their equivalents in draft-04, and removes id, $id, $schema and definitions. It also rewrites the
// schemas in the values of the other keywords of draft-04, such as `items`, and of propertyNames. All other keywords
// stay unchanged, except those below.
//
// A translator rewrites either for validation or, as the zero translator does, for publication. A schema for validation
// keeps propertyNames and loses contains, if, then and else. A published schema loses propertyNames and keeps the other
// four, with the schemas in them unchanged.
//
// The keyword $ref is not supported: the translator removes it and sets its field err to errReference. It does not
// notice a $ref under contains, if, then, else or definitions, under a keyword that it does not know, or, for
// publication, under propertyNames.
type translator struct {
	// validating is true for schemas that the adapter validates with, and false for schemas that it publishes. When
	// validating, propertyNames stays, although draft-04 does not have it; `contains` and `if` are removed, because the
	// library would enforce them and brokerpaks rely on draft-04, which ignores them. In a published schema, it is the
	// other way round.
	validating bool
	// err is errReference after a schema contained a reference.
	err error
}

// schema returns a copy of a JSON Schema, rewritten as draft-04; the schemas within it are also rewritten, with the
// exceptions of object. The schema true becomes {}, and false becomes {"not": {}}. A node that is neither a boolean nor
// a map is not a schema; it is returned unchanged, and compiling the schema reports it. A $ref that object notices is
// left out, and sets t.err to errReference.
func (t *translator) schema(node any) any {
	switch node := node.(type) {
	case bool:
		if node {
			return map[string]any{}
		}
		return map[string]any{"not": map[string]any{}}
	case map[string]any:
		return t.object(node)
	default:
		return node
	}
}

// object returns a copy of a JSON Schema that is a map from keywords to values, rewritten as draft-04, for example
// with `enum` in place of `const`. The schemas within it are also rewritten, with the exceptions that translator
// describes: keywords that are removed, and keywords under which schemas stay unchanged. The parameter does not
// change, but the copy shares values that need no change. The result is an empty map if node is nil or empty. If the
// schema, or a schema in it that is rewritten, contains a $ref, object leaves the $ref out and sets t.err to
// errReference.
func (t *translator) object(node map[string]any) map[string]any {
	out := make(map[string]any, len(node))
	for keyword, value := range node {
		switch keyword {
		case "$ref":
			t.err = errReference
		case "id", "$id", "$schema", "definitions": // only references need them
		case "contains", "if", "then", "else":
			if !t.validating {
				out[keyword] = value
			}
		case "propertyNames":
			if t.validating {
				out[keyword] = t.schema(value)
			}
		case "properties", "patternProperties", "dependencies":
			out[keyword] = t.each(value)
		case "not", "allOf", "anyOf", "oneOf", "items":
			out[keyword] = t.oneOrMore(value)
		case "additionalProperties", "additionalItems":
			out[keyword] = value
			if nested, ok := value.(map[string]any); ok {
				out[keyword] = t.schema(nested)
			}
		default:
			out[keyword] = value
		}
	}
	constToEnum(out)
	exclusiveToBool(out, "exclusiveMinimum", "minimum", 1)
	exclusiveToBool(out, "exclusiveMaximum", "maximum", -1)
	return out
}

// each rewrites the schemas in the value of a keyword such as `properties`, which is a map from names to schemas, as
// draft-04, and returns them in a new map. Lists in the map, as in `dependencies`, are not schemas and stay
// unchanged. A node that is not a map is returned as it is. A $ref that the translator notices is left out, and sets
// t.err to errReference.
func (t *translator) each(node any) any {
	schemas, ok := node.(map[string]any)
	if !ok {
		return node
	}
	out := make(map[string]any, len(schemas))
	for name, schema := range schemas {
		out[name] = t.schema(schema)
	}
	return out
}

// oneOrMore rewrites the value of a keyword such as `items` or `anyOf`, which is a schema or a list of schemas, as
// draft-04, and returns a copy of it. A node that is neither, and elements of the list that are not schemas, are
// returned as they are. A $ref that the translator notices is left out, and sets t.err to errReference.
func (t *translator) oneOrMore(node any) any {
	schemas, ok := node.([]any)
	if !ok {
		return t.schema(node)
	}
	out := make([]any, len(schemas))
	for i, schema := range schemas {
		out[i] = t.schema(schema)
	}
	return out
}

// constToEnum replaces the keyword `const` of a JSON Schema by an `enum` with that value alone, in place. If the schema
// already has an `enum`, constToEnum appends the new one as a schema to `allOf`, so that both apply. It does nothing if
// the schema has no `const`.
func constToEnum(schema map[string]any) {
	value, ok := schema["const"]
	if !ok {
		return
	}
	delete(schema, "const")
	if _, both := schema["enum"]; both {
		all, _ := schema["allOf"].([]any)
		schema["allOf"] = append(append([]any{}, all...), map[string]any{"enum": []any{value}})
		return
	}
	schema["enum"] = []any{value}
}

// exclusiveToBool replaces a numeric exclusive limit of a JSON Schema, in place, by the form of draft-04:
// {"exclusiveMinimum": 5} becomes {"minimum": 5, "exclusiveMinimum": true}. If the schema also has an inclusive limit
// that is tighter, such as "minimum": 6, only the exclusive limit is removed. exclusive and inclusive are the keywords
// of the two limits, such as "exclusiveMinimum" and "minimum". direction is 1 for a lower limit and -1 for an upper
// one. exclusiveToBool does nothing if the value of exclusive is missing or is not a number.
func exclusiveToBool(schema map[string]any, exclusive, inclusive string, direction int) {
	strict, ok := number(schema[exclusive])
	if !ok {
		return
	}
	if other, both := number(schema[inclusive]); both && other.Cmp(strict) == direction {
		delete(schema, exclusive)
		return
	}
	schema[inclusive] = schema[exclusive]
	schema[exclusive] = true
}

// number returns the exact value of an int64, uint64 or float64. It returns false for a value of any other type, also
// for nil, and for infinities and NaN; the number must not be used then.
func number(value any) (*big.Rat, bool) {
	switch value := value.(type) {
	case int64:
		return new(big.Rat).SetInt64(value), true
	case uint64:
		return new(big.Rat).SetUint64(value), true
	case float64:
		rat := new(big.Rat).SetFloat64(value)
		return rat, rat != nil
	default:
		return nil, false
	}
}
