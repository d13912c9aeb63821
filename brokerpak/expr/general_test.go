package expr_test

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/value"
)

// general returns the variables that the expressions of these specs use.
func general() vars {
	return vars{
		"s": "Straße, née", "empty": "", "hosts": "10.0.0.3,10.0.0.4", "url": "amqp://user:pä@host:5671/v",
		"n": int64(5),
		"f": 1.5, "tiny": 1e-7,
		"large": int64(9007199254740993), "larger": uint64(1 << 63), "googol": "1e100", "bomb": "1e1000000000",
		"l": []any{"b", "a", "ä", "b"}, "none": []any{}, "ports": []any{int64(1), int64(2), int64(1)},
		"deep":  []any{"a", []any{"b", []any{"c", []any{}}}, vars{"k": []any{"v"}}},
		"pairs": []any{vars{"a": "1"}, vars{"a": "1"}, vars{"a": "2"}}, "flags": []any{true, nil},
		"m": vars{"b": "2", "a": "1", "ä": "3"}, "other": vars{"b": vars{"c": "4"}}, "nothing": vars{},
	}
}

// judge evaluates an expression as HCL, with the functions of OpenTofu. Scalars in the result are texts.
func judge(text string, variables vars) (any, error) {
	parsed, faults := hclsyntax.ParseExpression([]byte(text), "judge", hcl.InitialPos)
	if faults.HasErrors() {
		return nil, faults
	}
	encoded := value.MustJSON(variables)
	typ, err := ctyjson.ImpliedType(encoded)
	if err != nil {
		return nil, err
	}
	known, err := ctyjson.Unmarshal(encoded, typ)
	if err != nil {
		return nil, err
	}
	result, faults := parsed.Value(&hcl.EvalContext{Variables: known.AsValueMap(), Functions: opentofu()})
	if faults.HasErrors() {
		return nil, faults
	}
	if encoded, err = ctyjson.Marshal(result, result.Type()); err != nil {
		return nil, err
	}
	decoded, err := value.DecodeJSON(encoded)
	if err != nil {
		return nil, err
	}
	return value.Map(decoded, func(scalar any) (any, error) { return value.Text(scalar), nil })
}

// opentofu contains the functions by the names that OpenTofu 1.12 gives them in internal/lang. OpenTofu implements
// three of them itself; the others are those of cty.
func opentofu() map[string]function.Function {
	own := func(result cty.Type, call func(text, with, by string) (cty.Value, error),
		names ...string,
	) function.Function {
		var parameters []function.Parameter
		for _, name := range names {
			parameters = append(parameters, function.Parameter{Name: name, Type: cty.String})
		}
		return function.New(&function.Spec{
			Params: parameters, Type: function.StaticReturnType(result),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				return call(args[0].AsString(), args[1].AsString(), args[len(args)-1].AsString())
			},
		})
	}
	return map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "concat": stdlib.ConcatFunc,
		"contains": stdlib.ContainsFunc,
		"distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc,
		"floor": stdlib.FloorFunc, "join": stdlib.JoinFunc, "keys": stdlib.KeysFunc, "lower": stdlib.LowerFunc,
		"max": stdlib.MaxFunc, "merge": stdlib.MergeFunc, "min": stdlib.MinFunc, "range": stdlib.RangeFunc,
		"regex": stdlib.RegexFunc, "reverse": stdlib.ReverseListFunc, "slice": stdlib.SliceFunc,
		"sort":  stdlib.SortFunc,
		"split": stdlib.SplitFunc, "trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc,
		"trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc, "values": stdlib.ValuesFunc,

		"startswith": own(cty.Bool,
			func(text, with, _ string) (cty.Value, error) {
				return cty.BoolVal(strings.HasPrefix(text, with)), nil
			}, "a", "b"),
		"endswith": own(cty.Bool,
			func(text, with, _ string) (cty.Value, error) {
				return cty.BoolVal(strings.HasSuffix(text, with)), nil
			}, "a", "b"),
		"replace": own(cty.String, func(text, search, by string) (cty.Value, error) {
			if len(search) < 2 || search[0] != '/' || search[len(search)-1] != '/' {
				return cty.StringVal(strings.ReplaceAll(text, search, by)), nil
			}
			pattern, err := regexp.Compile(search[1 : len(search)-1])
			if err != nil {
				return cty.NilVal, err
			}
			return cty.StringVal(pattern.ReplaceAllString(text, by)), nil
		}, "a", "b", "c"),
	}
}

