package expr

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/hil/ast"

	"service-adapter/internal/value"
)

// text returns the text of a scalar as HIL represents it: "1" and "0" for booleans, "" for nil, a number in decimal
// notation without an exponent (or "+Inf", "-Inf" or "NaN"), and a string unchanged. It returns "" and an error for a
// list, a map and any Go type other than bool, string, int64, uint64 and float64. The error names the Go type and not
// the value.
func text(v any) (string, error) {
	switch scalar := v.(type) {
	case bool:
		if scalar {
			return "1", nil
		}
		return "0", nil
	case nil, string, int64, uint64, float64:
		return value.Text(scalar), nil
	default:
		return "", fmt.Errorf("a value of type %T cannot be converted to a text", v)
	}
}

// texts returns a deep copy of a value in which all scalars, at every depth, are replaced by their texts: "1" and "0"
// for booleans, "" for null. The copy of a value that is a scalar itself is its text. Keys of maps are not changed.
// texts returns nil and an error for a scalar of a Go type other than bool, string, int64, uint64 and float64.
func texts(v any) (any, error) {
	return value.Map(v, func(scalar any) (any, error) { return text(scalar) })
}

// jsonText returns the compact JSON encoding of a value, with sorted keys and with <, > and & escaped as in Go. It
// returns "" and an error for a value that JSON cannot represent, such as an infinite number.
func jsonText(v any) (string, error) {
	encoded, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encoding JSON: %w", err)
	}
	return string(encoded), nil
}

// naturalLiteral returns a HIL literal of the type that corresponds to the Go type of v: bool, int64, float64, list,
// map or string. For any other value, such as nil or a uint64, it returns a literal of the type string that contains
// the value unchanged, so the caller must handle such values. A list or map is passed through HIL as the only element
// of a HIL list or map, so that HIL does not convert its elements; HIL inspects elements only for unknown values.
// goValue is the reverse.
func naturalLiteral(v any) *ast.LiteralNode {
	whole := ast.Variable{Type: ast.TypeAny, Value: v}
	switch natural := v.(type) {
	case bool:
		return &ast.LiteralNode{Typex: ast.TypeBool, Value: natural}
	case int64:
		return &ast.LiteralNode{Typex: ast.TypeInt, Value: int(natural)}
	case float64:
		return &ast.LiteralNode{Typex: ast.TypeFloat, Value: natural}
	case []any:
		return &ast.LiteralNode{Typex: ast.TypeList, Value: []ast.Variable{whole}}
	case map[string]any:
		return &ast.LiteralNode{Typex: ast.TypeMap, Value: map[string]ast.Variable{"": whole}}
	default:
		return &ast.LiteralNode{Typex: ast.TypeString, Value: v}
	}
}

// goValue returns the Go value of a HIL value that naturalLiteral created or HIL computed. An int becomes an int64, a
// list or map from naturalLiteral becomes the original one, and any other scalar is returned unchanged. Another list or
// map must not be passed: goValue returns only one of its elements, or nil, and panics for an empty list.
func goValue(v any) any {
	switch natural := v.(type) {
	case int:
		return int64(natural)
	case []ast.Variable:
		return natural[0].Value
	case map[string]ast.Variable:
		return natural[""].Value
	default:
		return v
	}
}
