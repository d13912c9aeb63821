package schemas

import (
	"errors"
	"math/big"
)

// errReference rejects references, because they would let a constraint depend on other documents or on its position.
var errReference = errors.New("$ref is not supported in constraints")

// A translator rewrites schemas of later JSON schema drafts as draft-04: it replaces `const`, numeric exclusive limits
// and boolean schemas. It removes id, $id, $schema and definitions, which only references need. Keywords that it does
// not know stay unchanged.
type translator struct {
	// validating is true for schemas that the adapter validates with, and false for schemas that it publishes. When
	// validating, propertyNames stays, although draft-04 does not have it; `contains` and `if` are removed, because the
	// library would enforce them and brokerpaks rely on draft-04, which ignores them. In a published schema, it is the
	// other way round.
	validating bool
	// err is errReference after a schema contained a reference.
	err error
}

// schema returns a rewritten copy of a schema. A node that is not a schema is returned as it is; compiling reports it.
// If the schema contains a reference, schema leaves it out and sets t.err.
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

// object returns a rewritten copy of a schema that is an object; that of nil is an empty schema. If the schema contains
// a reference, object leaves it out and sets t.err.
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

// each returns a copy of a map from names to schemas, in which every schema is rewritten as by schema. Lists in the
// map, as in `dependencies`, are not schemas and stay unchanged. A node that is not a map is returned as it is.
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

// oneOrMore returns a rewritten copy of a schema, or of a list of schemas. Each is rewritten as by schema. A node that
// is neither is returned as it is.
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

// constToEnum replaces `const` by an `enum` of one value, in place. If the schema already has an `enum`, the new one
// goes into `allOf`.
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

// exclusiveToBool replaces a numeric exclusive limit, in place, by the inclusive limit with draft-04's flag. It only
// removes the exclusive limit if the schema has a tighter inclusive one. It does nothing if the schema has no numeric
// exclusive limit. exclusive and inclusive are the keywords of the two limits. direction is 1 for a lower limit and -1
// for an upper one.
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

// number returns the exact value of a number. It returns false for any other type, and for infinities and NaN.
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
