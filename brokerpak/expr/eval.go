package expr

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/hil"
	"github.com/hashicorp/hil/ast"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// Eval evaluates the template. The result is a string, or a list or map if the template is a single expression of that
// type. All scalars in a list or map are texts, except in the result of merge. A nil scope is an empty one. The values
// in the scope are not changed.
//
// As in HIL, every part is evaluated: both arms of a conditional, and both sides of && and ||.
//
// The error is a *diag.PositionError with the position of the part that failed, or the reason itself if the position of
// the template is zero. The reason wraps ErrUnknownVariable if a variable is not set, and is a *FunctionError if a
// function, or the conversion of its arguments, failed. For any other reason, such as a missing key of a map or a panic
// of HIL or of a function, it has no type of its own. After an error the value is nil.
func (t *Template) Eval(s *Scope) (value any, err error) {
	defer func() {
		if r := recover(); r != nil {
			value, err = nil, withPos(t.source.Pos, fmt.Errorf("evaluating the expression: %v", r))
		}
	}()
	if s == nil {
		s = &Scope{}
	}
	e := &evaluation{template: t, scope: s, callCounts: map[string]int{}}
	result, err := e.reduce(t.root)
	if err != nil {
		return nil, err
	}
	if t.isMergeCall() {
		return goValue(result.Value), nil
	}
	return texts(goValue(result.Value))
}

// isMergeCall reports whether the whole template is a call of merge. Its result keeps the types of its scalars, because
// settings of plans and users are merged into manifests unchanged. Compatibility does not require texts here: other
// brokers do not have the function.
func (t *Template) isMergeCall() bool {
	call, ok := t.singleExpression().(*ast.Call)
	return ok && call.Func == "merge"
}

// An evaluation is the state of one evaluation of a template. It is not safe for concurrent use.
type evaluation struct {
	template   *Template
	scope      *Scope
	standard   map[string]Function // the result of standardFunctions; nil before the first call of a function
	callCounts map[string]int      // the number of calls of each generating function
}

// reduce evaluates a node to a literal, after its operands. An error has the position of the node that failed. Since
// HIL evaluates every operand anyway, the order does not change the result. Reducing each node separately shows which
// one failed, and allows a single element of a map or list to have any type. The nodes of the template are shared
// between evaluations and must not change; HIL modifies only the nodes that reduce creates.
func (e *evaluation) reduce(node ast.Node) (*ast.LiteralNode, error) {
	switch n := node.(type) {
	case *ast.LiteralNode:
		return n, nil
	case *ast.VariableAccess:
		value, err := e.scope.variable(n.Name)
		if err != nil {
			return nil, e.fail(n, err)
		}
		return e.literal(n, n.Name, value)
	case *ast.Index:
		return e.index(n)
	case *ast.Call:
		return e.call(n)
	case *ast.Arithmetic:
		return e.compute(n.Exprs, func(operands []ast.Node) ast.Node {
			return &ast.Arithmetic{Op: n.Op, Exprs: operands, Posx: n.Posx}
		})
	case *ast.Conditional:
		return e.conditional(n)
	case *ast.Output:
		return e.compute(n.Exprs, func(operands []ast.Node) ast.Node {
			return &ast.Output{Exprs: operands, Posx: n.Posx}
		})
	default:
		return nil, e.fail(node, fmt.Errorf("unexpected %T", node))
	}
}

// reduceAll reduces each node, in their order, and returns the literals. It stops at the first error and returns that.
func (e *evaluation) reduceAll(nodes ...ast.Node) ([]ast.Node, error) {
	reduced := make([]ast.Node, len(nodes))
	for i, node := range nodes {
		literal, err := e.reduce(node)
		if err != nil {
			return nil, err
		}
		reduced[i] = literal
	}
	return reduced, nil
}

