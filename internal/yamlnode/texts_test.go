package yamlnode_test

import (
	"fmt"
	"strings"
)

// plainTexts are within the part of YAML that is read without the library, each with something that is easy to get wrong.
var plainTexts = []string{
	"a", "a: b", "a:", "a: ", "- ", "-", "-\n-", "---\na: b\n", "# only\n---\n# a comment\na: b", "--- # comment\n- a",
	"a: b # c\n# d\n  # e\nf: g", "a:\n# c\n  b", "a: # c\n  # d\n  b: c", "a:\n# c\nb:", "  a: b\n  c: d\n", "\n\n- a\n\n- b\n",
	"a:\n- b\n- c\nd: e", "a:\n  - b\n  - c\nd: e", "- - a\n  - b\n- - - c", "- a: b\n  c: d\n-   e: f\n    g: h", "-\n  a: b\n-\n  - c",
	"- a:\n  - b\n  c:\n- d", "- a:\n    b:\n  c:", "a:\n-\n-\nb: c", "a:\n-\n  b: c\n- d:", "a:\n  b:\n    c:\n      d: e\nf: g",
	"a : b\nc  :  d  ", "a: b:c", "a: b#c", "a:b: c", "http://x: y", "a: http://x:80/#y", "a b c: d e f", "-a: -b", "a: --", "- -a",
	"a: ((b))\n((c)): ((d)) e", "a: (b), [c], {d}?", "a: b*&!", "a: b?c", "'a': 'b'", "\"a\" : \"b\"", "a: 'it''s'", "a: ''", `a: ""`,
	"a: ' b '", "a: \"b\tc\"", `a: "\n\t\"\\\x41\u00e9\U0001F600\0\e\ \'"`, "a: 'b' # c", `- "a: b"`, `- 'a # b'`, "'a b': c",
	"a: |\n  b\n  c\nd: e", "a: |-\n  b\n\n  c\n\nd: e", "a: |+\n  b\n\n\nd: e", "a: >\n  b\n  c\n\n  d\n   e\n  f\n", "a: >-\n  b\n  c", "a: >+\n b\n\n",
	"a: |\n\n\n  b", "a: |\nb: c", "a: |\n\nb: c", "a: >\n", "a: | # c\n  b", "a: |\n  b\n # c\nd: e", "a: |\n    b\n  # c\nd: e", "- |\n a\n- >\n b",
	"a: |\n  b\n  \tc\n", "a: |\n  b\n    \n  c", "a: |\n  b\n   ", "a: |\n  b\n  ", "a: >\n\n  b\n\n\n  c\n    d\n\n  e", "|\n a\n", "a:\n  |\n   b",
	"{}", "[]", "a: {}\nb: []", "{a: b, c: [d, e], f: {g: h}}", "[a, [b, {c: d}], 'e', \"f\"]", "{a: , b: c, d: }", "{'a':b, \"c\":'d'}", "[a, ]", "{a: b, }",
	"[ a , b ]", "{ a : b }", "[a:b, c:d]", "{a: b c d, e: f#g}", "[-a, -, --]", "- {a: b} # c\n- [c]", "a: [((b)), ((c))]", "{a: ((b)), c: ((d.e))}", "[a:]",
	"a: {\"b\": {\"c\": [1, true, null]}}", "[1.5, .5, 0x1f, 0o7, 0b1, 1_000, ~, yes, no]",
	"ä: ö\nü: {é: [à, 'ñ'], ø: \"å\"} # œ\n€: 😀", "- é: 1\n  b: [é, ü, c]\n", "- 日本: 語\n  x:\n",
	"a: b\na: c\n",
	"- y\n- Y\n- yes\n- n\n- No\n- on\n- Off\n- true\n- True\n- TRUE\n- tRUE\n- false\n- False\n- FALSE\n- null\n- Null\n- NULL\n- nULL\n- ~\n- ~a",
	"- 0\n- 1\n- 01\n- 08\n- 0o17\n- 0o8\n- 0x1F\n- 0xg\n- 0b101\n- 0b2\n- -0b1\n- -0o7\n- +1\n- -1\n- 1_000\n- 1__0\n- _1\n- 1_\n- 0_1",
	"- 999999999999999999\n- 1000000000000000000\n- 9223372036854775808\n- 18446744073709551615\n- 18446744073709551616\n- -9223372036854775809",
	"- 1.5\n- 1.\n- .5\n- .\n- ..\n- .a\n- 1e3\n- 1e999\n- 1.5e-3\n- -.5\n- +.5\n- .inf\n- -.Inf\n- +.INF\n- .nan\n- .NAN\n- .nAN\n- 1.2.3\n- 1.5_0\n- 0x1p4\n- .5_0\n- .e5",
	"- 2001-12-14\n- 2001-1-2\n- 2001-13-14\n- 2001-12-14T21:59:43.10-05:00\n- 2001-12-14t21:59:43Z\n- 2001-12-14 21:59:43\n- 20011-1-1\n- 12:30:45\n- 190:20:30",
	"- ...a\n- a...\n", "a---: b\n", "a: ---", "a: ...", "---a: b", "...a: b",
	strings.Repeat("k", 999) + ": v", "- " + strings.Repeat("v", 5000), "a: [" + strings.Repeat("b, ", 3000) + "]",
	strings.Repeat("[", 90) + strings.Repeat("]", 90), strings.Repeat("- ", 90) + "a",
}

