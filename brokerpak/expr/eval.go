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

// Eval evaluates the template with the variables and functions of the scope. The result is a string, or a list or map
// if the template is a single expression of that type. The text of a boolean variable is "1" or "0", and that of a bool
// that the expression computes, for example by a comparison, is "true" or "false". All scalars in a list or map are
// texts, except in the result of a template that is only a call of merge. A nil scope is an empty one. The values in
// the scope are not changed.
//
// As in HIL, every part is evaluated: both arms of a conditional, and both sides of && and ||.
//
// The error is a *diag.PositionError with the position of the part that failed, or of the start of the template after a
// panic. It is the reason itself if the position of the template is zero, or if a list or map in the result contains a
// scalar of a Go type that expressions do not have. The reason wraps ErrUnknownVariable if a variable is not set, and
// is a *FunctionError if a function, or the conversion of its arguments, failed. Any other reason, such as a missing
// key of a map, an unknown function, a wrong number of arguments, or a panic of HIL or of a function, has no type of
// its own. After an error the value is nil.
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

// isMergeCall reports whether the whole template is one call of the function merge, as in "${merge(a, b)}". The result
// of such a template keeps the types of its scalars, because settings of plans and users are merged into manifests
// unchanged. Compatibility does not require texts here: other brokers do not have the function.
func (t *Template) isMergeCall() bool {
	call, ok := t.singleExpression().(*ast.Call)
	return ok && call.Func == "merge"
}

// An evaluation is the state of one evaluation of a template: the template, the scope with its variables and functions,
// and, for each function that generates values, such as rand.base64, the number of its calls so far. Its method reduce
// evaluates the template. It is not safe for concurrent use, and must not be used for a second evaluation.
type evaluation struct {
	template   *Template
	scope      *Scope
	standard   map[string]Function // the result of standardFunctions; nil before the first call of a function
	callCounts map[string]int      // the number of calls of each generating function
}

// reduce evaluates a node of the parsed template to a literal node, after its operands. The scalar value of a
// variable or element becomes a text; see literal. reduce returns nil and an error if the node or an operand cannot
// be evaluated, for example because of an unknown variable, a failed function or operands of the wrong type. The
// error has the position of the node that failed, unless the position of the template is zero. See Eval for the types
// of the errors.
//
// Since HIL evaluates every operand anyway, the order does not change the result. Reducing each node separately shows
// which one failed, and allows a single element of a map or list to have any type. The nodes of the template are shared
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

// reduceAll evaluates nodes of the parsed template, in their order, and returns their literal nodes, one for each. At
// the first node that cannot be evaluated, it stops and returns nil and the error of reduce, which has the position of
// the failed node.
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

// index evaluates an element name[key] of a list or map, where name is a variable. A scalar element becomes a text: "1"
// or "0" for a boolean, and "" for null. A list or map is unchanged. Indexes count from 0, and a negative index never
// exists.
//
// index returns nil and an error, which has a position unless that of the template is zero, if anything but a variable
// is indexed, if the variable does not exist or is neither a list nor a map, if the key cannot be evaluated or cannot
// be converted to a string (for a map) or an int (for a list), if the element does not exist, or if it has a Go type
// that expressions do not have. See Eval for the types of the errors.
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
// A result of a function with the type Any is converted: a scalar becomes a text. The errors have positions, unless
// that of the template is zero. An error of the function, or of the conversion of its arguments, is a *FunctionError.
// An unknown function, a wrong number of arguments and a result that has neither the declared type nor, for Any, a type
// of expressions are errors without this type. If an argument cannot be evaluated, its error is returned unchanged. A
// panic of the function is not recovered here, but in Eval.
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

// A FunctionError is the error of a function that an expression calls, or of the conversion of its arguments, with
// the name of the function. Template.Eval returns it as a pointer, so errors.As needs a *FunctionError. Err is the
// reason and must not be nil, so the zero FunctionError is not valid. The standard functions avoid quoting argument
// values in the reason, because they may be secret. The field Err lists exceptions; yaml.toJSON is another one, whose
// reason may contain keys of its text.
type FunctionError struct {
	// Function is the name of the function.
	Function string
	// Err is the reason. The standard functions do not quote values in it, because they may be secret. The exceptions
	// are the message of assert, the names in errors of env, config and list.pluck, keys of the text in errors of
	// yaml.toJSON, and patterns: regexp.matches quotes a part of an invalid pattern or all of it, and regex the pattern
	// that the text does not match.
	Err error
}

// Error returns the name of the function and the text of the reason, separated by ": ". It panics if Err is nil.
func (e *FunctionError) Error() string { return e.Function + ": " + e.Err.Error() }

// Unwrap returns the reason, Err, for errors.Is and errors.As.
func (e *FunctionError) Unwrap() error { return e.Err }

// compute evaluates an operation, such as an addition or the concatenation of the parts of a template, and returns
// the literal node of its result. nodes are the operands, which compute reduces to literals first. The function
// operator returns the node of the operation with the reduced operands, which HIL then evaluates. compute returns nil
// and an error if an operand cannot be evaluated, or if HIL rejects the operation, for example because of the types
// of the operands or a division of integers by zero. The error has a position unless that of the template is zero.
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

// conditional evaluates condition ? a : b and returns the literal node of the chosen arm. If the types of the arms
// differ, a text is converted to the type of the other arm, and otherwise b to the type of a. All three operands are
// evaluated, so an error in the arm that is not chosen is also an error.
//
// conditional returns nil and an error, which has a position unless that of the template is zero, if an operand
// cannot be evaluated, if an arm is a list or a map, if an arm cannot be converted, or if the condition cannot be
// converted to a bool.
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

// literal returns the literal node of a value, which is that of a variable or of an element, or the result of a
// function. A scalar becomes a text ("1" and "0" for booleans, "" for nil); a list or map is unchanged. node is the
// node of the template that is evaluated, for the position of the literal and of an error. literal returns an error,
// which contains name, the name of the variable or function, if the value has a Go type that expressions do not have.
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

// fail returns a *diag.PositionError that wraps err and has the position of a node of the template in the file. If the
// position of the template is zero, fail returns err itself. The error must not be nil.
func (e *evaluation) fail(node ast.Node, err error) error {
	return withPos(e.template.source.at(node.Pos()), err)
}

// withPos returns a *diag.PositionError that has the position pos and wraps err, which must not be nil. If the position
// is zero, it returns err unchanged.
func withPos(pos diag.Pos, err error) error {
	if pos == (diag.Pos{}) {
		return err
	}
	return &diag.PositionError{Pos: pos, Err: err}
}

// operands evaluates nodes with HIL and converts the results to types, which contains one type for each node; Any and
// Number mean no conversion. It returns the results as Go values: string, bool, int64, float64, []any or
// map[string]any. The node at is only used for the position in HIL's errors. operands returns an error without a
// position in the file if a node cannot be evaluated or converted; the error does not contain values. HIL may change
// the nodes. The nodes are evaluated as the arguments of a call of a function that captures them, because HIL converts
// only arguments.
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

// plainError returns a new error with the message of an error of HIL, which must not be nil, in a form for authors of
// paks: without HIL's position and internal names, and without the text that could not be converted, which may be
// secret. The message for such a text is, for example, "a text is not an int". The result does not wrap err.
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
