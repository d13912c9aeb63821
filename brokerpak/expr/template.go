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

// A Template is a parsed text with expressions. It is immutable and safe for concurrent use.
type Template struct {
	source     Source
	root       ast.Node
	references []Reference
	calls      []Call
}

// A Reference is an access to a variable in a template. It says nothing about whether the variable exists.
type Reference struct {
	Name    string
	Indexed bool   // whether it is written as name[...]
	Key     string // the key in name["key"] or name[0]; "" if the key is computed or not Indexed
	Pos     diag.Pos
}

// Names yields the name and its dotted prefixes, longest first: a.b.c, a.b, a.
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

// KeyOf reports whether the reference reads the named map variable or one of its keys, and returns the key that it
// reads. The key is "" if the whole map is read or the key is computed. For "a.b.c" and the variable "a" it is "b.c".
// For name[...] below the variable, it is the key before the brackets.
func (r Reference) KeyOf(variable string) (key string, ok bool) {
	if key, below := strings.CutPrefix(r.Name, variable+"."); below {
		return key, true
	}
	return r.Key, r.Name == variable
}

// A Call is a call of a function in a template. It says nothing about whether the function exists.
type Call struct {
	Name string
	Args []string // the values of constant arguments; "" for other arguments
	Pos  diag.Pos
}

// Arg returns the value of the argument with this index, counted from 0. It returns "" if the argument is not a
// constant or does not exist.
func (c Call) Arg(index int) string {
	if index >= len(c.Args) {
		return ""
	}
	return c.Args[index]
}

// maxLength is the maximum length in bytes of a text with an expression. HIL's parser recurses for every operator,
// and Go cannot recover from a stack overflow.
const maxLength = 64 << 10

// Parse parses a text. It does not check whether variables and functions exist; see Template.Check. If the syntax is
// invalid, if HIL's parser panics, or if a text with an expression is longer than 64 KiB, the error is a diag.Errors
// with the position in the file, and the template is nil.
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

// syntaxError returns a diag.Errors with one diagnostic of the rule "expression-syntax" at the position, for a text
// that cannot be parsed.
func syntaxError(pos diag.Pos, message string) error {
	return diag.Errors{{Rule: "expression-syntax", Message: message, Pos: pos}}
}

// Text returns the text as it is written, with its ${...} and $$.
func (t *Template) Text() string { return t.source.Text }

// Pos returns the position of the first character of the text.
func (t *Template) Pos() diag.Pos { return t.source.Pos }

// IsLiteral reports whether the text has no expression other than a constant string, so that Eval does not use its
// scope. The result of Eval may differ from Text, because "$$" represents a dollar sign.
func (t *Template) IsLiteral() bool {
	_, ok := t.root.(*ast.LiteralNode)
	return ok
}

// SingleVariable returns the name of the variable if the template consists of a single access to it, such as
// "${license_key}", without an index. Otherwise it returns false.
func (t *Template) SingleVariable() (name string, ok bool) {
	if access, ok := t.singleExpression().(*ast.VariableAccess); ok {
		return access.Name, true
	}
	return "", false
}

// singleExpression returns the expression if the template consists of a single ${...}, and nil otherwise.
func (t *Template) singleExpression() ast.Node {
	if output, ok := t.root.(*ast.Output); ok && len(output.Exprs) == 1 {
		return output.Exprs[0]
	}
	return nil
}

// References returns every access to a variable, in the order of the text and with repetitions. The caller must not
// modify the slice.
func (t *Template) References() []Reference { return t.references }

// Calls returns every function call, in the order of the text and with repetitions. The caller must not modify the
// slice.
func (t *Template) Calls() []Call { return t.calls }

// ConfigKeys returns the keys that the expressions read with config(), in the order of the text and with repetitions.
// It leaves out keys that are computed, and config.find(), which needs none. The result is nil if there are no such
// keys.
func (t *Template) ConfigKeys() (keys []string) {
	for _, call := range t.calls {
		if key := call.Arg(0); call.Name == "config" && key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// collect appends the references and calls of a node and of its operands to those of the template, in the order of the
// text.
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

// collectAll calls collect for each node.
func (t *Template) collectAll(nodes ...ast.Node) {
	for _, node := range nodes {
		t.collect(node)
	}
}

// constant returns the value of a literal string or integer as text, and "" for any other node.
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
