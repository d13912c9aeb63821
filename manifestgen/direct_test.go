package manifestgen_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/value"
	"service-adapter/manifestgen"
)

var _ = DescribeTable("makes a template without the library", func(text string, want map[string]any) {
	got, ok, library, err := manifestgen.Interpolate(text, map[string]any{
		"text": "a (b)", "number": int64(5), "list": []any{"x", 1.5}, "map": map[string]any{"(k)": nil}, "none": nil,
	}, false)
	Expect(err).NotTo(HaveOccurred())
	Expect(ok).To(BeTrue())
	Expect(got).To(Equal(want))
	Expect(got).To(Equal(library))
},
	Entry("with whole values", "a: ((text))\nb: [((number)), \"((list))\"]\nc: {d: ((map)), e: ((none))}",
		map[string]any{"a": "a (b)", "b": []any{int64(5), []any{"x", 1.5}}, "c": map[string]any{"d": map[string]any{"(k)": nil}, "e": nil}}),
	Entry("with variables in a text", "a: 'x ((text))-((number)) y'\n", map[string]any{"a": "x a (b)-5 y"}),
	Entry("with scalars", "a: [true, ~, null, 5, -1, 1.5, 2.0, 1.2.3, 10.0.0.1, 30000-240000, -Xmx1g, 30s, /var, 'true', \"5\", x y]\nb: |\n  l\n  m\nc:",
		map[string]any{"a": []any{
			true, nil, nil, int64(5), int64(-1), 1.5, int64(2), "1.2.3", "10.0.0.1", "30000-240000", "-Xmx1g", "30s", "/var", "true", "5", "x y",
		}, "b": "l\nm\n", "c": nil}),
	Entry("with references for BOSH", "a: ((ca.private_key))\nb: x((/path/a))y((number))\nc: ((ca))",
		map[string]any{"a": "((ca.private_key))", "b": "x((/path/a))y5", "c": "((ca))"}),
	Entry("that declares variables", "variables: [{name: ca, type: certificate, options: {is_ca: true}}]\na: ((number))",
		map[string]any{"variables": []any{map[string]any{"name": "ca", "type": "certificate", "options": map[string]any{"is_ca": true}}}, "a": int64(5)}),
)

