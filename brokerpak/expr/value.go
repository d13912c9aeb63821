package expr

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/hil/ast"

	"service-adapter/internal/value"
)

// text returns the text of a scalar in HIL: "1" and "0" for booleans, "" for nil. It returns an error for lists, maps
// and unsupported types.
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

// texts returns a deep copy of a value whose scalars are replaced by their texts, and null by ""; see text. It returns
// an error for a scalar of an unsupported type.
func texts(v any) (any, error) {
	return value.Map(v, func(scalar any) (any, error) { return text(scalar) })
}

// jsonText returns the compact JSON encoding of a value. It returns an error for values that JSON cannot represent.
func jsonText(v any) (string, error) {
	encoded, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encoding JSON: %w", err)
	}
	return string(encoded), nil
}

// naturalLiteral returns a HIL literal of the type that corresponds to a Go value. For a value that no type of HIL
// represents, such as nil, it returns a literal of the type string with that value, so the caller must handle such
// values. A list or map is passed through HIL as the only element of a HIL list or map, so that HIL does not convert
// its elements; HIL inspects elements only for unknown values. See goValue for the reverse.
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

// goValue returns the Go value of a HIL value that was created by naturalLiteral or computed by HIL. It panics for an
// empty HIL list, and for a HIL map without the key "", which naturalLiteral does not create.
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
