package expr

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hil/ast"

	"service-adapter/internal/diag"
)

// typeCheck finds what cannot be evaluated whatever the values are: it knows the types of literals, of the results of
// functions, and of the variables that Known.Types names. Everything else may be anything.
type typeCheck struct {
	template  *Template
	known     Known
	functions map[string]Function
	list      *diag.List
}

// infer returns the type of a node, Any where only the values tell, and reports faults below it.
func (c *typeCheck) infer(node ast.Node) Type {
	switch n := node.(type) {
	case *ast.LiteralNode:
		return literalType(n)
	case *ast.VariableAccess:
		return c.known.Types[n.Name]
	case *ast.Index:
		c.index(n)
		return Any
	case *ast.Call:
		return c.call(n)
	case *ast.Conditional:
		return c.conditional(n)
	case *ast.Arithmetic:
		return c.arithmetic(n)
	case *ast.Output:
		return c.output(n)
	default:
		return Any
	}
}

func literalType(n *ast.LiteralNode) Type {
	for _, t := range []Type{String, Int, Float, Bool} {
		if t.kind().hil == n.Typex {
			return t
		}
	}
	return Any
}

func (c *typeCheck) fail(node ast.Node, format string, args ...any) {
	c.list.Errorf(c.template.source.at(node.Pos()), "expression-type", format, args...)
}

func (c *typeCheck) index(n *ast.Index) {
	key := c.infer(n.Key)
	target, ok := n.Target.(*ast.VariableAccess)
	if !ok {
		c.fail(n, "only a variable can be indexed")
		return
	}
	switch t := c.known.Types[target.Name]; {
	case t == List && key != Any && !convertible(n.Key, key, Int):
		c.fail(n.Key, "the index of list %s must be a number", target.Name)
	case t != Any && t != List && t != Map:
		c.fail(target, "%s is %s, neither a map nor a list", target.Name, article(t))
	case key == List || key == Map:
		c.fail(n.Key, "the key of %s must be a text, not %s", target.Name, article(key))
	}
}

func (c *typeCheck) call(n *ast.Call) Type {
	function, ok := c.functions[n.Func]
	var types []Type
	if ok && function.checkArity(n.Func, len(n.Args)) == nil {
		types = function.types(len(n.Args))
	}
	for i, arg := range n.Args {
		given := c.infer(arg)
		if types != nil && !convertible(arg, given, types[i]) {
			c.fail(arg, "argument %d of %s must be %s, not %s", i+1, n.Func, article(types[i]), describe(arg, given))
		}
	}
	if !ok {
		return Any
	}
	return function.Result
}

func (c *typeCheck) conditional(n *ast.Conditional) Type {
	if condition := c.infer(n.CondExpr); !convertible(n.CondExpr, condition, Bool) {
		c.fail(n.CondExpr, "the condition must be true or false, not %s", describe(n.CondExpr, condition))
	}
	arms := []Type{c.infer(n.TrueExpr), c.infer(n.FalseExpr)}
	for i, arm := range []ast.Node{n.TrueExpr, n.FalseExpr} {
		if arms[i] == List || arms[i] == Map {
			c.fail(arm, "an arm of a conditional must not be %s", article(arms[i]))
		}
	}
	if arms[0] == arms[1] {
		return arms[0]
	}
	return Any
}

func (c *typeCheck) arithmetic(n *ast.Arithmetic) Type {
	logical := n.Op == ast.ArithmeticOpLogicalAnd || n.Op == ast.ArithmeticOpLogicalOr
	equality := n.Op == ast.ArithmeticOpEqual || n.Op == ast.ArithmeticOpNotEqual
	compares := slices.Contains([]ast.ArithmeticOp{
		ast.ArithmeticOpLessThan, ast.ArithmeticOpLessThanOrEqual, ast.ArithmeticOpGreaterThan, ast.ArithmeticOpGreaterThanOrEqual,
	}, n.Op)
	for _, operand := range n.Exprs {
		t := c.infer(operand)
		switch {
		case t == List || t == Map:
			c.fail(operand, "%s cannot be an operand", article(t))
		case logical && !convertible(operand, t, Bool):
			c.fail(operand, "the operand must be true or false, not %s", describe(operand, t))
		case !logical && !equality && !numeric(operand, t):
			c.fail(operand, "the operand must be a number, not %s", describe(operand, t))
		}
	}
	if logical || equality || compares {
		return Bool
	}
	return Any
}

func (c *typeCheck) output(n *ast.Output) Type {
	if len(n.Exprs) == 1 {
		return c.infer(n.Exprs[0])
	}
	for _, part := range n.Exprs {
		if t := c.infer(part); t == List || t == Map {
			c.fail(part, "%s cannot be a part of a text; json.marshal makes one of it", article(t))
		}
	}
	return String
}

// numeric tells whether a node may be a number.
func numeric(node ast.Node, t Type) bool {
	return convertible(node, t, Int) || convertible(node, t, Float)
}

// convertible tells whether HIL can convert a node of a type to another type. Whether a text that is not constant can be a
// number or a boolean depends on its value.
func convertible(node ast.Node, from, to Type) bool {
	if from == Any || to == Any || from == to {
		return true
	}
	literal, constant := node.(*ast.LiteralNode)
	var text string
	if constant {
		text, constant = literal.Value.(string)
	}
	var err error
	switch {
	case from == List || from == Map || to == List || to == Map:
		return false
	case to == String:
		return true
	case from == String && !constant:
		return true
	case from == String && to == Bool:
		_, err = strconv.ParseBool(text)
	case from == String && to == Int:
		_, err = strconv.ParseInt(text, 0, 0)
	case from == String && (to == Float || to == Number):
		_, err = strconv.ParseFloat(text, 64)
	default:
		return to != Bool && from != Bool
	}
	return err == nil
}

// describe names what a node is for a message: a constant as it is written, anything else by its type.
func describe(node ast.Node, t Type) string {
	if text := constant(node); text != "" {
		return strconv.Quote(text)
	}
	return article(t)
}

func article(t Type) string {
	if strings.HasPrefix(t.String(), "i") || t == Any {
		return "an " + t.String()
	}
	return "a " + t.String()
}