// The expected results are those of `tofu console`.
var _ = DescribeTable("digests and encodings equal those of OpenTofu", func(text string, expected any) {
	Expect(parse("${" + text + "}").Eval(scopeOf(general()))).To(Equal(expected))
},
	func(text string, _ any) string { return text },
	Entry(nil, `md5(s)`, "67a62ca9ddda34233a9db8d611196070"),
	Entry(nil, `md5("")`, "d41d8cd98f00b204e9800998ecf8427e"),
	Entry(nil, `sha1(s)`, "925c71ef5dc97e31b92272a01168314be091e595"),
	Entry(nil, `sha256(s)`, "91dc8a970eb75372a9012c1636151d3f23ac3ce25b08cc47be7324dcc4ae7ba5"),
	Entry(nil, `base64encode(s)`, "U3RyYcOfZSwgbsOpZQ=="),
	Entry(nil, `base64encode("")`, ""),
)

var _ = DescribeTable("functions of OpenTofu return the same results as in OpenTofu", func(text string, expected any) {
	got, err := parse("${" + text + "}").Eval(scopeOf(general()))
	Expect(err).NotTo(HaveOccurred())
	Expect(got).To(Equal(expected))
	Expect(judge(text, general())).To(Equal(expected), "in OpenTofu")
},
	func(text string, _ any) string { return text },
	Entry(nil, `split(",", hosts)`, []any{"10.0.0.3", "10.0.0.4"}),
	Entry(nil, `split(", ", s)`, []any{"Straße", "née"}),
	Entry(nil, `split(",", "a,,b,")`, []any{"a", "", "b", ""}),
	Entry(nil, `split(",", "")`, []any{""}),
	Entry(nil, `split("", "né日")`, []any{"n", "é", "日"}),
	Entry(nil, `split("", "")`, []any{}),
	Entry(nil, `split(".", f)`, []any{"1", "5"}),
	Entry(nil, `join("-", l)`, "b-a-ä-b"),
	Entry(nil, `join(",", none)`, ""),
	Entry(nil, `join("", ports)`, "121"),
	Entry(nil, `join(";", split(",", hosts))`, "10.0.0.3;10.0.0.4"),
	Entry(nil, `replace(s, "n", "N")`, "Straße, Née"),
	Entry(nil, `replace(s, "ß", "ss")`, "Strasse, née"),
	Entry(nil, `replace("aaa", "a", "")`, ""),
	Entry(nil, `replace("é日", "", "-")`, "-é-日-"),
	Entry(nil, `replace("a.b", ".", "$1")`, "a$1b"),
	Entry(nil, `replace("a.b", "/./", "x")`, "xxx"),
	Entry(nil, `replace(hosts, "/(\\d+)\\.(\\d+)/", "$2.$1")`, "0.10.3.0,0.10.4.0"),
	Entry(nil, `replace("ab", "/(?P<x>a)/", "$xy-")`, "-b"),
	Entry(nil, `replace("ab", "/(?P<x>a)/", "$${x}y-")`, "ay-b"),
	Entry(nil, `replace("ab", "/(?P<x>a)/", "$x$$")`, "a$b"),
	Entry(nil, `replace("a/b", "/", "//")`, "a//b"),
	Entry(nil, `replace("a//b", "//", "x")`, "xax/x/xbx"),
	Entry(nil, `regex("[0-9.]+", hosts)`, "10.0.0.3"),
	Entry(nil, `regex("x*", "abc")`, ""),
	Entry(nil, `regex("^(\\w+)://([^:]+):([^@]+)@", url)`, []any{"amqp", "user", "pä"}),
	Entry(nil, `regex("(a)|(b)", "b")`, []any{"", "b"}),
	Entry(nil, `regex("(?P<host>[a-z]+):(?P<port>\\d+)", url)`, vars{"host": "host", "port": "5671"}),
	Entry(nil, `regex("(?:a)(?P<x>b)?", "a")`, vars{"x": ""}),
	Entry(nil, `trimspace("\n a b\n")`, "a b"),
	Entry(nil, "trimspace(\"\u00a0\u2003é\")", "é"),
	Entry(nil, `trimprefix("https://x", "https://")`, "x"),
	Entry(nil, `trimprefix("ééa", "é")`, "éa"),
	Entry(nil, `trimprefix("a", "b")`, "a"),
	Entry(nil, `trimsuffix("a.b.com", ".com")`, "a.b"),
	Entry(nil, `trimsuffix("", "a")`, ""),
	Entry(nil, `trim("--éa-b-é-", "é-")`, "a-b"),
	Entry(nil, `trim("a", "")`, "a"),
	Entry(nil, `lower("ÄÖ Σ X1")`, "äö σ x1"),
	Entry(nil, `lower(empty)`, ""),
	Entry(nil, `startswith(s, "Straß")`, "true"),
	Entry(nil, `startswith(s, "née")`, "false"),
	Entry(nil, `startswith(s, "")`, "true"),
	Entry(nil, `endswith(s, "ée")`, "true"),
	Entry(nil, `endswith("", "x")`, "false"),

	Entry(nil, `concat(l)`, []any{"b", "a", "ä", "b"}),
	Entry(nil, `concat(none, l, none, ports)`, []any{"b", "a", "ä", "b", "1", "2", "1"}),
	Entry(nil, `concat(none, none)`, []any{}),
	Entry(nil, `sort(l)`, []any{"a", "b", "b", "ä"}),
	Entry(nil, `sort(split(",", "10,9,B,b,a"))`, []any{"10", "9", "B", "a", "b"}),
	Entry(nil, `sort(none)`, []any{}),
	Entry(nil, `distinct(l)`, []any{"b", "a", "ä"}),
	Entry(nil, `distinct(ports)`, []any{"1", "2"}),
	Entry(nil, `distinct(pairs)`, []any{vars{"a": "1"}, vars{"a": "2"}}),
	Entry(nil, `distinct(concat(ports, split(",", "1,3")))`, []any{"1", "2", "3"}),
	Entry(nil, `distinct(none)`, []any{}),
	Entry(nil, `slice(l, 1, 3)`, []any{"a", "ä"}),
	Entry(nil, `slice(l, 4, 4)`, []any{}),
	Entry(nil, `slice(none, 0, 0)`, []any{}),
	Entry(nil, `slice(range(n), n - 2, n)`, []any{"3", "4"}),
	Entry(nil, `reverse(l)`, []any{"b", "ä", "a", "b"}),
	Entry(nil, `reverse(none)`, []any{}),
	Entry(nil, `contains(l, "ä")`, "true"),
	Entry(nil, `contains(flags, true)`, "true"),
	Entry(nil, `contains(l, "c")`, "false"),
	Entry(nil, `contains(ports, 2)`, "true"),
	Entry(nil, `contains(none, "")`, "false"),
	Entry(nil, `contains(pairs, m)`, "false"),
	Entry(nil, `contains(deep, element(deep, 2))`, "true"),
	Entry(nil, `element(split(",", hosts), 0)`, "10.0.0.3"),
	Entry(nil, `element(l, 6)`, "ä"),
	Entry(nil, `element(l, -1)`, "b"),
	Entry(nil, `element(l, -6)`, "ä"),
	Entry(nil, `element(pairs, 2)`, vars{"a": "2"}),
	Entry(nil, `flatten(deep)`, []any{"a", "b", "c", vars{"k": []any{"v"}}}),
	Entry(nil, `flatten(none)`, []any{}),
	Entry(nil, `range(3)`, []any{"0", "1", "2"}),
	Entry(nil, `range(0)`, []any{}),
	Entry(nil, `range(-2)`, []any{"0", "-1"}),
	Entry(nil, `range(1, 4)`, []any{"1", "2", "3"}),
	Entry(nil, `range(4, n - 4)`, []any{"4", "3", "2"}),
	Entry(nil, `range(1, 2.5, 0.5)`, []any{"1", "1.5", "2"}),
	Entry(nil, `range(9, 0, -4)`, []any{"9", "5", "1"}),
	Entry(nil, `element(range(1024), -1)`, "1023"),

	Entry(nil, `merge(m, other)`, vars{"a": "1", "b": vars{"c": "4"}, "ä": "3"}),
	Entry(nil, `merge(other, m, nothing)`, vars{"a": "1", "b": "2", "ä": "3"}),
	Entry(nil, `merge(nothing)`, vars{}),
	Entry(nil, `keys(m)`, []any{"a", "b", "ä"}),
	Entry(nil, `keys(nothing)`, []any{}),
	Entry(nil, `values(m)`, []any{"1", "2", "3"}),
	Entry(nil, `values(merge(m, other))`, []any{"1", vars{"c": "4"}, "3"}),
	Entry(nil, `values(nothing)`, []any{}),

	Entry(nil, `min(3, n, 4)`, "3"),
	Entry(nil, `min(f)`, "1.5"),
	Entry(nil, `min(2, f, "-7")`, "-7"),
	Entry(nil, `max(3, n, 4)`, "5"),
	Entry(nil, `max(large, 9007199254740992)`, "9007199254740993"),
	Entry(nil, `max(0.1, tiny)`, "0.1"),
	Entry(nil, `max(1.0, 1)`, "1"),
	Entry(nil, `ceil(1.2)`, "2"),
	Entry(nil, `ceil(-1.2)`, "-1"),
	Entry(nil, `ceil(large)`, "9007199254740993"),
	Entry(nil, `ceil(n / 2.0)`, "3"),
	Entry(nil, `floor(f)`, "1"),
	Entry(nil, `floor(-0.5)`, "-1"),
	Entry(nil, `floor("7")`, "7"),
	Entry(nil, `abs(-3)`, "3"),
	Entry(nil, `abs("-1.5")`, "1.5"),
	Entry(nil, `abs(0)`, "0"),
	Entry(nil, `max(1, 2) + min(n, 1)`, "3"),
)

