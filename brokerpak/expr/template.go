// Package expr parses and evaluates the expressions of brokerpaks. They are written in HIL, the HashiCorp Interpolation
// Language: a text with ${...}, such as "redis://${host}:${port}".
//
// Parse returns a Template. It lists the variables and functions that the text uses, checks them without values, and
// can be evaluated any number of times, also concurrently.
//
// Results are those of the reference broker, the Cloud Service Broker, with three exceptions: a key of a map whose
// values have several types can be looked up, a dotted name can refer to a key of a map variable, and panics of HIL
// become errors.
//
// Values are nil, bool, string, int64, uint64, float64, []any and map[string]any. As in HIL, scalar variables are
// texts: true is "1", false is "0", null is "", and a number is its decimal representation.
package expr

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/hashicorp/hil"
	"github.com/hashicorp/hil/ast"
	"github.com/hashicorp/hil/parser"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// A Template is a parsed text with any number of expressions ${...}, such as "redis://${host}", and can be checked and
// evaluated. Parse creates it; the zero Template cannot be evaluated. It is immutable and safe for concurrent use.
type Template struct {
	source     Source
	root       ast.Node
	references []Reference
	calls      []Call
}

// A Reference is an access to a variable in a template: the full dotted name of the variable, whether the access has a
// key in brackets (Indexed), that key if it is a constant string or integer, as in name["key"] or name[0], and the
// position in the file. Key is "" without brackets and for any other key. The variable does not have to exist. The zero
// Reference has an empty name, which Parse never returns.
type Reference struct {
	Name    string
	Indexed bool   // whether it is written as name[...]
	Key     string // the key in name["key"] or name[0]; "" if the key is computed or not Indexed
	Pos     diag.Pos
}

// Names returns a sequence of the reference's name and its dotted prefixes, longest first: "a.b.c", "a.b" and "a" for
// the name "a.b.c". A key in brackets is not a part of the names.
func (r Reference) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, more := r.Name, true; more && yield(name); {
			cut := strings.LastIndexByte(name, '.')
			if more = cut > 0; more {
				name = name[:cut]
			}
		}
	}
}

// KeyOf reports whether the reference is written as the map variable with this name or as one of its keys, and
// returns the key that it reads. For the variable "a", the key is "b.c" for the references a.b.c and a.b.c[...], "b"
// for a["b"], and "" for a, which reads the whole map, and for a[...] with a computed key. ok is false, and the key
// must be ignored, for any other reference. These include references to a map that contains the variable, although
// they can read it: a, a["b"] and a[...] for the variable "a.b".
func (r Reference) KeyOf(variable string) (key string, ok bool) {
	if key, below := strings.CutPrefix(r.Name, variable+"."); below {
		return key, true
	}
	return r.Key, r.Name == variable
}

// A Call is a call of a function in a template: the name of the function, its arguments, and the position of the call
// in the file. Args has one element for each argument: the text of a constant string or integer, and "" for any other
// argument. The function does not have to exist. The zero Call has an empty name, which Parse never returns.
type Call struct {
	Name string
	Args []string // the values of constant arguments; "" for other arguments
	Pos  diag.Pos
}

// Arg returns the value of the argument with this index, which counts from 0 and must not be negative. It returns "" if
// the argument does not exist or is not a constant string or integer. The value of the integer 5 is "5".
func (c Call) Arg(index int) string {
	if index >= len(c.Args) {
		return ""
	}
	return c.Args[index]
}

// maxLength is the maximum length in bytes of a text with an expression. HIL's parser recurses for every operator,
// and Go cannot recover from a stack overflow.
const maxLength = 64 << 10

// Parse parses a text that may contain expressions ${...}. It does not check whether variables and functions exist; see
// Template.Check. A text without expressions is valid. Parse returns nil and a diag.Errors, with one error at its
// position in the file, if the syntax is invalid, if HIL's parser panics, or if a text that contains "${" is longer
// than 64 KiB.
func Parse(source Source) (template *Template, err error) {
	if len(source.Text) > maxLength && strings.Contains(source.Text, "${") {
		return nil, syntaxError(source.Pos,
			fmt.Sprintf("a text with an expression may have %d bytes at most", maxLength))
	}
	defer func() {
		if r := recover(); r != nil {
			template, err = nil, syntaxError(source.Pos, fmt.Sprint(r))
		}
	}()
	root, err := hil.Parse(source.Text)
	var fault *parser.ParseError
	switch {
	case errors.As(err, &fault):
		return nil, syntaxError(source.at(fault.Pos), fault.Message)
	case err != nil:
		return nil, syntaxError(source.Pos, err.Error())
	}
	t := &Template{source: source, root: root}
	t.collect(root)
	return t, nil
}

// syntaxError returns a diag.Errors for a text that cannot be parsed. It contains one diagnostic, of the rule
// "expression-syntax", with the given position and message. The result is never nil.
func syntaxError(pos diag.Pos, message string) error {
	return diag.Errors{{Rule: "expression-syntax", Message: message, Pos: pos}}
}

