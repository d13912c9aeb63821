package schemas

import (
	"errors"
	"math/big"
)

// errReference refuses what would make a constraint depend on other documents or on the place where it is used.
var errReference = errors.New("$ref is not supported in constraints")

// translator rewrites a schema of a later draft as draft-04: `const`, numeric exclusive limits and boolean schemas are
// expressed with what draft-04 has. Keywords that it does not know pass unchanged.
type translator struct {
	// validating keeps propertyNames, which draft-04 cannot express but our own validation enforces, and drops `contains`
	// and `if`, which it would enforce although brokerpaks rely on their being ignored. Otherwise the schema is published:
	// what draft-04 ignores may stay.
	validating bool
	err        error
}

// schema rewrites a schema and everything below it; the original is left alone.
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
		return node // not a schema; compiling tells
	}
}

func (t *translator) object(node map[string]any) map[string]any {
	out := make(map[string]any, len(node))
	for keyword, value := range node {
		switch keyword {
		case "$ref":
			t.err = errReference
		case "id", "$id", "$schema", "definitions": // mean something only to references
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

// each rewrites the schemas of a map; lists in it, as in dependencies, are no schemas.
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

// exclusiveToBool turns a numeric exclusive limit into the inclusive one with draft-04's flag, unless an inclusive limit
// is there that is tighter; direction is 1 for a lower limit and -1 for an upper one.
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
