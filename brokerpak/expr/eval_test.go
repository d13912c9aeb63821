package expr_test

import (
	"errors"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/fault"
)

// everything returns a scope with a variable of each kind, an environment, a configuration and functions.
func everything() *expr.Scope {
	return &expr.Scope{
		Variables: vars{
			"s": "text", "n": int64(5), "big": uint64(1 << 63), "f": 1.5, "whole": 5432.0, "huge": 1e21, "small": 1e-7,
			"yes": true, "no": false, "null": nil, "empty": "",
			"l": []any{"a", "b"}, "mixed": []any{"a", int64(1), true, nil, 1.5, []any{}}, "none": []any{},
			"hollow": vars{"a": []any{}, "b": vars{}, "c": []any{int64(1)}, "d": []any{[]any{}, vars{"e": []any{}}}},
			"pairs":  []any{vars{"name": "a"}, vars{"name": int64(1), "other": "x"}},
			"m":      vars{"key1": "val1", "key2": "val2"}, "nothing": vars{}, "typedNil": vars(nil),
			"details": vars{
				"host": "db", "port": int64(5432), "tls": true, "z": nil,
				"l": []any{"a", "b"}, "o": vars{"k": "v", "n": int64(1)},
			},
			"request.instance_id":    "i-1",
			"request.default_labels": vars{"pcf-space-guid": "space-1", "a.b": "dotted"},
		},
		Env: func(name string) (string, bool) {
			value, ok := map[string]string{"SET": " value ", "EMPTY": ""}[name]
			return value, ok
		},
		Config: func(key string) (any, bool) {
			value, ok := vars{
				"text": " v\n", "number": int64(3306), "flag": true, "map": vars{"b": vars{"c": "<"}, "a": int64(1)},
				"list": []any{"x"}, "json": `{"a":"b"}`, "empty": "", "null": nil,
			}[key]
			return value, ok
		},
		Functions: map[string]expr.Function{
			"plan.has_disk": {Args: []expr.Type{expr.String}, Result: expr.Bool, Call: func(args []any) (any, error) {
				return args[0] == "redis", nil
			}},
			"plan.instance_count": {Args: []expr.Type{expr.String}, Result: expr.Int, Call: func([]any) (any, error) {
				return 3, nil
			}},
			"manifest.get": {Args: []expr.Type{expr.String}, Result: expr.Any, Call: func(args []any) (any, error) {
				manifest := vars{"/flag": true, "/null": nil, "/list": []any{int64(1)}, "/map": vars{"k": int64(7)}}
				return manifest[args[0].(string)], nil
			}},
			"wrong":  {Result: expr.Int, Call: func([]any) (any, error) { return "x", nil }},
			"panics": {Result: expr.Int, Call: func([]any) (any, error) { panic("out of order") }},
		},
	}
}

