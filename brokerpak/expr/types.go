package expr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hil/ast"

	"service-adapter/internal/diag"
)

// A typeCheck checks the types in one template and adds an error to a list for each type error that occurs with every
// value of the variables. It knows the types of scalar literals, of the results of functions, and of the variables in
// Names.Types. A comparison or a logical operation is a Bool, and a conditional has the type of its arms if both have
// the same one. A template is a String, unless it is a single ${...}, which has the type of its expression. Everything
// else may have any type, such as the result of + or an element of a list. Its method infer checks a node and returns
// its type. The zero typeCheck cannot be used.
type typeCheck struct {
	template  *Template
	declared  Names
	functions map[string]Function
	list      *diag.List
}

// infer returns the type of the value of a node, or Any if the type depends on the values of variables or is not known.
// It also checks the node and the nodes below it, and adds an error to c.list for each type error that occurs with
// every value.
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

// literalType returns the type of a literal: String, Int, Float or Bool. It returns Any for a literal of another type,
// such as a list.
func literalType(n *ast.LiteralNode) Type {
	for _, t := range []Type{String, Int, Float, Bool} {
		if t.kind().hil == n.Typex {
			return t
		}
	}
	return Any
}

// fail adds an error of the rule "expression-type" to c.list. Its position is that of the node in the file, and its
// message is formatted as by fmt.Sprintf.
func (c *typeCheck) fail(node ast.Node, format string, args ...any) {
	c.list.Errorf(c.template.source.at(node.Pos()), "expression-type", format, args...)
}

// index checks the types in name[key]. It adds an error to c.list if anything but a variable is indexed, if the
// variable is known to be neither a list nor a map, if the key of a list cannot be a number, or if the key is a list or
// a map. The key is checked with infer.
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

// call checks the types in a call of a function: it checks each argument with infer, and adds an error to c.list for
// each one that cannot be converted to the type that the function declares. It returns the type of the function's
// result, or Any for an unknown function. Unknown functions and wrong numbers of arguments are not reported here, but
// by Template.Check; in both cases, the types of the arguments are not compared.
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

// conditional checks the types in condition ? a : b. It checks the three operands with infer, and adds an error to
// c.list for a condition that cannot be true or false and for an arm that is a list or a map. It returns the type of
// both arms, or Any if their types differ.
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
// the type of the arm, List or Map. The message suggests json.marshal in both arms, in an input of type array or
// object. The result is never nil.
func unsuitableArm(t Type) error {
	inputType := "array"
	if t == Map {
		inputType = "object"
	}
	return fmt.Errorf("an arm of a conditional must not be %s; use json.marshal in both arms, in an input of type %s",
		withArticle(t), inputType)
}

// arithmetic checks the types in an operation with +, -, *, /, %, a comparison, or a logical operation. It checks the
// operands with infer, and adds an error to c.list for an operand that is a list or a map, for one of a logical
// operation that cannot be true or false, and for one of any other operation than == and != that cannot be a number. It
// returns Bool for comparisons and logical operations, and Any for the others, which may be an int or a float.
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

// output checks the types of the parts of a template, which are its expressions ${...} and the texts between them, with
// infer. It returns the type of the expression if the template is a single ${...}. Otherwise it returns String, and
// adds an error to c.list for each part that is a list or a map.
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

// numeric reports whether the value of a node, whose type is t, may be an int or a float, or a text that HIL converts
// to one. A text that is not constant counts as numeric, and so does a value of type Any; a bool does not.
func numeric(node ast.Node, t Type) bool {
	return convertible(node, t, Int) || convertible(node, t, Float)
}

// convertible reports whether HIL can convert the value of a node from the type from, which is the type of the node,
// to the type to. Every scalar can be converted to a string. The types Int, Float and Number can be converted to each
// other. Lists and maps cannot be converted to or from other types, nor numbers to bool or bool to numbers. A
// constant text can be converted to a number or bool if it has the form of one. A text that is not constant counts as
// convertible to these, because that depends on its value. Any is convertible to every type and from every type.
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

// describe returns a description of a node for an error message. For a constant text or integer, that is its value in
// double quotes. For any other node, and for the empty text, it is the name of its type t with the indefinite article,
// such as "a list".
func describe(node ast.Node, t Type) string {
	if text := constant(node); text != "" {
		return strconv.Quote(text)
	}
	return withArticle(t)
}

// withArticle returns the name of a type with its indefinite article, such as "an int", "an any" or "a string".
func withArticle(t Type) string {
	if strings.HasPrefix(t.String(), "i") || t == Any {
		return "an " + t.String()
	}
	return "a " + t.String()
}
