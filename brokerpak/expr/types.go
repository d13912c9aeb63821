package expr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hil/ast"

	"service-adapter/internal/diag"
)

// A typeCheck reports type errors that occur with every value of the variables. It knows the types of literals, of
// the results of functions, and of the variables in Names.Types. Everything else may have any type.
type typeCheck struct {
	template  *Template
	declared  Names
	functions map[string]Function
	list      *diag.List
}

// infer returns the type of a node, or Any if it depends on the values. It adds the errors in the node and in its
// operands to the list.
func (c *typeCheck) infer(node ast.Node) Type {
	switch n := node.(type) {
	case *ast.LiteralNode:
		return literalType(n)
	case *ast.VariableAccess:
		return c.declared.Types[n.Name]
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

// literalType returns the type of a literal, or Any if it is not a scalar.
func literalType(n *ast.LiteralNode) Type {
	for _, t := range []Type{String, Int, Float, Bool} {
		if t.kind().hil == n.Typex {
			return t
		}
	}
	return Any
}

// fail adds a type error at the position of a node to the list. format and args are those of fmt.Sprintf.
func (c *typeCheck) fail(node ast.Node, format string, args ...any) {
	c.list.Errorf(c.template.source.at(node.Pos()), "expression-type", format, args...)
}

// index checks name[key]: the name must be a variable that may be a list or map, and the key must have a suitable type:
// a number for a list, and a scalar for a map. Violations are added to the list as errors.
func (c *typeCheck) index(n *ast.Index) {
	key := c.infer(n.Key)
	target, ok := n.Target.(*ast.VariableAccess)
	if !ok {
		c.fail(n, "only a variable can be indexed")
		return
	}
	switch t := c.declared.Types[target.Name]; {
	case t == List && key != Any && !convertible(n.Key, key, Int):
		c.fail(n.Key, "the index of list %s must be a number", target.Name)
	case t != Any && t != List && t != Map:
		c.fail(target, "%s is %s, neither a map nor a list", target.Name, withArticle(t))
	case key == List || key == Map:
		c.fail(n.Key, "the key of %s must be a text, not %s", target.Name, withArticle(key))
	}
}

// call checks the types of the arguments of a call, adds an error to the list for each one that cannot be converted,
// and returns the type of its result, or Any for an unknown function. Unknown functions and wrong numbers of arguments
// are reported by Template.Check.
func (c *typeCheck) call(n *ast.Call) Type {
	function, ok := c.functions[n.Func]
	var types []Type
	if ok && function.checkArity(n.Func, len(n.Args)) == nil {
		types = function.types(len(n.Args))
	}
	for i, arg := range n.Args {
		argType := c.infer(arg)
		if types != nil && !convertible(arg, argType, types[i]) {
			c.fail(arg, "argument %d of %s must be %s, not %s", i+1, n.Func, withArticle(types[i]),
				describe(arg, argType))
		}
	}
	if !ok {
		return Any
	}
	return function.Result
}

// conditional checks condition ? a : b, and adds an error to the list for a condition that cannot be true or false and
// for an arm that is a list or map. The type is that of both arms, or Any if they differ.
func (c *typeCheck) conditional(n *ast.Conditional) Type {
	if condition := c.infer(n.CondExpr); !convertible(n.CondExpr, condition, Bool) {
		c.fail(n.CondExpr, "the condition must be true or false, not %s", describe(n.CondExpr, condition))
	}
	arms := []Type{c.infer(n.TrueExpr), c.infer(n.FalseExpr)}
	for i, arm := range []ast.Node{n.TrueExpr, n.FalseExpr} {
		if arms[i] == List || arms[i] == Map {
			c.fail(arm, "%s", unsuitableArm(arms[i]))
		}
	}
	if arms[0] == arms[1] {
		return arms[0]
	}
	return Any
}

// unsuitableArm returns the error for an arm of a conditional that is a list or a map, which HIL does not support. t is
// List or Map. The error says how an input gets the same value.
func unsuitableArm(t Type) error {
	inputType := "array"
	if t == Map {
		inputType = "object"
	}
	return fmt.Errorf("an arm of a conditional must not be %s; use json.marshal in both arms, in an input of type %s",
		withArticle(t), inputType)
}

// arithmetic checks an operation with +, -, *, /, %, a comparison, or a logical operation, and adds an error to the
// list for each operand of an unsuitable type. It returns Bool for comparisons and logical operations, and Any for the
// others, which may be an int or a float.
func (c *typeCheck) arithmetic(n *ast.Arithmetic) Type {
	logical := n.Op == ast.ArithmeticOpLogicalAnd || n.Op == ast.ArithmeticOpLogicalOr
	equality := n.Op == ast.ArithmeticOpEqual || n.Op == ast.ArithmeticOpNotEqual
	compares := slices.Contains([]ast.ArithmeticOp{
		ast.ArithmeticOpLessThan, ast.ArithmeticOpLessThanOrEqual, ast.ArithmeticOpGreaterThan,
		ast.ArithmeticOpGreaterThanOrEqual,
	}, n.Op)
	for _, operand := range n.Exprs {
		t := c.infer(operand)
		switch {
		case t == List || t == Map:
			c.fail(operand, "%s cannot be an operand", withArticle(t))
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

// output checks the parts of a template. A template with a single ${...} has the type of that expression; any other is
// a text, and a list or map in it is added to the list as an error.
func (c *typeCheck) output(n *ast.Output) Type {
	if len(n.Exprs) == 1 {
		return c.infer(n.Exprs[0])
	}
	for _, part := range n.Exprs {
		if t := c.infer(part); t == List || t == Map {
			c.fail(part, "%s cannot be a part of a text; use json.marshal to convert it", withArticle(t))
		}
	}
	return String
}

// numeric reports whether a node of the type t may be a number, or a text that is converted to one.
func numeric(node ast.Node, t Type) bool {
	return convertible(node, t, Int) || convertible(node, t, Float)
}

// convertible reports whether HIL can convert the value of a node from its type, which is the parameter from, to
// another one. A text that is not constant may be a number or a boolean, depending on its value, and counts as
// convertible. Any is convertible to every type and from every type.
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

// describe returns a description of a node for an error: of a constant text or integer, its value in quotes, and of any
// other node and the empty text, the type t with its article.
func describe(node ast.Node, t Type) string {
	if text := constant(node); text != "" {
		return strconv.Quote(text)
	}
	return withArticle(t)
}

// withArticle returns the name of a type with its indefinite article.
func withArticle(t Type) string {
	if strings.HasPrefix(t.String(), "i") || t == Any {
		return "an " + t.String()
	}
	return "a " + t.String()
}