var _ = DescribeTable("an expression is evaluated", func(text string, expected any) {
	value, err := parse(text).Eval(everything())
	Expect(err).NotTo(HaveOccurred())
	Expect(value).To(Equal(expected))
},
	Entry("no expression", `foo`, "foo"),
	Entry("an empty text", ``, ""),
	Entry("a number", `${33}`, "33"),
	Entry("an escaped expression", `$${33}`, "${33}"),
	Entry("dollar signs", `cost $5 and $$`, "cost $5 and $"),
	Entry("an escape before an expression", `$$${"x"}`, "$x"),
	Entry("a backslash outside an expression", `a\b ${"c\\d"}`, `a\b c\d`),
	Entry("parts of all types", `a${1}b${true}c${1.5}`, "a1btruec1.5"),
	Entry("nested interpolation", `${str.truncate(20, "pcf-binding-${request.instance_id}-and-more")}`,
		"pcf-binding-i-1-and-"),

	Entry("a string", `${s}`, "text"),
	Entry("an integer", `${n}`, "5"),
	Entry("an integer above int64", `${big}`, "9223372036854775808"),
	Entry("a float", `${f}`, "1.5"),
	Entry("an integral float", `${whole}`, "5432"),
	Entry("a large float", `${huge}`, "1000000000000000000000"),
	Entry("a small float", `${small}`, "0.0000001"),
	Entry("true", `${yes}`, "1"),
	Entry("false", `${no}`, "0"),
	Entry("null", `${null}`, ""),
	Entry("a list", `${mixed}`, []any{"a", "1", "1", "", "1.5", []any{}}),
	Entry("an empty list", `${none}`, []any{}),
	Entry("a map", `${details["o"]}`, vars{"k": "v", "n": "1"}),
	Entry("a map without entries", `${nothing}`, vars{}),
	Entry("a nil map", `${typedNil}`, vars{}),
	Entry("a list in quotes", `${"${l}"}`, []any{"a", "b"}),

	Entry("sum", `${1 + 2 * 3}`, "7"),
	Entry("negative", `${-3}`, "-3"),
	Entry("subtraction needs a blank before the dash", `${n -1}`, "4"),
	Entry("integer division", `${-7 / 2},${-7 % 4},${5 / 2}`, "-3,-3,2"),
	Entry("float division", `${5.0 / 2}`, "2.5"),
	Entry("sum of floats", `${0.1 + 0.2}`, "0.30000000000000004"),
	Entry("a text as an operand", `${"0x10" + n}`, "21"),
	Entry("overflow", `${9223372036854775807 + 1}`, "-9223372036854775808"),
	Entry("conditional", `${yes ? "a" : "b"}${no ? "a" : "b"}`, "ab"),
	Entry("conditional with numbers", `${1 == 1 ? 5 : 6}`, "5"),
	Entry("true variable and literal", `${yes == true}`, "false"),
	Entry("literal and true variable", `${true == yes}`, "true"),
	Entry("negation of a variable", `${!yes}`, "false"),
	Entry("and, or", `${yes && no},${yes || no}`, "false,true"),
	Entry("condition of a check", `${!yes || plan.has_disk("redis")}`, "true"),

	Entry("key of a mixed map", `${details["host"]}:${details["port"]}`, "db:5432"),
	Entry("true in a mixed map", `${details["tls"] ? "on" : "off"}`, "on"),
	Entry("null in a map", `[${details["z"]}]`, "[]"),
	Entry("list in a mixed map", `${details["l"]}`, []any{"a", "b"}),
	Entry("computed key", `${details["po${"rt"}"]}`, "5432"),
	Entry("element of a list", `${l[1]}`, "b"),
	Entry("element of a mixed list", `${mixed[n - 1]}`, "1.5"),
	Entry("index as text", `${l["1"]}`, "b"),
	Entry("dotted name into a map", `${request.default_labels.pcf-space-guid}`, "space-1"),
	Entry("the same by index", `${request.default_labels["pcf-space-guid"]}`, "space-1"),
	Entry("key with a dot", `${request.default_labels.a.b}`, "dotted"),
	Entry("index into a dotted name", `${details.o["k"]}`, "v"),

	Entry("function of the scope", `${plan.instance_count("x") + 1}`, "4"),
	Entry("function with any result, scalar", `${manifest.get("/flag")}`, "1"),
	Entry("function with any result, null", `[${manifest.get("/null")}]`, "[]"),
	Entry("function with any result, list", `${manifest.get("/list")}`, []any{"1"}),
	Entry("function with any result, map", `${lookup(manifest.get("/map"), "k", "")}`, "7"),

	Entry("assert", `${assert("true", "m")}`, "true"),
	Entry("regexp.matches", `${regexp.matches("^(D|d)[0-9]+$", "d12345")}`, "true"),
	Entry("regexp.matches in a text", `v=${regexp.matches("^d", "x")}`, "v=false"),
	Entry("str.truncate", `${str.truncate(3, "hello")}`, "hel"),
	Entry("str.truncate counts characters", `${str.truncate(3, "aé日本")}`, "aé日"),
	Entry("str.truncate to nothing", `${str.truncate(0, "aé日")}`, ""),
	Entry("str.truncate of a short text", `${str.truncate(9, "aé日")}`, "aé日"),
	Entry("str.truncate of a number", `${str.truncate(2, 12345)}`, "12"),
	Entry("str.queryEscape", `${str.queryEscape("a b&c")}`, "a+b%26c"),
	Entry("nested calls", `${str.truncate(5, str.queryEscape("a b c d"))}`, "a+b+c"),
	Entry("rand.base64 of no bytes", `${rand.base64(0)}`, ""),
	Entry("length of a list, a map, a text and null", `${length(l)},${length(m)},${length("aé日")},${length(null)}`,
		"2,2,3,0"),
	Entry("length of a number's text", `${length(huge)}`, "22"),
	Entry("list.pluck", `${list.pluck(pairs, "name")}`, []any{"a", "1"}),
	Entry("list.pluck of no maps", `${list.pluck(none, "name")}`, []any{}),
	Entry("yaml.toJSON", `${yaml.toJSON("a: [1, x, {b: true}]")}`, `{"a":[1,"x",{"b":true}]}`),
	Entry("yaml.toJSON of an empty text", `${yaml.toJSON("")}`, "null"),
	Entry("json.marshal of a list", `${json.marshal(l)}`, `["a","b"]`),
	Entry("json.marshal of literals", `${json.marshal(42)}${json.marshal(true)}${json.marshal(1.5)}`, "42true1.5"),
	Entry("json.marshal of variables", `${json.marshal(n)}${json.marshal(yes)}${json.marshal(null)}`, `"5""1"""`),
	Entry("json.marshal escapes HTML", `${json.marshal("a<b>&\"é")}`, `"a\u003cb\u003e\u0026\"é"`),
	Entry("json.marshal of empty collections", `${json.marshal(none)}${json.marshal(nothing)}`, `null{}`),
	Entry("json.marshal of a mixed map, one key of which is used", `${details["host"]}${json.marshal(details)}`,
		`db{"host":"db","l":["a","b"],"o":{"k":"v","n":"1"},"port":"5432","tls":"1","z":""}`),
	Entry("json.marshal of a mixed list", `${json.marshal(mixed)}`, `["a","1","1","","1.5",[]]`),
	Entry("json.marshal of nested empty collections", `${json.marshal(hollow)}`,
		`{"a":[],"b":{},"c":["1"],"d":[[],{"e":[]}]}`),
	Entry("map.flatten", `${map.flatten(":", ";", m)}`, "key1:val1;key2:val2"),
	Entry("map.flatten of an empty map", `${map.flatten(":", ";", nothing)}`, ""),
	Entry("map.flatten of nested values", `${map.flatten("=", ",", details)}`,
		"host=db,l=[a b],o=map[k:v n:1],port=5432,tls=1,z="),
	Entry("env", `[${env("SET")}][${env("EMPTY")}]`, "[ value ][]"),
	Entry("config of a text", `${config("text")}`, "v"),
	Entry("config of scalars", `${config("number")} ${config("flag")}`, "3306 true"),
	Entry("config of a map", `${config("map")}`, `{"a":1,"b":{"c":"\u003c"}}`),
	Entry("config of a list", `${config("list")}`, `["x"]`),
	Entry("config.find of a key that is set", `${config.find("number", "1")}`, "3306"),
	Entry("config.find of a key that is not set", `${config.find("nothing", "1")}`, "1"),
	Entry("config of JSON", `${config("json")}`, `{"a":"b"}`),
	Entry("lookup", `${lookup(details, "host", "none")}`, "db"),
	Entry("lookup of a missing key", `${lookup(details, "nope", "none")}`, "none"),
	Entry("lookup of null", `${lookup(details, "z", "none")}`, "none"),
	Entry("lookup in an empty map", `${lookup(nothing, "k", 5)}`, "5"),
	Entry("lookup with a true default", `${lookup(nothing, "k", true) ? "a" : "b"}`, "a"),
	Entry("lookup of a list", `${lookup(details, "l", "")}`, []any{"a", "b"}),
)

