package diag_test

import (
	"bytes"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/diag"
)

var _ = Describe("Rendering", func() {
	const file = "name: x\n\tplan_input: [1]\ndefault: \"${a + b}\"\nurl: ((größe))  # ünü\n"
	source := func(name string) (string, bool) { return file, name == "mysql.yml" }
	at := func(line, column int) diag.Pos { return diag.Pos{File: "mysql.yml", Line: line, Column: column} }
	diagnostics := []diag.Diagnostic{
		{
			Rule: "unknown-key", Message: `unknown key "plan_input" in provision; did you mean "plan_inputs"?`,
			Hint: `; did you mean "plan_inputs"?`, Pos: at(2, 2),
		},
		{Severity: diag.Warning, Rule: "default-value", Message: "the default is 50% wrong,\nreally", Pos: at(3, 10)},
		{Rule: "bosh-variable", Message: "is not known", Pos: at(4, 6)},
		{Rule: "yaml-syntax", Message: "not valid YAML", Pos: diag.Pos{File: "other: file.yml"}},
	}
	text := func(colours bool, items ...diag.Diagnostic) string {
		GinkgoHelper()
		var out bytes.Buffer
		Expect(diag.WriteText(&out, items, source, colours)).To(Succeed())
		return out.String()
	}

	It("shows the line and underlines the affected part", func() {
		Expect(text(false, diagnostics...)).To(Equal(strings.Join([]string{
			`mysql.yml:2:2: unknown key "plan_input" in provision; did you mean "plan_inputs"? [unknown-key]`,
			"  |",
			"2 | \tplan_input: [1]",
			"  | \t^~~~~~~~~~",
			"mysql.yml:3:10: warning: the default is 50% wrong,\nreally [default-value]",
			"  |",
			`3 | default: "${a + b}"`,
			"  |          ^~~~~~~~~~",
			"mysql.yml:4:6: is not known [bosh-variable]",
			"  |",
			"4 | url: ((größe))  # ünü",
			"  |      ^~~~~~~~~",
			"other: file.yml: not valid YAML [yaml-syntax]",
			"",
		}, "\n")))
	})

	It("colours the position and the underline", func() {
		shown := text(true, diagnostics[0], diagnostics[1])
		Expect(shown).To(HavePrefix("\x1b[1mmysql.yml:2:2\x1b[0m: unknown key"))
		Expect(shown).To(ContainSubstring("\x1b[31m^~~~~~~~~~\x1b[0m"))
		Expect(shown).To(ContainSubstring("\x1b[33m^~~~~~~~~~\x1b[0m"))
	})

	DescribeTable("accepts positions that are outside of the file",
		func(pos diag.Pos, want string) {
			Expect(text(false, diag.Diagnostic{Rule: "r", Message: "m", Pos: pos})).To(Equal(want))
		},
		Entry("a line behind the end", at(99, 1), "mysql.yml:99:1: m [r]\n"),
		Entry("a column behind the end", at(1, 99), "mysql.yml:1:99: m [r]\n  |\n1 | name: x\n  |        ^\n"),
		Entry("no column", diag.Pos{File: "mysql.yml", Line: 1}, "mysql.yml:1: m [r]\n  |\n1 | name: x\n  | ^~~~\n"),
		Entry("an unknown file", diag.Pos{File: "x.yml", Line: 1, Column: 1}, "x.yml:1:1: m [r]\n"),
	)

	It("cuts long lines around the underline and replaces control characters", func() {
		long := func(string) (string, bool) {
			return strings.Repeat("x", 5000) + " \x1b[31m" + strings.Repeat("y", 5000), true
		}
		var out bytes.Buffer
		Expect(diag.WriteText(&out, []diag.Diagnostic{{Message: "m", Pos: at(1, 5002)}}, long, false)).To(Succeed())
		Expect(out.Len()).To(BeNumerically("<", 600))
		Expect(out.String()).NotTo(ContainSubstring("\x1b"))
		lines := strings.Split(out.String(), "\n")
		Expect([]rune(lines[2])[strings.Index(lines[3], "^")]).To(Equal('�'))
	})

	It("writes JSON in the format of terraform validate", func() {
		var out bytes.Buffer
		Expect(diag.WriteJSON(&out, diagnostics, source, "")).To(Succeed())
		var document map[string]any
		Expect(json.Unmarshal(out.Bytes(), &document)).To(Succeed())
		Expect(document).To(HaveKeyWithValue("format_version", "1.0"))
		Expect(document).To(HaveKeyWithValue("valid", false))
		Expect(document).To(HaveKeyWithValue("error_count", 3.0))
		Expect(document).To(HaveKeyWithValue("warning_count", 1.0))
		Expect(document["diagnostics"].([]any)[0]).To(Equal(map[string]any{
			"severity": "error", "summary": `unknown key "plan_input" in provision`, "detail": "",
			"rule": "unknown-key",
			"hint": `did you mean "plan_inputs"?`,
			"range": map[string]any{
				"filename": "mysql.yml",
				"start":    map[string]any{"line": 2.0, "column": 2.0, "byte": 9.0},
				"end":      map[string]any{"line": 2.0, "column": 12.0, "byte": 19.0},
			},
			"snippet": map[string]any{
				"context": nil, "code": "\tplan_input: [1]", "start_line": 2.0, "highlight_start_offset": 1.0,
				"highlight_end_offset": 11.0,
				"values":               []any{},
			},
		}))
		Expect(document["diagnostics"].([]any)[3]).NotTo(HaveKey("snippet"))
	})

	It("writes an empty list without diagnostics, and reports valid with warnings", func() {
		var out bytes.Buffer
		Expect(diag.WriteJSON(&out, nil, nil, "safe")).To(Succeed())
		Expect(out.String()).To(ContainSubstring(`"diagnostics": []`))
		Expect(out.String()).To(ContainSubstring(`"verdict": "safe"`))
		Expect(out.String()).To(ContainSubstring(`"valid": true`))
		out.Reset()
		Expect(diag.WriteJSON(&out, diagnostics[1:2], nil, "")).To(Succeed())
		Expect(out.String()).To(ContainSubstring(`"valid": true`))
		Expect(out.String()).NotTo(ContainSubstring("verdict"))
	})

	It("writes annotations for GitHub", func() {
		var out bytes.Buffer
		Expect(diag.WriteGitHub(&out, diagnostics)).To(Succeed())
		Expect(out.String()).To(Equal(strings.Join([]string{
			`::error file=mysql.yml,line=2,col=2,title=unknown-key::unknown key "plan_input" in provision; did you ` +
				`mean "plan_inputs"?`,
			"::warning file=mysql.yml,line=3,col=10,title=default-value::the default is 50%25 wrong,%0Areally",
			"::error file=mysql.yml,line=4,col=6,title=bosh-variable::is not known",
			"::error file=other%3A file.yml,title=yaml-syntax::not valid YAML",
			"",
		}, "\n")))
	})
})
