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

// Eval evaluates the template. The value is a string, or a list or map when the template is one expression of that type;
// all scalars in those are texts, but in what merge gives. The error is a diag.PlacedError of the part of the template that failed, and
// wraps what a function returned.
//
// As in HIL every part is evaluated: both arms of a conditional, both sides of && and ||.
func (t *Template) Eval(s *Scope) (value any, err error) {
	defer func() {
		if r := recover(); r != nil {
			value, err = nil, placed(t.source.Pos, fmt.Errorf("evaluating the expression: %v", r))
		}
	}()
	if s == nil {
		s = &Scope{}
	}
	e := &evaluation{template: t, scope: s, made: map[string]int{}}
	result, err := e.reduce(t.root)
	if err != nil {
		return nil, err
	}
	if t.merges() {
		return goValue(result.Value), nil
	}
	return texts(goValue(result.Value))
}

// merges tells whether the whole template is a call of merge. Other brokers do not have it, so what is in the map may keep its type: settings
// that plans and users give go into manifests as they are.
func (t *Template) merges() bool {
	call, ok := t.only().(*ast.Call)
	return ok && call.Func == "merge"
}

// evaluation is one run of a template.
type evaluation struct {
	template *Template
	scope    *Scope
	standard map[string]Function // filled by the first call
	made     map[string]int      // number of calls by generating function
}

// reduce evaluates a node after its operands. Since HIL evaluates everything anyway, this changes no result; it tells
// which node failed, and lets the type of a map's element be that of the one element that is asked for. The nodes of the
// template are shared between evaluations and stay as they are: HIL rewrites only the nodes made here.
func (e *evaluation) reduce(node ast.Node) (*ast.LiteralNode, error) {
	switch n := node.(type) {
	case *ast.LiteralNode:
		return n, nil
	case *ast.VariableAccess:
		value, err := e.scope.variable(n.Name)
		if err != nil {
			return nil, e.fail(n, err)
		}
		return e.variable(n, n.Name, value)
	case *ast.Index:
		return e.index(n)
	case *ast.Call:
		return e.call(n)
	case *ast.Arithmetic:
		return e.compute(n.Exprs, func(operands []ast.Node) ast.Node {
			return &ast.Arithmetic{Op: n.Op, Exprs: operands, Posx: n.Posx}
		})
	case *ast.Conditional:
		return e.compute([]ast.Node{n.CondExpr, n.TrueExpr, n.FalseExpr}, func(operands []ast.Node) ast.Node {
			return &ast.Conditional{CondExpr: operands[0], TrueExpr: operands[1], FalseExpr: operands[2], Posx: n.Posx}
		})
	case *ast.Output:
		return e.compute(n.Exprs, func(operands []ast.Node) ast.Node { return &ast.Output{Exprs: operands, Posx: n.Posx} })
	default:
		return nil, e.fail(node, fmt.Errorf("unexpected %T", node))
	}
}

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

// index evaluates name[key].
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
		return e.variable(n, target.Name, value)
	}
	i := as[int64](keys[0])
	if i < 0 || i >= int64(len(list)) {
		return nil, e.fail(target, fmt.Errorf("index %d out of range for list %s (max %d)", i, target.Name, len(list)))
	}
	return e.variable(n, target.Name, list[i])
}

// call evaluates a call of a function.
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
		return e.variable(n, n.Func, value)
	}
	literal, ok := function.Result.literal(value)
	if !ok {
		return nil, e.fail(n, fmt.Errorf("%s: the result is no %s", n.Func, function.Result))
	}
	literal.Posx = n.Posx
	return literal, nil
}

// FunctionError is what a function says about its arguments.
type FunctionError struct {
	// Function is its name, Err the reason, which quotes no value.
	Function string
	Err      error
}

// Error returns the name and the reason.
func (e *FunctionError) Error() string { return e.Function + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *FunctionError) Unwrap() error { return e.Err }

// compute applies an operator to its operands as HIL does.
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

// variable makes a literal of a value from outside HIL: scalars become texts.
func (e *evaluation) variable(node ast.Node, name string, value any) (*ast.LiteralNode, error) {
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

// fail places an error at a node.
func (e *evaluation) fail(node ast.Node, err error) error {
	return placed(e.template.source.at(node.Pos()), err)
}

// placed puts a place before an error.
func placed(pos diag.Pos, err error) error {
	if pos == (diag.Pos{}) {
		return err
	}
	return &diag.PlacedError{Pos: pos, Err: err}
}

// operands has HIL evaluate nodes and convert the results to types. It returns them as Go values: string, bool, int64, float64, []any
// or map[string]any.
func operands(at ast.Node, types []Type, nodes ...ast.Node) ([]any, error) {
	var values []any
	capture := func(args []any) (any, error) {
		values = args
		return "", nil
	}
	expected := value.Each(types, func(t Type) ast.Type { return t.kind().hil })
	const name = "capture"
	functions := make(map[string]ast.Function, 20) // HIL adds its own
	functions[name] = ast.Function{ArgTypes: expected, ReturnType: ast.TypeString, Callback: capture}
	scope := &ast.BasicScope{FuncMap: functions}
	if _, err := hil.Eval(&ast.Call{Func: name, Args: nodes, Posx: at.Pos()}, &hil.EvalConfig{GlobalScope: scope}); err != nil {
		return nil, plain(err)
	}
	return value.Each(values, goValue), nil
}

const (
	// hilPrefix is what HIL puts before a message: a place, which counts from the wrong line, and the name of a function
	// that nobody called.
	hilPrefix = `^(?:At column \d+, line \d+: )?(?:(?:capture|__builtin_\w+): )?`
	// hilConversion matches HIL's messages about a text that cannot be converted, which quote the text.
	hilConversion = `^__builtin_StringTo(Int|Float|Bool): `
	// hilType matches HIL's names of types.
	hilType = `\bType(Int|Float|Bool|String|List|Map)\b`
)

// plain returns an error of HIL in the words of an author. It does not quote values, which may be secret.
func plain(err error) error {
	message := err.Error()
	if match := regexp.MustCompile(hilConversion).FindStringSubmatch(message); match != nil {
		return fmt.Errorf("a text is no %s", strings.ToLower(match[1]))
	}
	message = message[len(regexp.MustCompile(hilPrefix).FindString(message)):]
	return errors.New(regexp.MustCompile(hilType).ReplaceAllStringFunc(message, func(name string) string {
		return strings.ToLower(strings.TrimPrefix(name, "Type"))
	}))
}
