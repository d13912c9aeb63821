// Package expr evaluates the HIL expressions of brokerpaks. It parses a text with ${...} once, tells which variables and
// functions it uses, checks them without values, and evaluates it any number of times, also concurrently. It keeps what
// the reference broker does, except that one key of a map with values of several types can be looked up, that a dotted
// name reaches into a map variable, and that nothing panics.
//
// Values are nil, bool, string, int64, uint64, float64, []any and map[string]any. As in HIL, scalar variables are texts:
// true is "1", false "0", null "", and a number its decimal digits.
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

// Template is a parsed text. It never changes, so it may be used concurrently.
type Template struct {
	source     Source
	root       ast.Node
	references []Reference
	calls      []Call
}

// Reference is one access to a variable.
type Reference struct {
	Name    string
	Indexed bool   // written as name[...]
	Key     string // the key of name["key"] or name[0]; "" when it is computed
	Pos     diag.Pos
}

// Names yields the name, and after it the names of what it is a part of: a.b.c, a.b, a.
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

// KeyOf tells whether a map variable is read, and which key of it; "" where it is read as a whole or the key is computed.
func (r Reference) KeyOf(variable string) (key string, ok bool) {
	if key, below := strings.CutPrefix(r.Name, variable+"."); below {
		return key, true
	}
	return r.Key, r.Name == variable
}

// Call is one call of a function.
type Call struct {
	Name string
	Args []string // those that are constants; "" for others
	Pos  diag.Pos
}

// Arg is an argument that is a constant, counted from 0; "" for others and where there is none.
func (c Call) Arg(index int) string {
	if index >= len(c.Args) {
		return ""
	}
	return c.Args[index]
}

// maxLength is how many bytes a text with an expression may have. HIL's parser calls itself for every operator, and a stack
// that overflows cannot be caught.
const maxLength = 64 << 10

// Parse parses a text. The error is a diag.Errors about a fault of syntax; names and types are not looked at.
func Parse(source Source) (template *Template, err error) {
	if len(source.Text) > maxLength && strings.Contains(source.Text, "${") {
		return nil, syntaxError(source.Pos, fmt.Sprintf("a text with an expression may have %d bytes at most", maxLength))
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

// syntaxError reports a text that cannot be parsed.
func syntaxError(pos diag.Pos, message string) error {
	return diag.Errors{{Rule: "expression-syntax", Message: message, Pos: pos}}
}

// Text returns the text as it was written, with its ${...} and $$.
func (t *Template) Text() string { return t.source.Text }

// Pos returns the place of the first character of the text.
func (t *Template) Pos() diag.Pos { return t.source.Pos }

// IsLiteral tells whether the value is a constant text, which Eval returns without looking at its scope. It may differ
// from Text, because "$$" stands for a dollar sign.
func (t *Template) IsLiteral() bool {
	_, ok := t.root.(*ast.LiteralNode)
	return ok
}

// Whole returns the name of the variable when the template is exactly one access to it, such as "${license_key}".
func (t *Template) Whole() (name string, ok bool) {
	if access, ok := t.only().(*ast.VariableAccess); ok {
		return access.Name, true
	}
	return "", false
}

// only is the expression that is the whole template; nil where there is more than one, or none.
func (t *Template) only() ast.Node {
	if output, ok := t.root.(*ast.Output); ok && len(output.Exprs) == 1 {
		return output.Exprs[0]
	}
	return nil
}

// References returns every access to a variable, in the order of the text.
func (t *Template) References() []Reference { return t.references }

// Calls returns every call of a function, in the order of the text.
func (t *Template) Calls() []Call { return t.calls }

// collect notes the references and calls under a node.
func (t *Template) collect(node ast.Node) {
	switch n := node.(type) {
	case *ast.VariableAccess:
		t.references = append(t.references, Reference{Name: n.Name, Pos: t.source.at(n.Posx)})
	case *ast.Index:
		if target, ok := n.Target.(*ast.VariableAccess); ok {
			reference := Reference{Name: target.Name, Indexed: true, Key: constant(n.Key), Pos: t.source.at(target.Posx)}
			t.references = append(t.references, reference)
		}
		t.collect(n.Key)
	case *ast.Call:
		t.calls = append(t.calls, Call{Name: n.Func, Args: value.Each(n.Args, constant), Pos: t.source.at(n.Posx)})
		t.collectAll(n.Args...)
	case *ast.Output:
		t.collectAll(n.Exprs...)
	case *ast.Arithmetic:
		t.collectAll(n.Exprs...)
	case *ast.Conditional:
		t.collectAll(n.CondExpr, n.TrueExpr, n.FalseExpr)
	}
}

func (t *Template) collectAll(nodes ...ast.Node) {
	for _, node := range nodes {
		t.collect(node)
	}
}

// constant returns the text of a literal string or integer, and "" for everything else.
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