// index evaluates name[key], where name is a variable. See literal for the result. It returns an error if the variable
// does not exist or is neither a list nor a map, if the key has the wrong type, if the key cannot be evaluated, or if
// the element does not exist. A negative index never exists.
func (e *evaluation) index(n *ast.Index) (*ast.LiteralNode, error) {
	target, ok := n.Target.(*ast.VariableAccess)
	if !ok {
		return nil, e.fail(n, errors.New("only a variable can be indexed"))
	}
	collection, err := e.scope.variable(target.Name)
	if err != nil {
		return nil, e.fail(target, err)
	}
	key, err := e.reduce(n.Key)
	if err != nil {
		return nil, err
	}
	list, isList := collection.([]any)
	mapping, isMap := collection.(map[string]any)
	expected, what := String, "key of map"
	switch {
	case isList:
		expected, what = Int, "index of list"
	case !isMap:
		return nil, e.fail(target, fmt.Errorf("%s is neither a map nor a list", target.Name))
	}
	keys, err := operands(n, []Type{expected}, key)
	if err != nil {
		return nil, e.fail(n, fmt.Errorf("%s %s: %w", what, target.Name, err))
	}
	if isMap {
		name := as[string](keys[0])
		value, ok := mapping[name]
		if !ok {
			return nil, e.fail(target, missingKey(name, target.Name))
		}
		return e.literal(n, target.Name, value)
	}
	i := as[int64](keys[0])
	if i < 0 || i >= int64(len(list)) {
		return nil, e.fail(target, fmt.Errorf("index %d out of range for list %s (max %d)", i, target.Name, len(list)))
	}
	return e.literal(n, target.Name, list[i])
}

// call evaluates a call of a function, after its arguments. Standard functions take precedence over those of the scope.
// An error of the function, or of the conversion of its arguments, is a *FunctionError. An unknown function, a wrong
// number of arguments and a result that does not have the declared type are also errors, without this type. If an
// argument cannot be evaluated, its error is returned unchanged.
func (e *evaluation) call(n *ast.Call) (*ast.LiteralNode, error) {
	if e.standard == nil {
		e.standard = e.standardFunctions()
	}
	function, ok := e.standard[n.Func]
	if !ok {
		function, ok = generalFunctions()[n.Func]
	}
	if !ok {
		function, ok = e.scope.Functions[n.Func]
	}
	if !ok {
		return nil, e.fail(n, fmt.Errorf("unknown function called: %s", n.Func))
	}
	if err := function.checkArity(n.Func, len(n.Args)); err != nil {
		return nil, e.fail(n, err)
	}
	nodes, err := e.reduceAll(n.Args...)
	if err != nil {
		return nil, err
	}
	args, err := operands(n, function.types(len(nodes)), nodes...)
	if err != nil {
		return nil, e.fail(n, &FunctionError{n.Func, err})
	}
	value, err := function.Call(args)
	if err != nil {
		return nil, e.fail(n, &FunctionError{n.Func, err})
	}
	if function.Result == Any {
		return e.literal(n, n.Func, value)
	}
	literal, ok := function.Result.literal(value)
	if !ok {
		return nil, e.fail(n, fmt.Errorf("%s: the result is not %s", n.Func, withArticle(function.Result)))
	}
	literal.Posx = n.Posx
	return literal, nil
}

// A FunctionError is the error of a function, or of the conversion of its arguments. Err must not be nil.
type FunctionError struct {
	// Function is the name of the function.
	Function string
	// Err is the reason. The standard functions do not quote values in it, because they may be secret. The exceptions
	// are the message of assert, the names in errors of env, config and list.pluck, and patterns: regexp.matches
	// quotes the faulty part of the pattern, and regex the pattern that the text does not match.
	Err error
}

// Error returns the name of the function and the reason.
func (e *FunctionError) Error() string { return e.Function + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *FunctionError) Unwrap() error { return e.Err }

// compute reduces nodes, the operands of an operator, and evaluates the operator with them. The function operator
// returns the node of the operation with the reduced operands. compute returns an error if an operand cannot be
// evaluated, or if HIL rejects the operation.
func (e *evaluation) compute(nodes []ast.Node, operator func(operands []ast.Node) ast.Node) (*ast.LiteralNode, error) {
	reduced, err := e.reduceAll(nodes...)
	if err != nil {
		return nil, err
	}
	node := operator(reduced)
	results, err := operands(node, []Type{Any}, node)
	if err != nil {
		return nil, e.fail(node, err)
	}
	literal := naturalLiteral(results[0])
	literal.Posx = node.Pos()
	return literal, nil
}

