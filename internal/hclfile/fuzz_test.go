package hclfile_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"service-adapter/internal/hclfile"
)

// FuzzInspect asserts that no text makes Inspect panic, and that a text is read the same way twice.
func FuzzInspect(f *testing.F) {
	for _, seed := range []string{
		"", `variable "x" { default = 1 }`, `output "a" { value = "${var.x}" }`, `resource "a" "_binding" {}`,
		"terraform {\n required_providers { a = { source = \"b/c\" } }\n}", `locals { a = [for v in var.l : v if var.x] }`,
		"output \"a\" {\n value = <<E\n${var.x}\nE\n}", `variable {}`, `resource "a" {}`, `output "a" "b" { value = var }`, "\x00", `a = var["x"]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		files := map[string]string{"main.tf": text}
		_, first := hclfile.Inspect(files)
		_, second := hclfile.Inspect(files)
		if len(first.All()) != len(second.All()) {
			t.Fatalf("%d diagnostics, then %d", len(first.All()), len(second.All()))
		}
	})
}

// FuzzFormat compares the layout of valid configurations without comments and heredocs with that of hclwrite.
func FuzzFormat(f *testing.F) {
	for _, seed := range []string{
		"", "\n\na=1\n", "resource \"a\" \"b\" {\nx = 1\nlonger=\"${ var.x }\"\n\n}\nlocals {\n}\n", "a=[{\n\"b\"=1\n},{\n\"longer\"=2\n}]\nb=1\n",
		"a={\nb={\nc=[\n1,\n2\n]\n}\n}\n", "a = 1+2*-3 - -4\n", "a=!b&&c||-d<=-1\n", "a=max( 1,2 ... )\n", "a=provider :: p :: f(1)\n", "a=[for k,v in [1]: {(k)=v}if v]\n",
		"a={for k,v in m:k=>v...}\n", "a=b [0] .c.*.d[*].e\n", "a=\"%{if x}y%{ else }z%{ endif }${{a=1}.a}${b}${c}\"\n", "a=x?y:-z\n", "a={}\nb=[]\nc=f()\n", "é=1\nlänger=\"é\"\n",
		"a=(\n1\n)\nb=(1)[0]\n", "a={b=1,c:2}\n", "block \"l\" \"m\" {}\nx{ y=1 }\n", "a = \"$${x} %%{y}\"\n", "a=1\r\nbb=2\r\n", "a=b==c!=d>=e\n", "a=1  ",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, excluded := range []string{"#", "//", "/*", "<<"} {
			if strings.Contains(text, excluded) {
				t.Skip()
			}
		}
		// HCL is UTF-8. What follows other bytes is part of a token, so the blanks at the end are not only blanks.
		if _, diags := hclsyntax.ParseConfig([]byte(text), "", hcl.InitialPos); diags.HasErrors() || !utf8.ValidString(text) {
			t.Skip()
		}
		got, want := hclfile.Format(text), strings.TrimRight(string(hclwrite.Format([]byte(text))), " ")
		if got != want {
			t.Errorf("%q becomes\n%s\nnot\n%s", text, got, want)
		}
	})
}

// FuzzQuoted compares string literals with those of hclwrite.
func FuzzQuoted(f *testing.F) {
	for _, seed := range []string{"", "a\"\\\n\r\t", "${a} %{b} $ % $${", "\x00\u0301e\u0301\u200b\U000e0001", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := hclfile.Quoted(text), string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes()); got != want {
			t.Errorf("%q becomes %s, not %s", text, got, want)
		}
	})
}