// FuzzDirect holds what is made without the BOSH library against the library.
func FuzzDirect(f *testing.F) {
	for _, text := range []string{
		"a: b", "a: ((text))", "a: x((text))y((number))((text))", "((text)): a", "a((number)): b", "a: [((list)), ((map)), ((none)), ((unknown))]",
		"a: ((text))((none))", "a: ((( text)))", "a: (((text)))", "a: (((text)))((number))", "a: ((!text))", "a: (( text ))", "a: ((map.key))", "a: ((map/key))",
		"a: ((list.0)) ((text", "a: (((", "a: ((text)) ))", "a: ( ((text))", "a: 'x\n\n  ((text))'", "a: |\n  ((text))\n  b\n", "a: >-\n  ((text))\n  b\n",
		"a: |+\n  b\n\n", "a: |2\n   b\n", "a: \"\\x41\\n\\u00e4 ((text))\"", "a: 'it''s ((number))'", "variables: []\na: b", "a: ((unknown.a))\nb: x((unknown))y((text))((unknown.))((unknown..b)) ((unknown))",
		"variables: [{name: x, type: t}]\na: ((x.ca))\nb: ((x))((number))", "a: [((.a)), ((!x)), (( x )), ((x:y)), ((x y)), ((é)), ((/a/b.c))]", "a: ((text))((unknown))",
		"a: ((é))", "a: ((!x))", "a: ((.a))", "a: ((-))((_))", "a: ((unknown))((text))((number))", "variables: ((list))", "variables: ~",
		"variables: [{name: x, type: password}]\na: ((x)) ((text))", "variables: [{name: text, type: password}]", "variables: [{name: x, type: ((text))}]",
		"variables: [{name: x}]", "variables: [x]", "variables: {name: x}", "variables: [{name: x, type: t, options: {ca: ((x))}}]", "variables: [{name: 5, type: 5}]",
		"? a\n: b", "a: {? b, ? c: d}", "a: {b, c: }", "a: &x b\nc: *x", "a: &x {b: c}\nd: {<<: *x}", "<<: {a: b}", "\"<<\": {a: b}", "1: a", "~: a", "null: a", "true: a",
		"a: !!str 5", "a: ! 5", "a: ! '5'", "a: !<!> '5'", "a: !x y", "!!map {a: b}", "a: !!binary aGk=", "%TAG ! tag:yaml.org,2002:\n---\na: !int '5'", "a: x!y! z",
		"--- {a: b}\n", "--- a: b", "---\na: b\n...\n", "a: b # c\n# d\ne: f#g\n", "# x\na: # y\n  b\n", "a:\n- b\n-   - c\n    - d\n- e: f\n  g: h\n", "a: b\r\nc: d\r\n",
		"a:\tb\n", "a: \ue0f0b\ue0f1", "a: \u2028", "a: b\u0085c", "\ufeffa: b", "a: \"b  \"", "a: ' b'", "a: \"\\n\"", "a: \"b\\tc\"", "a: b\n\n c\n", "a: 'b'#c", "[a]", "a", "", "~",
		"a: [\"b\":c, {d: e}]", "a: [-]", "a: [?]", "a: x: y", "'a': b", "? |\n  k\n: v", "\"k\\nl\": v", "a: \"\\\n  b\"", strings.Repeat("a: {", 5) + strings.Repeat("}", 5),
	} {
		f.Add(text, "x", int64(7), false)
		f.Add("z: ((text))\n"+text, "(( text))", int64(-1), true)
		f.Add(text+"\n\nz: ((text))((number))\n", "((a))", int64(0), false)
	}
	f.Add("a: ((text))((number))", "", int64(7), false)
	f.Add("a: ((text))((text)) ((text))((number))", "", int64(7), false)
	for _, scalar := range strings.Fields("1 -1 0 00 07 0x1f 0b1 -0b1 0o7 1_000 1.5 1.0 -0.0 1e3 .5 5. +1 1:30 1:2 2026-01-31 2026-01-31T00:00:00Z 1.2.3 10.0.0.1 30s 1-2 1/2 " +
		"9223372036854775808 18446744073709551616 -9223372036854775809 123456789012345678901234567890 .inf -.inf .nan . .. .a + +a -a -_1 -1a -.5 0.1e+5 0x 0b2 1__0 _1 y n " +
		"yes No on OFF true True TRUE null Null ~ '' '~' 'null' \"true\" = < << \"<<\" y1 nope ~a \u017f ye\u017f - -- --- ? | > % @ ` x: x# '#' & *") {
		f.Add("a: "+scalar, "x", int64(7), false)
		f.Add("a: "+scalar+"((float))", "x", int64(7), false)
		f.Add("a: ["+scalar+", ((text))]", "x", int64(7), false)
		f.Add(scalar+": ((text))\nb:\n- "+scalar+"\n- x"+scalar+"((text))"+scalar, "x", int64(7), false)
	}
	f.Fuzz(func(t *testing.T, text, inserted string, number int64, fromRequest bool) {
		values := map[string]any{
			"text": inserted, "number": number, "list": []any{inserted, number, []any{}, nil, true}, "none": nil, "yes": true,
			"float": value.Normalise(float64(number) / 4),
			"map":   map[string]any{"key": inserted, "list": []any{map[string]any{inserted: "x"}}}, "a/b": uint64(1 << 63), "": inserted,
		}
		got, ok, want, err := manifestgen.Interpolate(text, values, fromRequest)
		if !ok {
			return
		}
		if err != nil {
			t.Fatalf("%q: the library says %v; got %#v", text, err, got)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	})
}
