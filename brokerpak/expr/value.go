package expr

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/hil/ast"

	"service-adapter/internal/value"
)

// text returns the text that a scalar is in HIL.
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
		return "", fmt.Errorf("a value of type %T is no text", v)
	}
}

// texts copies a value with every scalar in it replaced by its text.
func texts(v any) (any, error) {
	return value.Map(v, func(scalar any) (any, error) { return text(scalar) })
}

// jsonText returns a value as compact JSON.
func jsonText(v any) (string, error) {
	encoded, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encoding JSON: %w", err)
	}
	return string(encoded), nil
}

// naturalLiteral makes a literal of the type that a value has. HIL looks at the elements of lists and maps only to see
// whether one is "unknown", so the value travels through it as the only element, whole and not converted.
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

// goValue is the reverse of naturalLiteral.
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
