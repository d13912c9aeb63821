package expr_test

import (
	"errors"
	"os"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
)

// at returns a position on the line of parse.
func at(column int) diag.Pos { return diag.Pos{File: "svc.yml", Line: 12, Column: column} }

var _ = Describe("Template", func() {
	It("returns its text and position", func() {
		template := parse(`a$$${b}`)
		Expect(template.Text()).To(Equal(`a$$${b}`))
		Expect(template.Pos()).To(Equal(at(10)))
	})

	DescribeTable("reports whether it is a literal", func(text string, literal bool) {
		Expect(parse(text).IsLiteral()).To(Equal(literal))
	},
		Entry("text", `a`, true),
		Entry("empty text", ``, true),
		Entry("escape", `$${a}`, true),
		Entry("constant text", `${"a"}`, true),
		Entry("variable", `${a}`, false),
		Entry("number", `${1}`, false),
	)

	DescribeTable("returns the variable if it consists of a single one", func(text, name string) {
		got, ok := parse(text).SingleVariable()
		Expect(got).To(Equal(name))
		Expect(ok).To(Equal(name != ""))
	},
		Entry("variable", `${license_key}`, "license_key"),
		Entry("dotted", `${ request.instance_id }`, "request.instance_id"),
		Entry("with text", `${license_key} `, ""),
		Entry("twice", `${a}${a}`, ""),
		Entry("indexed", `${a["b"]}`, ""),
		Entry("text", `license_key`, ""),
		Entry("function", `${time.nano()}`, ""),
	)

	DescribeTable("returns the texts around the call if it consists of a single one", func(
		text, before, after string, isCall bool,
	) {
		gotBefore, gotAfter, ok := parse(text).SingleCall()
		Expect([]any{gotBefore, gotAfter, ok}).To(Equal([]any{before, after, isCall}))
	},
		Entry("alone", `${f(a)}`, "", "", true),
		Entry("with text", `a-$${b}${f(g())}-c`, "a-${b}", "-c", true),
		Entry("with a constant", `${"a"}${f()}${5}`, "a", "5", true),
		Entry("constants alone", `a${5}`, "", "", false),
		Entry("twice", `${f()}${f()}`, "", "", false),
		Entry("with a variable", `${f()}${a}`, "", "", false),
		Entry("in a condition", `${f() == "a" ? "b" : "c"}`, "", "", false),
		Entry("text", `a`, "", "", false),
	)

	It("lists the variables and calls of all its parts", func() {
		template := parse(`${a ? -b : m["k"]} ${f("x${c}", l[0], m[d.e])} ${g(h())}`)
		Expect(template.References()).To(Equal([]expr.Reference{
			{Name: "a", Pos: at(12)},
			{Name: "b", Pos: at(17)},
			{Name: "m", Indexed: true, Key: "k", Pos: at(21)},
			{Name: "c", Pos: at(37)},
			{Name: "l", Indexed: true, Key: "0", Pos: at(42)},
			{Name: "m", Indexed: true, Pos: at(48)},
			{Name: "d.e", Pos: at(50)},
		}))
		Expect(template.Calls()).To(Equal([]expr.Call{
			{Name: "f", Args: []string{"", "", ""}, Pos: at(31)},
			{Name: "g", Args: []string{""}, Pos: at(59)},
			{Name: "h", Pos: at(61)},
		}))
		Expect(parse(`${config("a.b")}`).Calls()).To(Equal([]expr.Call{{
			Name: "config", Args: []string{"a.b"},
			Pos: at(12),
		}}))
	})

	DescribeTable("rejects invalid syntax", func(text, message string) {
		_, err := expr.Parse(expr.Source{Text: text, Pos: at(10)})
		Expect(err).To(MatchError(message + " [expression-syntax]"))
		Expect(err).To(BeAssignableToTypeOf(diag.Errors{}))
	},
		Entry("open", `${`, "svc.yml:12:12: expected expression but found end of string"),
		Entry("open call", `${foo(}`, `svc.yml:12:16: expected expression but found "}"`),
		Entry("double index", `${p["l"][1]}`, `svc.yml:12:18: expected "}" but found "["`),
		Entry("exponent", `${1e3}`, `svc.yml:12:13: expected "}" but found "e3"`),
		Entry("escape", `${"\d"}`, `svc.yml:12:13: invalid backslash escape sequence`),
		Entry("large number", `${99999999999999999999}`,
			`svc.yml:12:12: invalid integer: strconv.Atoi: parsing "99999999999999999999": value out of range`),
		Entry("too long", `${`+strings.Repeat("(", 1<<16),
			"svc.yml:12:10: a text with an expression may have 65536 bytes at most"),
	)

	It("accepts deep nesting, and long texts without an expression", func() {
		_, err := parse(`${` + strings.Repeat("!", 60000) + `n}`).Eval(scopeOf(vars{"n": true}))
		Expect(err).NotTo(HaveOccurred())
		Expect(parse(strings.Repeat("x", 1<<20)).IsLiteral()).To(BeTrue())
	})

	It("reports unknown variables and functions, and wrong numbers of arguments", func() {
		template := parse(`${regoin} ${request.context.platform} ${request.contexts} ${n} ${config("a", "b")} ` +
			`${str.truncat(1)} ${title("a")} ${mine()}`)
		list := template.Check(expr.Names{
			Variables: []string{"region", "n"},
			Prefixes:  []string{"request.context"},
			Functions: map[string]expr.Function{"mine": {Args: []expr.Type{expr.Any, expr.Map}, Result: expr.List}},
		})
		Expect(list.Err()).To(MatchError(strings.Join([]string{
			`svc.yml:12:12: unknown variable "regoin"; did you mean "region"? [unknown-variable]`,
			`svc.yml:12:50: unknown variable "request.contexts"; did you mean "request.context"? [unknown-variable]`,
			`svc.yml:12:75: config: expected 1 arguments, got 2; its arguments are (string) string ` +
				`[function-arguments]`,
			`svc.yml:12:95: unknown function "str.truncat"; did you mean "str.truncate"? [unknown-function]`,
			`svc.yml:12:113: unknown function "title"; known names: abs, assert, base64encode, ceil, concat, ` +
				`config, config.find, contains, counter.next, … [unknown-function]`,
			`svc.yml:12:127: a list cannot be a part of a text; use json.marshal to convert it [expression-type]`,
			`svc.yml:12:127: mine: expected 2 arguments, got 0; its arguments are (any, map) list [function-arguments]`,
		}, "\n")))
		Expect(parse(`${n} ${lookup(request.context, "a", n)}`).
			Check(expr.Names{Variables: []string{"n"}, Prefixes: []string{"request.context"}}).All()).To(BeEmpty())
	})

	It("lists the standard functions with their signatures", func() {
		functions := expr.StandardFunctions()
		Expect(functions).To(HaveLen(49))
		for name, function := range functions {
			Expect(function.Call).NotTo(BeNil(), name)
		}
		Expect(functions["str.truncate"].Signature()).To(Equal("(int, string) string"))
		Expect(functions["concat"].Signature()).To(Equal("(list...) list"))
	})

	It("reports positions in every style of YAML scalar", func() {
		text, err := os.ReadFile("testdata/positions.yml")
		Expect(err).NotTo(HaveOccurred())
		golden, err := os.ReadFile("testdata/positions.golden")
		Expect(err).NotTo(HaveOccurred())
		var document yaml.Node
		Expect(yaml.Unmarshal(text, &document)).To(Succeed())
		var found diag.List
		check(document.Content[0], strings.Split(string(text), "\n"), &found)
		var got strings.Builder
		for _, item := range found.All() {
			got.WriteString(item.String() + "\n")
		}
		Expect(got.String()).To(Equal(string(golden)))
	})

	It("reports the exact position of a variable, except in folded scalars", func() {
		text, err := os.ReadFile("testdata/positions.yml")
		Expect(err).NotTo(HaveOccurred())
		lines := strings.Split(string(text), "\n")
		var document yaml.Node
		Expect(yaml.Unmarshal(text, &document)).To(Succeed())
		var found diag.List
		check(document.Content[0], lines, &found)
		name := regexp.MustCompile(`^unknown variable "(b\d+)"`)
		exact := 0
		for _, item := range found.All() {
			match := name.FindStringSubmatch(item.Message)
			if match == nil {
				continue
			}
			characters := []rune(lines[item.Pos.Line-1])
			Expect(string(characters[item.Pos.Column-1:])).To(HavePrefix(match[1]), item.String())
			exact++
		}
		Expect(exact).To(Equal(21))
	})

	It("reports the start of the scalar if the lines of the file are unknown", func() {
		var document yaml.Node
		Expect(yaml.Unmarshal([]byte(`a: "x ${b}"`), &document)).To(Succeed())
		source := expr.SourceOf(document.Content[0].Content[1], "svc.yml", nil)
		Expect(source.Folded).To(BeTrue())
		Expect(source.Pos).To(Equal(diag.Pos{File: "svc.yml", Line: 1, Column: 5}))
	})

	It("reports only the file if the position of the text is unknown", func() {
		template, err := expr.Parse(expr.Source{Text: "a\n${b}", Pos: diag.Pos{File: "svc.yml"}})
		Expect(err).NotTo(HaveOccurred())
		_, err = template.Eval(nil)
		Expect(err).To(MatchError("svc.yml: unknown variable accessed: b"))
		template, err = expr.Parse(expr.Source{Text: "${b}"})
		Expect(err).NotTo(HaveOccurred())
		_, err = template.Eval(nil)
		Expect(err).To(MatchError("unknown variable accessed: b"))
	})
})

// check appends the unknown variables and syntax errors of all scalars below a node to a list.
func check(node *yaml.Node, lines []string, found *diag.List) {
	if node.Kind != yaml.ScalarNode && node.Kind != yaml.AliasNode {
		for _, child := range node.Content {
			check(child, lines, found)
		}
		return
	}
	template, err := expr.Parse(expr.SourceOf(node, "positions.yml", lines))
	if err != nil {
		var faults diag.Errors
		Expect(errors.As(err, &faults)).To(BeTrue())
		for _, item := range faults {
			found.Errorf(item.Pos, item.Rule, "%s", item.Message)
		}
		return
	}
	found.Append(template.Check(expr.Names{Variables: []string{"region"}}))
}