// Text returns the text as it is written in the definition, with its ${...} and with $$ for a dollar sign. It does not
// evaluate anything.
func (t *Template) Text() string { return t.source.Text }

// Pos returns the position of the first character of the text in its file. It is zero if Parse was called with a Source
// without a position.
func (t *Template) Pos() diag.Pos { return t.source.Pos }

// IsLiteral reports whether the text contains no ${...} at all or is a single ${...} with a constant string, so that
// Eval returns the same string with every scope, also with nil. The result of Eval may differ from Text, because "$$"
// in the text represents a dollar sign.
func (t *Template) IsLiteral() bool {
	_, ok := t.root.(*ast.LiteralNode)
	return ok
}

// SingleVariable returns the full dotted name of a variable and true if the template consists only of an access to this
// variable, such as "${license_key}" or "${a.b}". It returns "" and false for any other template, for example if text
// surrounds the access or if it has an index, as in "${a[0]}".
func (t *Template) SingleVariable() (name string, ok bool) {
	if access, ok := t.singleExpression().(*ast.VariableAccess); ok {
		return access.Name, true
	}
	return "", false
}

// SingleCall returns the constant texts before and after a function call, and true, if the template consists only of
// these and the call, such as "a-${rand.base64(16)}" with the texts "a-" and "". A constant in an expression, such as
// ${5}, counts as text. The arguments of the call may contain further calls. For any other template SingleCall returns
// two empty texts and false.
func (t *Template) SingleCall() (before, after string, ok bool) {
	output, isOutput := t.root.(*ast.Output)
	if !isOutput {
		return "", "", false
	}
	for _, part := range output.Exprs {
		_, isCall := part.(*ast.Call)
		literal, isLiteral := part.(*ast.LiteralNode)
		switch {
		case isCall && !ok:
			ok = true
		case isLiteral && ok:
			after += fmt.Sprint(literal.Value)
		case isLiteral:
			before += fmt.Sprint(literal.Value)
		default:
			return "", "", false
		}
	}
	if !ok {
		return "", "", false
	}
	return before, after, true
}

// singleExpression returns the node of the expression if the template consists of a single ${...} without surrounding
// text. It returns nil for any other template, and if the expression is only a constant string, as in ${"abc"}.
func (t *Template) singleExpression() ast.Node {
	if output, ok := t.root.(*ast.Output); ok && len(output.Exprs) == 1 {
		return output.Exprs[0]
	}
	return nil
}

// References returns all accesses to variables in the template, in the order of the text and with repetitions. The
// result is nil if there are none. It is not a copy, so the caller must not modify it.
func (t *Template) References() []Reference { return t.references }

// Calls returns all function calls in the template, in the order of the text and with repetitions; a call precedes the
// calls in its arguments. The result is nil if there are none. It is not a copy, so the caller must not modify it.
func (t *Template) Calls() []Call { return t.calls }

// ConfigKeys returns the constant keys of the calls of the function config in the template, such as "redis.host" for
// ${config("redis.host")}, in the order of the text and with repetitions. Keys that are computed are left out, and so
// are those of config.find, which does not require a value. The result is nil if there are no such keys.
func (t *Template) ConfigKeys() (keys []string) {
	for _, call := range t.calls {
		if key := call.Arg(0); call.Name == "config" && key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// collect appends the accesses to variables and the function calls in a node, and in the nodes below it, to the
// references and calls of the template, in the order of the text. If anything but a variable is indexed, only the key
// is searched; Check and Eval reject such an index. collect is only used while the template is created.
func (t *Template) collect(node ast.Node) {
	switch n := node.(type) {
	case *ast.VariableAccess:
		t.references = append(t.references, Reference{Name: n.Name, Pos: t.source.at(n.Posx)})
	case *ast.Index:
		if target, ok := n.Target.(*ast.VariableAccess); ok {
			reference := Reference{
				Name: target.Name, Indexed: true, Key: constant(n.Key),
				Pos: t.source.at(target.Posx),
			}
			t.references = append(t.references, reference)
		}
		t.collect(n.Key)
	case *ast.Call:
		t.calls = append(t.calls, Call{Name: n.Func, Args: value.Convert(n.Args, constant), Pos: t.source.at(n.Posx)})
		t.collectAll(n.Args...)
	case *ast.Output:
		t.collectAll(n.Exprs...)
	case *ast.Arithmetic:
		t.collectAll(n.Exprs...)
	case *ast.Conditional:
		t.collectAll(n.CondExpr, n.TrueExpr, n.FalseExpr)
	}
}

// collectAll appends the accesses to variables and the function calls in each of the nodes, in their order, to those of
// the template; see collect.
func (t *Template) collectAll(nodes ...ast.Node) {
	for _, node := range nodes {
		t.collect(node)
	}
}

// constant returns the value of a literal string, or of a literal integer as decimal text. It returns "" for any other
// node, such as a boolean, a float or an access to a variable, and for the empty string.
func constant(node ast.Node) string {
	if literal, ok := node.(*ast.LiteralNode); ok {
		switch v := literal.Value.(type) {
		case string:
			return v
		case int:
			return strconv.Itoa(v)
		}
	}
	return ""
}
