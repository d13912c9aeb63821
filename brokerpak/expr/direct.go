package expr

import (
	"strconv"
	"strings"

	"github.com/hashicorp/hil/ast"
)

// direct applies an operator to literals as HIL does, and returns the Go value. HIL makes its table of functions anew and checks all
// types for every operator, which takes longer than all else that an evaluation does. It is not ok where the few rules here do not
// tell: HIL decides then, or explains what is wrong. FuzzEval holds both against each other.
func direct(node ast.Node) (result any, ok bool) {
	switch n := node.(type) {
	case *ast.Output:
		return output(n.Exprs)
	case *ast.Conditional:
		condition, ok := converted(n.CondExpr, ast.TypeBool)
		yes, no := typeOf(n.TrueExpr), typeOf(n.FalseExpr)
		if !ok || yes != no || !isScalar(yes) {
			return nil, false
		}
		if condition == true {
			return converted(n.TrueExpr, yes)
		}
		return converted(n.FalseExpr, no)
	case *ast.Arithmetic:
		return operator(n)
	default:
		return nil, false
	}
}

// output joins texts; a list or map by itself stays what it is.
func output(nodes []ast.Node) (any, bool) {
	if len(nodes) == 1 && !isScalar(typeOf(nodes[0])) {
		return converted(nodes[0], typeOf(nodes[0]))
	}
	var all strings.Builder
	for _, node := range nodes {
		part, ok := converted(node, ast.TypeString)
		if !ok {
			return nil, false
		}
		text, ok := part.(string)
		if !ok {
			return nil, false
		}
		all.WriteString(text)
	}
	return all.String(), true
}

// operator applies the operators on truth and equality, for which the first operand decides the type.
func operator(n *ast.Arithmetic) (any, bool) {
	if len(n.Exprs) != 2 {
		return nil, false
	}
	wanted := ast.TypeBool
	equality := n.Op == ast.ArithmeticOpEqual || n.Op == ast.ArithmeticOpNotEqual
	if equality {
		wanted = typeOf(n.Exprs[0])
	}
	if wanted != ast.TypeBool && wanted != ast.TypeString {
		return nil, false
	}
	left, leftOK := converted(n.Exprs[0], wanted)
	right, rightOK := converted(n.Exprs[1], wanted)
	if !leftOK || !rightOK {
		return nil, false
	}
	switch n.Op {
	case ast.ArithmeticOpEqual:
		return left == right, true
	case ast.ArithmeticOpNotEqual:
		return left != right, true
	case ast.ArithmeticOpLogicalAnd:
		return left == true && right == true, true
	case ast.ArithmeticOpLogicalOr:
		return left == true || right == true, true
	default:
		return nil, false
	}
}

// directly converts literals to the types of arguments.
func directly(types []ast.Type, nodes []ast.Node) (values []any, ok bool) {
	values = make([]any, len(nodes))
	for i, node := range nodes {
		if values[i], ok = converted(node, types[i]); !ok {
			return nil, false
		}
	}
	return values, true
}

// converted returns the Go value of a literal in a type. It is not ok where the literal is of another type, unless it is a text that
// becomes a truth value or the reverse, or an integer that becomes a text.
func converted(node ast.Node, to ast.Type) (any, bool) {
	literal, ok := node.(*ast.LiteralNode)
	if !ok || literal.IsUnknown() {
		return nil, false
	}
	if to == literal.Typex || to == ast.TypeAny {
		return goValue(literal.Value), true
	}
	switch v := literal.Value.(type) {
	case string:
		truth, err := strconv.ParseBool(v)
		return truth, err == nil && to == ast.TypeBool && literal.Typex == ast.TypeString
	case bool:
		return strconv.FormatBool(v), to == ast.TypeString
	case int:
		return strconv.Itoa(v), to == ast.TypeString && literal.Typex == ast.TypeInt
	default:
		return nil, false
	}
}

func typeOf(node ast.Node) ast.Type {
	if literal, ok := node.(*ast.LiteralNode); ok {
		return literal.Typex
	}
	return ast.TypeInvalid
}

func isScalar(t ast.Type) bool {
	return t == ast.TypeString || t == ast.TypeInt || t == ast.TypeFloat || t == ast.TypeBool
}