var _ = DescribeTable("an expression fails with an error", func(text, message string) {
	_, err := parse(text).Eval(everything())
	Expect(err).To(MatchError(message))
},
	Entry("unknown variable", `${a}`, "svc.yml:12:12: unknown variable accessed: a"),
	Entry("unknown dotted variable", `x${request.nope}`, "svc.yml:12:13: unknown variable accessed: request.nope"),
	Entry("missing key by dotted name", `${request.default_labels.nope}`,
		`svc.yml:12:12: key "nope" does not exist in map request.default_labels`),
	Entry("unknown indexed variable", `${a["b"]}`, "svc.yml:12:12: unknown variable accessed: a"),
	Entry("missing key of a mixed map", `${details["nope"]}`,
		`svc.yml:12:12: key "nope" does not exist in map details`),
	Entry("missing key of an empty map", `${nothing["k"]}`, `svc.yml:12:12: key "k" does not exist in map nothing`),
	Entry("index out of range", `${l[5]}`, "svc.yml:12:12: index 5 out of range for list l (max 2)"),
	Entry("index below zero", `${l[-1]}`, "svc.yml:12:12: index -1 out of range for list l (max 2)"),
	Entry("index of an empty list", `${none[0]}`, "svc.yml:12:12: index 0 out of range for list none (max 0)"),
	Entry("index that is not a number", `${l["k"]}`, "svc.yml:12:13: index of list l: a text is not an int"),
	Entry("index of a text", `${s["k"]}`, "svc.yml:12:12: s is neither a map nor a list"),
	Entry("map as a key", `${m[m]}`, "svc.yml:12:13: key of map m: argument 1 should be type string, got type map"),
	Entry("list in a text", `x${l}`,
		"svc.yml:12:10: output of an HIL expression must be a string, or a single list (argument 2 is list)"),
	Entry("list in a conditional", `${yes ? l : l}`,
		"svc.yml:12:18: an arm of a conditional must not be a list; "+
			"use json.marshal in both arms, in an input of type array"),
	Entry("map in the second arm of a conditional", `${yes ? "a" : m}`,
		"svc.yml:12:24: an arm of a conditional must not be a map; "+
			"use json.marshal in both arms, in an input of type object"),
	Entry("text that is not a number", `${1 + ("a" * 2)}`, "svc.yml:12:17: a text is not an int"),
	Entry("text that is not a boolean", `${s ? 1 : 2}`, "svc.yml:12:12: a text is not a bool"),
	Entry("wrong operand", `${true + 1}`, "svc.yml:12:12: operand 1 should be int, got bool"),
	Entry("division by zero", `a ${1 / 0}`, "svc.yml:12:14: divide by zero"),
	Entry("modulo zero", `a ${1 % 0}`, "svc.yml:12:14: divide by zero"),
	Entry("both arms are evaluated", `${true ? 1 : 1 / 0}`, "svc.yml:12:23: divide by zero"),
	Entry("both sides are evaluated", `${false && assert(false, "boom")}`, "svc.yml:12:21: assert: boom"),
	Entry("assert", `${assert(false, "failure message ${1+1}")}`, "svc.yml:12:12: assert: failure message 2"),
	Entry("unknown function", `${title("a")}`, "svc.yml:12:12: unknown function called: title"),
	Entry("wrong number of arguments", `${str.truncate("hello")}`,
		"svc.yml:12:12: str.truncate: expected 2 arguments, got 1"),
	Entry("wrong type of an argument", `${map.flatten(":", ";", "x")}`,
		"svc.yml:12:12: map.flatten: argument 3 should be type map, got type string"),
	Entry("argument that is not a number", `${str.truncate("x", "y")}`,
		"svc.yml:12:12: str.truncate: a text is not an int"),
	Entry("negative truncation", `name-${str.truncate(-1, "x")}`,
		"svc.yml:12:17: str.truncate: count must not be negative"),
	Entry("negative randomness", `${rand.base64(-1)}`, "svc.yml:12:12: rand.base64: count must not be negative"),
	Entry("endless randomness", `${rand.base64(1000000000000)}`,
		"svc.yml:12:12: rand.base64: count must be at most 65536"),
	Entry("bad regular expression", `${regexp.matches("[", "x")}`,
		"svc.yml:12:12: regexp.matches: error parsing regexp: missing closing ]: `[`"),
	Entry("plucking a key that does not exist", `${list.pluck(pairs, "other")}`,
		`svc.yml:12:12: list.pluck: element 0 has no key "other"`),
	Entry("plucking from texts", `${list.pluck(l, "name")}`, `svc.yml:12:12: list.pluck: element 0 has no key "name"`),
	Entry("a text that is not YAML", `${yaml.toJSON("{")}`, "svc.yml:12:12: yaml.toJSON: the text is not YAML"),
	Entry("missing environment variable", `${env("X")}`, "svc.yml:12:12: env: missing environment variable X"),
	Entry("missing config value", `${config("x.y")}`,
		"svc.yml:12:12: config: missing config value x.y: set the environment variable GSB_X_Y, "+
			"or x.y under `config` of the adapter's configuration"),
	Entry("empty config value", `${config("empty")}`,
		"svc.yml:12:12: config: missing config value empty: set the environment variable GSB_EMPTY, "+
			"or empty under `config` of the adapter's configuration"),
	Entry("null config value", `${config("null")}`,
		"svc.yml:12:12: config: missing config value null: set the environment variable GSB_NULL, "+
			"or null under `config` of the adapter's configuration"),
	Entry("a function of the scope that returns another type", `${wrong()}`,
		"svc.yml:12:12: wrong: the result is not an int"),
	Entry("a function of the scope that panics", `${panics()}`,
		"svc.yml:12:10: evaluating the expression: out of order"),
)