// conditional evaluates condition ? a : b, with all three operands. It returns an error if an arm is a list or a map,
// and the errors of compute.
func (e *evaluation) conditional(n *ast.Conditional) (*ast.LiteralNode, error) {
	reduced, err := e.reduceAll(n.CondExpr, n.TrueExpr, n.FalseExpr)
	if err != nil {
		return nil, err
	}
	for i, arm := range []ast.Node{n.TrueExpr, n.FalseExpr} {
		literal, _ := reduced[i+1].(*ast.LiteralNode)
		for _, t := range []Type{List, Map} {
			if literal.Typex == t.kind().hil {
				return nil, e.fail(arm, unsuitableArm(t))
			}
		}
	}
	return e.compute(reduced, func(operands []ast.Node) ast.Node {
		return &ast.Conditional{CondExpr: operands[0], TrueExpr: operands[1], FalseExpr: operands[2], Posx: n.Posx}
	})
}

// literal returns the literal of a variable or of a function's result. A scalar becomes a text; a list or map is
// unchanged. A scalar of an unsupported type is an error, which contains the name of the variable or function.
func (e *evaluation) literal(node ast.Node, name string, value any) (*ast.LiteralNode, error) {
	switch value.(type) {
	case map[string]any, []any:
	default:
		scalar, err := text(value)
		if err != nil {
			return nil, e.fail(node, fmt.Errorf("%s: %w", name, err))
		}
		value = scalar
	}
	literal := naturalLiteral(value)
	literal.Posx = node.Pos()
	return literal, nil
}

// fail returns the error, which must not be nil, with the position of a node, as withPos does.
func (e *evaluation) fail(node ast.Node, err error) error {
	return withPos(e.template.source.at(node.Pos()), err)
}

// withPos returns a *diag.PositionError that wraps the error, which must not be nil, or the error unchanged if the
// position is zero.
func withPos(pos diag.Pos, err error) error {
	if pos == (diag.Pos{}) {
		return err
	}
	return &diag.PositionError{Pos: pos, Err: err}
}

// operands evaluates nodes with HIL and converts the results to the given types, one for each node. It returns them as
// Go values: string, bool, int64, float64, []any or map[string]any. It returns an error, which does not contain values,
// if a node cannot be evaluated or converted. The nodes are evaluated as the arguments of a call of a function that
// captures them, because HIL converts only arguments. HIL may change the nodes. The node at determines the position in
// HIL's errors.
func operands(at ast.Node, types []Type, nodes ...ast.Node) ([]any, error) {
	var values []any
	capture := func(args []any) (any, error) {
		values = args
		return "", nil
	}
	expected := value.Convert(types, func(t Type) ast.Type { return t.kind().hil })
	const name = "capture"
	functions := make(map[string]ast.Function, 20) // HIL adds its own functions to the map
	functions[name] = ast.Function{ArgTypes: expected, ReturnType: ast.TypeString, Callback: capture}
	scope := &ast.BasicScope{FuncMap: functions}
	call := &ast.Call{Func: name, Args: nodes, Posx: at.Pos()}
	if _, err := hil.Eval(call, &hil.EvalConfig{GlobalScope: scope}); err != nil {
		return nil, plainError(err)
	}
	return value.Convert(values, goValue), nil
}

const (
	// hilPrefix matches the start of HIL's error messages: a position, which is relative to the reduced node, and the
	// name of an internal function.
	hilPrefix = `^(?:At column \d+, line \d+: )?(?:(?:capture|__builtin_\w+): )?`
	// hilConversion matches HIL's errors about a text that cannot be converted. These errors quote the text.
	hilConversion = `^__builtin_StringTo(Int|Float|Bool): `
	// hilType matches the names of types in HIL's errors.
	hilType = `\bType(Int|Float|Bool|String|List|Map)\b`
)

// plainError returns a new error for an error of HIL, which must not be nil, for authors of paks: without internal
// names, and without values, which may be secret. It does not wrap the error.
func plainError(err error) error {
	message := err.Error()
	if match := regexp.MustCompile(hilConversion).FindStringSubmatch(message); match != nil {
		return fmt.Errorf("a text is not %s",
			map[string]string{"Int": "an int", "Float": "a float", "Bool": "a bool"}[match[1]])
	}
	message = message[len(regexp.MustCompile(hilPrefix).FindString(message)):]
	return errors.New(regexp.MustCompile(hilType).ReplaceAllStringFunc(message, func(name string) string {
		return strings.ToLower(strings.TrimPrefix(name, "Type"))
	}))
}