// otherTexts are left to the library.
var otherTexts = []string{
	"", " ", "\n", "# only", "---", "--- ", "--- a", "---\n", "...", "---\n...\n", "a: b\n---\nc: d", "a: b\n...\n", "a: b\n---\n", "--- |\n a", "a\n---",
	"&a b", "a: &b c\nd: *b", "a: !!str 1", "!a b", "? a\n: b", "a: b\n<<: {c: d}", "<<: *a", "- <<", "a: <<", "%YAML 1.1\n---\na", "@a", "`a", "a: `b",
	"a\nb", "a: b\n  c", "a: b\n\n  c", "a: \"b\n  c\"", "a: 'b\n  c'", "a: [b,\n  c]", "{a: b,\n c: d}", "- a\n  b", "a:\n  b\n  c",
	"a:\tb", "\ta: b", "a: b\n\tc: d", "a: b\t", "a: b\tc", "-\ta", "a: b\n \t\nc: d", "a: |\n\tb", "a: |\n  \tb\n  c\n", "a: |\n  b\n\tc", "a: |\n \n\tb", "[a,\tb]",
	"a: b: c", "a: - b", "a: -", "- a\nb: c", "a: b\n- c", "a: b\n c: d", "a:\n  b: c\n d: e", "a: 'b' c", "a: 'b': c", "a: [b] c", "[a]: b", "{a: b}: c", "- a\n - b",
	"a: 'b'#c", "a: [b]#c", "a: |#c\n  b", "a: 'b", "a: \"b", "a: [b", "a: {b", "a: {b}", "[a: b]", "[a,,b]", "[,]", "{,}", "{: a}", "[? a]", "{? a: b}", "[a?]", "{a?: b}",
	"[- a]", "[:a]", ":a", ": a", "?a", "a: :b", "a: ?b", "a: %b", "a: @b", "a: ,b", "a: ]b", "[#a]", "[a #b]", "{a: b: c}", "{\"a\"::b}", "[\"a\" \"b\"]", "[a]]", "{a: b}}",
	"a: |2\n    b", "a: |1-\n  b", "a: |x\n b", "a: |\n   \n b", "a: |+\n\nb: c", "a: |\n b\n  c\nd", "a: |\n  b\n c: d", "a: |",
	`a: "\/"`, `a: "\q"`, `a: "\xg0"`, `a: "\ud800"`, `a: "\U00110000"`, `a: "\N\_\L\P"`, `a: "\`, `a: "\x4`, "a: \"\\\n b\"",
	"a: b\r\nc: d\r\n", "a\rb", "\ufeffa: b", "a: \ufeffb", "a: b\u0085c", "a: b\u2028c", "a: \x00", "a: \x7f", "a: \x80", "a: \xff", "a: \u0081", "a: \ufffe", "a: \xed\xa0\x80",
	strings.Repeat("k", 1001) + ": v", strings.Repeat("k", 1100) + ": v", "{" + strings.Repeat("k", 1020) + ": v}",
	strings.Repeat("[", 120) + strings.Repeat("]", 120), strings.Repeat("- ", 120) + "a", strings.Repeat("[", 20_000),
	"a: b\nc", "a: b\n'c'", "a: b\n[c]", "a:\n- b\n  - c", "a:\n - b\n- c", "- a: b\n c: d", "- - a\n - b", "a:\n-b\n", "\"a\"b: c", "'a''", "!",
}

// largeTemplate is a manifest template of 3,000 lines.
func largeTemplate() string {
	var text strings.Builder
	text.WriteString("stemcells: [{alias: default}]\ninstance_groups:\n- name: server\n  jobs:\n  - name: server\n    properties:\n")
	for n := range 3000 - 6 {
		fmt.Fprintf(&text, "      property_%d: ((input_%d))\n", n, n%200)
	}
	return text.String()
}

// largeDefinition is a service definition with 200 inputs.
func largeDefinition() string {
	var text strings.Builder
	text.WriteString("version: 1\nname: large\nprovision:\n  user_inputs:\n")
	for n := range 200 {
		fmt.Fprintf(&text, "  - {field_name: input_%d, type: string, default: %s, details: An input}\n", n, strings.Repeat("value-", 55))
	}
	return text.String()
}
