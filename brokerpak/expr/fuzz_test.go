package expr_test

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/hil"
	"github.com/hashicorp/hil/ast"
	"github.com/zclconf/go-cty/cty"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// seeds returns texts that together contain every construct of the language.
func seeds() []string {
	return []string{
		"", "a$$b", "${", "$${x}", `${"a${"b"}"}`, `a ${s} ${n} ${m["k"]} ${l[1]}`, `${l}`, `${m}`, `x${l}`, `${m[l]}`,
		`${l["x"]}`,
		`${1 + 2 * -n / 4 % 3}`, `${1.5 / n}`, `${!yes || s == "text" && n >= 5}`, `${yes ? n : "x"}`, `${n ? l : m}`,
		`${1 / 0}`,
		`${str.queryEscape("a b")}`, `${str.queryEscape(l)}`, `${a.b.c}`, `${m.k}`, `${"\\\"\n"}`, "${\n s\n}",
		"äöü ${ä}",
		`${x.*.y}`, "${1..2}",
		`${!yes}`, `${s != "text" || n == "5"}`, `${"5" == n}`, `${true == "true" ? 1 : 4}`, `a${1}b${true}${1.5}`,
		`${"yes" && true}`,
		`${1 == true}`, `${"1" == true}`, `${1 ? 2 : 3}`, `${yes ? 1 : 1.5}`, `${true || s}`, `${l == l}`,
		`${m["n"] == 1 ? s : "x"}`,
		`${split(",", s)}`, `${join(s, l)}`, `${replace(s, "/(t)/", "$1$1")}`, `${regex("(?P<x>t)(e)", s)}`,
		`${trimspace(lower(trim(s, "t")))}`,
		`${trimprefix(s, "t")}${trimsuffix(s, n)}${startswith(s, f)}${endswith(s, null)}`,
		`${concat(l, none, values(m), keys(deep))}`, `${concat()}`,
		`${element(sort(distinct(reverse(l))), -n)}`, `${slice(flatten(l), 1, n)}`, `${contains(l, m)}`,
		`${range(n, -n, f)}`,
		`${merge(m, deep, l)}`,
		`${min(n, f, "0x1p-2")}${max(n)}${ceil(f)}${floor(null)}${abs(-n)}`, `${range(1, 2, 3, 4)}`,
		`${max(n, 9223372036854775807) + 1}`,
	}
}

// values returns the variables that the seeds use.
func values() vars {
	return vars{
		"s": "text", "n": int64(5), "f": 1.5, "yes": true, "null": nil, "l": []any{"a", int64(2)},
		"m":    vars{"k": "v", "n": int64(1)},
		"none": []any{}, "deep": vars{"a": vars{"b": "c"}},
	}
}

// FuzzParse checks the invariants of parsed templates, and that every unknown variable is reported.
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
		references := template.References()
		if name, ok := template.SingleVariable(); ok &&
			(template.IsLiteral() || len(references) != 1 || name != references[0].Name) {
			t.Fatalf("%q is not exactly %s", text, name)
		}
		// The keys are positions with names, because equal diagnostics at one position are reported once.
		unknown := map[string]bool{}
		for _, reference := range template.References() {
			unknown[reference.Pos.String()+reference.Name] = true
		}
		if found := template.Check(expr.Names{}).All(); len(found) < len(unknown) {
			t.Fatalf("%d findings about %d unknown variables", len(found), len(unknown))
		}
	})
}

// FuzzEval compares results with those of HIL, as the reference broker uses it. If HIL can evaluate a text, the
// result must be the same.
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

// FuzzGeneral compares the functions of OpenTofu with OpenTofu's implementation.
func FuzzGeneral(f *testing.F) {
	f.Add(",", "a,b,,é", "(.)(b)?", "$1", int64(1), int64(3), 1.5)
	f.Add("", "é日", "(?P<x>.)", "$x", int64(-4), int64(0), -0.5)
	f.Add("x", " \u00a0ÄxX\n", "[", "", int64(math.MaxInt64), int64(math.MinInt64), 1e19)
	f.Add("/", "a/b//", "(a)(?P<b>c)", "$$", int64(1<<53+1), int64(2), 0.1)
	f.Fuzz(func(t *testing.T, a, b, c, d string, i, j int64, x float64) {
		variables := vars{"a": a, "b": b, "c": c, "d": d, "p": "/" + c + "/", "i": i, "j": j, "x": x}
		for _, text := range []string{a, b, c, d} {
			if cty.StringVal(text).AsString() != text || !utf8.ValidString(text) { // OpenTofu normalises texts to NFC
				return
			}
		}
		// HIL converts such a number to a text with an exponent.
		if x != 0 && (math.Abs(x) < 1e-4 || !(math.Abs(x) < 1e20)) {
			return
		}
		for _, text := range []string{
			`split(a, b)`, `join(c, split(a, b))`, `replace(b, a, d)`, `replace(b, p, d)`, `regex(c, b)`,
			`trimspace(b)`,
			`trimprefix(b, a)`,
			`trimsuffix(b, a)`, `trim(b, a)`, `lower(b)`, `startswith(b, a)`, `endswith(b, a)`,
			`concat(split(a, b), split(c, d))`, `sort(split(a, b))`,
			`distinct(split(a, b))`, `slice(split(a, b), i, j)`, `reverse(split(a, b))`, `contains(split(a, b), d)`,
			`element(split(a, b), i)`,
			`flatten(concat(split(a, b), split(c, d)))`, `range(i)`, `range(i, j)`, `range(x, i, j)`, `min(i, j, x)`,
			`max(i, j, x)`, `ceil(x)`, `floor(x)`, `abs(i)`, `abs(x)`,
		} {
			template, err := expr.Parse(expr.Source{Text: "${" + text + "}"})
			if err != nil {
				t.Fatal(err)
			}
			got, failed := template.Eval(&expr.Scope{Variables: variables})
			expected, refused := judge(text, variables)
			if (failed == nil) != (refused == nil) && !strings.Contains(fmt.Sprint(failed),
				"the number is out of range") {
				t.Fatalf("%s of %#v: %v, not %v", text, variables, failed, refused)
			}
			if composed := composed(got); failed == nil && !reflect.DeepEqual(composed, expected) {
				t.Fatalf("%s of %#v is %#v, not %#v", text, variables, composed, expected)
			}
		}
	})
}

// composed returns a value whose texts are normalised as OpenTofu does it.
func composed(v any) any {
	result, _ := value.Map(v, func(scalar any) (any, error) {
		return cty.StringVal(value.Text(scalar)).AsString(), nil
	})
	return result
}

// reference evaluates a text with HIL alone. It returns false if that fails.
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