var _ = DescribeTable("functions of OpenTofu reject", func(text, message string) {
	template := parse("${" + text + "}")
	_, err := template.Eval(scopeOf(general()))
	Expect(err).To(MatchError("svc.yml:12:12: " + message))
	isFunctionError := errors.As(err, new(*expr.FunctionError))
	Expect(isFunctionError || strings.Contains(message, "arguments")).To(BeTrue(), "not a FunctionError")
	_, err = judge(text, general())
	Expect(err).To(HaveOccurred(), "in OpenTofu")
},
	func(text, _ string) string { return text },
	Entry(nil, `join(",", deep)`, "join: element 1 is an array, not a text"),
	Entry(nil, `sort(pairs)`, "sort: element 0 is an object, not a text"),
	Entry(nil, `split(",", l)`, "split: argument 2 should be type string, got type list"),
	Entry(nil, `join(",", m)`, "join: argument 2 should be type list, got type map"),
	Entry(nil, `replace("a", "/(/", "b")`, "replace: invalid regular expression: missing closing )"),
	Entry(nil, `regex("[", "b")`, "regex: invalid regular expression: missing closing ]"),
	Entry(nil, `regex("b", "a")`, "regex: the text does not match the regular expression b"),
	Entry(nil, `regex("(?P<x>a)(b)", "ab")`, "regex: a regular expression cannot have both named and unnamed groups"),
	Entry(nil, `slice(l, 2, 5)`, "slice: the indexes must be from 0 to 4, the first not after the second"),
	Entry(nil, `slice(l, -1, 2)`, "slice: the indexes must be from 0 to 4, the first not after the second"),
	Entry(nil, `slice(l, 2, 1)`, "slice: the indexes must be from 0 to 4, the first not after the second"),
	Entry(nil, `element(none, 0)`, "element: the list is empty"),
	Entry(nil, `concat(l, s)`, "concat: argument 2 should be type list, got type string"),
	Entry(nil, `concat()`, "concat: expected 1 or more arguments, got 0"),
	Entry(nil, `merge(m, l)`, "merge: argument 2 should be type map, got type list"),
	Entry(nil, `keys(l)`, "keys: argument 1 should be type map, got type list"),
	Entry(nil, `min()`, "min: expected 1 or more arguments, got 0"),
	Entry(nil, `max(1, s)`, "max: the text is not a number"),
	Entry(nil, `max(1, empty)`, "max: the text is not a number"),
	Entry(nil, `abs(l)`, "abs: the text is not a number"),
	Entry(nil, `ceil(true)`, "ceil: the text is not a number"),
	Entry(nil, `range()`, "range: expected 1 to 3 arguments, got 0"),
	Entry(nil, `range(1, 2, 3, 4)`, "range: expected 1 to 3 arguments, got 4"),
	Entry(nil, `range(1025)`, "range: more than 1024 values were generated; "+
		"either decrease the difference between start and end or use a smaller step"),
	Entry(nil, `range(0, 5, -1)`, "range: end must be less than start when step is negative"),
	Entry(nil, `range(0, 5, 0)`, "range: more than 1024 values were generated; "+
		"either decrease the difference between start and end or use a smaller step"),
	Entry(nil, `trim("a")`, "trim: expected 2 arguments, got 1"),
)