var _ = Describe("Eval", func() {
	It("never quotes a text that it cannot convert", func() {
		for _, text := range []string{`${s + 1}`, `${s ? 1 : 2}`, `${l[s]}`, `${rand.base64(s)}`, `${s > 1.5}`} {
			_, err := parse(text).Eval(scopeOf(vars{"s": "hunter2", "l": []any{"a"}}))
			Expect(err).To(MatchError(Not(ContainSubstring("hunter2"))))
		}
	})

	It("rejects variables of unsupported types", func() {
		_, err := parse(`${x}`).Eval(scopeOf(vars{"x": struct{}{}}))
		Expect(err).To(MatchError("svc.yml:12:12: x: a value of type struct {} cannot be converted to a text"))
		_, err = parse(`${json.marshal(x)}`).Eval(scopeOf(vars{"x": []any{[]string{}}}))
		Expect(err).To(MatchError(ContainSubstring("svc.yml:12:12: json.marshal: a value of type []string")))
	})

	It("needs no scope for constants and standard functions", func() {
		Expect(parse(`a$$b`).Eval(nil)).To(Equal("a$b"))
		Expect(parse(`${1 + 1}`).Eval(nil)).To(Equal("2"))
		_, err := parse(`${env("HOME")}`).Eval(nil)
		Expect(err).To(MatchError(ContainSubstring("missing environment variable HOME")))
	})

	It("shows the message of assert to the cf user", func() {
		_, err := parse(`${assert(size > 2, "size must exceed 2")}`).Eval(scopeOf(vars{"size": int64(1)}))
		var user *fault.UserError
		Expect(errors.As(err, &user)).To(BeTrue())
		Expect(user.Message).To(Equal("size must exceed 2"))
	})

	It("does not modify the variables", func() {
		inner := vars{"n": int64(1), "l": []any{true}}
		scope := scopeOf(vars{"m": inner})
		value, err := parse(`${m}`).Eval(scope)
		Expect(err).NotTo(HaveOccurred())
		value.(vars)["n"] = "changed"
		Expect(inner).To(Equal(vars{"n": int64(1), "l": []any{true}}))
	})

	It("treats the text that HIL reserves for unknown values like any other text", func() {
		const reserved = "74D93920-ED26-11E3-AC10-0800200C9A66"
		scope := scopeOf(vars{"s": reserved, "m": vars{"k": reserved}})
		Expect(parse(`${s}-${m["k"]}-${str.truncate(99, s)}`).Eval(scope)).
			To(Equal(reserved + "-" + reserved + "-" + reserved))
	})

	It("is safe for concurrent use", func() {
		template := parse(`${details["port"] + 1}-${map.flatten(":", ";", m)}-${yes ? "a" : f}-${counter.next() > 0}`)
		scope := everything()
		var count atomic.Int64
		scope.Counter = func() int64 { return count.Add(1) }
		var group sync.WaitGroup
		results := make(chan any, 100)
		for range cap(results) {
			group.Go(func() {
				value, err := template.Eval(scope)
				if err != nil {
					value = err
				}
				results <- value
			})
		}
		group.Wait()
		close(results)
		for result := range results {
			Expect(result).To(Equal("5433-key1:val1;key2:val2-a-true"))
		}
	})
})
