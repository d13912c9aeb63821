package expr_test

import (
	"errors"
	"net/url"
	"reflect"
	"testing"

	"github.com/hashicorp/hil"
	"github.com/hashicorp/hil/ast"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
)

// seeds are texts with every construct of the language.
func seeds() []string {
	return []string{
		"", "a$$b", "${", "$${x}", `${"a${"b"}"}`, `a ${s} ${n} ${m["k"]} ${l[1]}`, `${l}`, `${m}`, `x${l}`, `${m[l]}`, `${l["x"]}`,
		`${1 + 2 * -n / 4 % 3}`, `${1.5 / n}`, `${!yes || s == "text" && n >= 5}`, `${yes ? n : "x"}`, `${n ? l : m}`, `${1 / 0}`,
		`${str.queryEscape("a b")}`, `${str.queryEscape(l)}`, `${a.b.c}`, `${m.k}`, `${"\\\"\n"}`, "${\n s\n}", "äöü ${ä}", `${x.*.y}`, "${1..2}",
		`${!yes}`, `${s != "text" || n == "5"}`, `${"5" == n}`, `${true == "true" ? 1 : 4}`, `a${1}b${true}${1.5}`, `${"yes" && true}`,
		`${1 == true}`, `${"1" == true}`, `${1 ? 2 : 3}`, `${yes ? 1 : 1.5}`, `${true || s}`, `${l == l}`, `${m["n"] == 1 ? s : "x"}`,
	}
}

func values() vars {
	return vars{
		"s": "text", "n": int64(5), "f": 1.5, "yes": true, "null": nil, "l": []any{"a", int64(2)}, "m": vars{"k": "v", "n": int64(1)},
		"none": []any{}, "deep": vars{"a": vars{"b": "c"}},
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range seeds() {
		f.Add(seed, 3, false)
	}
	f.Fuzz(func(t *testing.T, text string, indent int, folded bool) {
		pos := diag.Pos{File: "svc.yml", Line: 7, Column: 5}
		template, err := expr.Parse(expr.Source{Text: text, Pos: pos, Indent: indent, Folded: folded})
		if err != nil {
			var found diag.Errors
			if !errors.As(err, &found) || len(found) == 0 || found[0].Pos.Line < pos.Line {
				t.Fatalf("wrong error %#v", err)
			}
			return
		}
		if template.Text() != text {
			t.Fatalf("the text became %q", template.Text())
		}
		if name, ok := template.Whole(); ok && (template.IsLiteral() || len(template.References()) != 1 || name != template.References()[0].Name) {
			t.Fatalf("%q is not exactly %s", text, name)
		}
		unknown := map[string]bool{} // in a folded scalar all are at one place, and one name there is reported once
		for _, reference := range template.References() {
			unknown[reference.Pos.String()+reference.Name] = true
		}
		if found := template.Check(expr.Known{}).All(); len(found) < len(unknown) {
			t.Fatalf("%d findings about %d unknown variables", len(found), len(unknown))
		}
	})
}

// FuzzEval compares with HIL as the reference broker uses it: what that evaluates must have the same result here.
func FuzzEval(f *testing.F) {
	for _, seed := range seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		template, err := expr.Parse(expr.Source{Text: text})
		if err != nil {
			return
		}
		got, err := template.Eval(&expr.Scope{Variables: values()})
		expected, ok := reference(text)
		if !ok {
			return
		}
		if err != nil {
			t.Fatalf("%q fails: %v", text, err)
		}
		if !reflect.DeepEqual(got, expected) {
			t.Fatalf("%q is %#v, not %#v", text, got, expected)
		}
	})
}

// reference evaluates a text with HIL alone. It is not ok when that fails.
func reference(text string) (result any, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	root, err := hil.Parse(text)
	if err != nil {
		return nil, false
	}
	variables := map[string]ast.Variable{}
	for name, item := range values() {
		variable, err := hil.InterfaceToVariable(item)
		if err != nil {
			panic(err)
		}
		variables[name] = variable
	}
	escape := ast.Function{
		ArgTypes:   []ast.Type{ast.TypeString},
		ReturnType: ast.TypeString,
		Callback:   func(args []any) (any, error) { return url.QueryEscape(args[0].(string)), nil },
	}
	scope := &ast.BasicScope{VarMap: variables, FuncMap: map[string]ast.Function{"str.queryEscape": escape}}
	evaluated, err := hil.Eval(root, &hil.EvalConfig{GlobalScope: scope})
	return evaluated.Value, err == nil && evaluated.Type != hil.TypeUnknown
}