// Each entry is a difference from OpenTofu.
var _ = DescribeTable("functions of OpenTofu use the values of expressions", func(text string, expected any) {
	got, err := parse("${" + text + "}").Eval(scopeOf(general()))
	if message, fails := expected.(error); fails {
		Expect(err).To(MatchError(ContainSubstring(message.Error())))
	} else {
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(Equal(expected))
	}
	theirs, err := judge(text, general())
	Expect([]any{theirs, err}).NotTo(Equal([]any{expected, nil}), "the results do not differ")
},
	func(text string, _ any) string { return text },
	Entry(nil, `join(",", flags)`, "1,"),
	Entry(nil, `contains(ports, "2")`, "true"),
	Entry(nil, "split(\"\", \"e\u0301\")", []any{"e", "\u0301"}), // there it is composed to one character
	Entry(nil, `slice(l, 0.5, 1)`, []any{"b"}),
	Entry(nil, `min(1, "Inf")`, errors.New("min: the text is not a number")),
	Entry(nil, `max(larger, 1)`, errors.New("max: the number is out of range")),
	Entry(nil, `ceil(googol)`, errors.New("ceil: the number is out of range")),
	Entry(nil, `floor(bomb)`, errors.New("floor: the number is out of range")),
)

var _ = Describe("functions of OpenTofu", func() {
	It("return values that other functions, indexes and casts accept", func() {
		scope := scopeOf(general())
		for text, expected := range map[string]any{
			`${json.marshal(split(",", hosts))}`:                         `["10.0.0.3","10.0.0.4"]`,
			`${length(split(",", hosts))} ${length(keys(m))}`:            "2 3",
			`${list.pluck(concat(pairs, pairs), "a")}`:                   []any{"1", "1", "2", "1", "1", "2"},
			`${lookup(merge(m, other), "a", "")}`:                        "1",
			`${lookup(regex("(?P<a>x)|(?P<b>y)", "y"), "a", "default")}`: "default",
			`${map.flatten("=", ",", merge(m, nothing))}`:                "a=1,b=2,ä=3",
			`${l[min(n, 1)]}`: "a",
			`${contains(l, "a") && startswith(s, "S") ? "yes" : "no"}`: "yes",
			`${max(f, 1) * 2} ${ceil(f) / 4}`:                          "3 0",
			`a${join("", l)}b${min(1, 2)}`:                             "abaäbb1",
			`${str.truncate(max(1, 2), lower("ABC"))}`:                 "ab",
			`${"${sort(l)}"}`:                                          []any{"a", "b", "b", "ä"},
		} {
			Expect(parse(text).Eval(scope)).To(Equal(expected), text)
		}
		list, err := parse(`${split(",", hosts)}`).Eval(scope)
		Expect(err).NotTo(HaveOccurred())
		Expect(expr.Cast(list, "array")).To(Equal([]any{"10.0.0.3", "10.0.0.4"}))
		Expect(parse(`${hosts[1]}`).Eval(scopeOf(vars{"hosts": list}))).To(Equal("10.0.0.4"))
		number, err := parse(`${max(1, n)}`).Eval(scope)
		Expect(err).NotTo(HaveOccurred())
		Expect(expr.Cast(number, "integer")).To(Equal(int64(5)))
	})

	It("keep the types of merged values, and do not modify the arguments", func() {
		variables := vars{
			"plan": vars{"port": int64(1), "tls": vars{"on": true, "ciphers": []any{1.5, nil}}},
			"user": vars{"port": int64(2)},
		}
		merged, err := parse(`${merge(plan, user)}`).Eval(scopeOf(variables))
		Expect(err).NotTo(HaveOccurred())
		Expect(merged).To(Equal(vars{"port": int64(2), "tls": vars{"on": true, "ciphers": []any{1.5, nil}}}))
		merged.(vars)["tls"].(vars)["on"] = false
		Expect(variables["plan"].(vars)["tls"].(vars)["on"]).To(BeTrue())
		Expect(parse(`${lookup(merge(plan, user), "port", "")}`).Eval(scopeOf(variables))).To(Equal("2"))
	})

	It("accept the numbers of arguments that their signatures declare", func() {
		template := parse(`${max()} ${element(range(1, 2, 3, 4), 0)} ${join(",", concat())} ${trim(s)} ${max(s)} ` +
			`${max(s, s, s)} ${length(range(s, s))}`)
		Expect(template.Check(expr.Names{Variables: []string{"s"}}).Err()).To(MatchError(strings.Join([]string{
			`svc.yml:12:12: max: expected 1 or more arguments, got 0; its arguments are (number...) number ` +
				`[function-arguments]`,
			`svc.yml:12:29: range: expected 1 to 3 arguments, got 4; its arguments are ` +
				`(number, optional number, optional number) list [function-arguments]`,
			`svc.yml:12:64: concat: expected 1 or more arguments, got 0; its arguments are (list...) list ` +
				`[function-arguments]`,
			`svc.yml:12:77: trim: expected 2 arguments, got 1; its arguments are (string, string) string ` +
				`[function-arguments]`,
		}, "\n")))
	})

	It("do not modify the variables", func() {
		variables := general()
		scope := scopeOf(variables)
		for _, text := range []string{
			`${sort(l)}`, `${reverse(l)}`, `${concat(slice(l, 0, 1), ports)}`, `${concat(l, ports)}`,
			`${merge(m, other)}`,
			`${distinct(l)}`, `${flatten(deep)}`,
		} {
			_, err := parse(text).Eval(scope)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(variables).To(Equal(general()))
	})

	DescribeTable("do not return texts of unlimited size",
		func(text string) {
			many := strings.Repeat("a", 1<<12)
			list, parts := slices.Repeat([]any{"a"}, 1<<12), slices.Repeat([]any{many}, 1<<11)
			scope := scopeOf(vars{"many": many, "list": list, "parts": parts})
			_, err := parse(text).Eval(scope)
			Expect(err).To(MatchError(ContainSubstring("the result could have more than 4194304 bytes")))
		},
		Entry("of separators", `${join(many, list)}`),
		Entry("of parts", `${join("", parts)}`),
		Entry("of replacements", `${replace(many, "a", many)}`),
		Entry("between all characters", `${replace(many, "", many)}`),
		Entry("of replacements by a pattern", `${replace(many, "/a/", many)}`),
		Entry("of references to groups", `${replace(many, "/(.*)/", replace(many, "a", "$1"))}`),
	)

	It("do not quote values in errors", func() {
		for _, text := range []string{
			`${regex(s, "a")}`, `${regex("a", s)}`, `${replace("a", "/${s}/", "")}`, `${join(s, deep)}`,
			`${sort(deep)}`,
			`${max(1, s)}`, `${range(s)}`, `${slice(l, s, 1)}`, `${element(l, s)}`, `${keys(s)}`, `${concat(s)}`,
		} {
			_, err := parse(text).Eval(scopeOf(vars{
				"s": "hunter2(", "l": []any{"hunter2"},
				"deep": []any{[]any{"hunter2"}},
			}))
			Expect(err).To(HaveOccurred(), text)
			Expect(err).To(MatchError(Not(ContainSubstring("hunter"))), text)
		}
	})

	It("and all other standard functions are documented in docs/expressions.md", func() {
		page, err := os.ReadFile("../../docs/expressions.md")
		Expect(err).NotTo(HaveOccurred())
		_, table, _ := strings.Cut(string(page), "## Functions")
		table, _, _ = strings.Cut(table, "\n## ")
		var documented []string
		for _, row := range regexp.MustCompile(`(?m)^\| (.*) \| `).FindAllStringSubmatch(table, -1) {
			for _, name := range regexp.MustCompile("`([\\w.]+)\\(").FindAllStringSubmatch(row[1], -1) {
				documented = append(documented, name[1])
			}
		}
		slices.Sort(documented)
		Expect(slices.Compact(documented)).To(Equal(slices.Sorted(maps.Keys(expr.StandardFunctions()))))
	})
})
