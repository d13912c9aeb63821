package expr_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak/expr"
)

var _ = DescribeTable("Cast", func(v any, typ string, expected any) {
	Expect(expr.Cast(v, typ)).To(Equal(expected))
},
	Entry("no type keeps a text", "1234", "", "1234"),
	Entry("no type keeps a list", []any{"a"}, "", []any{"a"}),
	Entry("string", "1234", "string", "1234"),
	Entry("string of a text with blanks", " 5 ", "string", " 5 "),
	Entry("integer", "1234", "integer", int64(1234)),
	Entry("negative integer", "-5", "integer", int64(-5)),
	Entry("integer of an empty text", "", "integer", int64(0)),
	Entry("integer drops the decimal part", "7.9", "integer", int64(7)),
	Entry("integer drops an empty decimal part", "-7.", "integer", int64(-7)),
	Entry("integer without an integral part", "-.5", "integer", int64(0)),
	Entry("hexadecimal integer", "0x1F", "integer", int64(31)),
	Entry("octal integer", "010", "integer", int64(8)),
	Entry("integer with an underscore", "1_000", "integer", int64(1000)),
	Entry("largest integer", "9223372036854775807", "integer", int64(9223372036854775807)),
	Entry("number", "1.234", "number", 1.234),
	Entry("integral number", "5", "number", int64(5)),
	Entry("integral number with a decimal part", "5.0", "number", int64(5)),
	Entry("number of an empty text", "", "number", int64(0)),
	Entry("number is decimal", "010", "number", int64(10)),
	Entry("number with an exponent", "1e3", "number", int64(1000)),
	Entry("large number", "1e21", "number", 1e21),
	Entry("number beyond a double's integers", "9223372036854775807", "number", int64(9223372036854775807)),
	Entry("number above int64", "9223372036854775808", "number", uint64(9223372036854775808)),
	Entry("true", "True", "boolean", true),
	Entry("1", "1", "boolean", true),
	Entry("0", "0", "boolean", false),
	Entry("f", "f", "boolean", false),
	Entry("object", `{"foo": "bar", "n": 5, "f": 5.5, "e": 1e3, "big": 9007199254740993}`, "object",
		map[string]any{"foo": "bar", "n": int64(5), "f": 5.5, "e": int64(1000), "big": int64(9007199254740993)}),
	Entry("object with a key twice", `{"a":1,"a":2}`, "object", map[string]any{"a": int64(2)}),
	Entry("object of a map", map[string]any{"k": "v"}, "object", map[string]any{"k": "v"}),
	Entry("array", ` ["a","b", {"k": null}] `, "array", []any{"a", "b", map[string]any{"k": nil}}),
	Entry("array of a list", []any{}, "array", []any{}),
	Entry("a scalar that is not a text", true, "integer", int64(1)),
)

var _ = DescribeTable("Cast keeps null", func(v any, typ string) {
	Expect(expr.Cast(v, typ)).To(BeNil())
},
	Entry("as an object", "null", "object"),
	Entry("as an array", "null", "array"),
	Entry("of no text", nil, "integer"),
)

var _ = DescribeTable("Cast rejects", func(v any, typ, message string) {
	_, err := expr.Cast(v, typ)
	Expect(err).To(MatchError("converting to " + typ + ": " + message))
},
	Entry("unknown types", "1234", "class", "unknown type"),
	Entry("a list as a string", []any{"a"}, "string", "unable to cast an array"),
	Entry("a map as an integer", map[string]any{}, "integer", "unable to cast an object"),
	Entry("a malformed octal integer", "08", "integer", "the text is not an integer"),
	Entry("an exponent in an integer", "1e3", "integer", "the text is not an integer"),
	Entry("blanks in an integer", " 5 ", "integer", "the text is not an integer"),
	Entry("true as an integer", "true", "integer", "the text is not an integer"),
	Entry("an integer beyond 64 bits", "9223372036854775808", "integer", "the integer is out of range"),
	Entry("a hexadecimal number", "0x1F", "number", "the text is not a number"),
	Entry("NaN", "NaN", "number", "the text is not a number"),
	Entry("infinity", "-Inf", "number", "the text is not a number"),
	Entry("a number beyond a double", "1e999", "number", "the number is out of range"),
	Entry("yes", "yes", "boolean", "the text is neither true nor false"),
	Entry("an empty boolean", "", "boolean", "the text is neither true nor false"),
	Entry("an empty object", "", "object", "the text is not JSON"),
	Entry("an array as an object", `[]`, "object", "expected an object, found an array"),
	Entry("a list as an object", []any{"a"}, "object", "expected an object, found an array"),
	Entry("broken JSON", `{"password": hunter2}`, "object", "the text is not JSON from byte 14 on"),
	Entry("text after the JSON", `{} x`, "object", "the text is not JSON"),
	Entry("a comma separated list", "a,b", "array", "the text is not JSON from byte 1 on"),
	Entry("a number as an array", "5", "array", "expected an array, found an integer"),
	Entry("a map as an array", map[string]any{"k": "v"}, "array", "expected an array, found an object"),
	Entry("numbers that are not JSON values", "[1e999]", "array",
		`the number at "0" is too large; integers may have up to 64 bits`),
)

var _ = DescribeTable("Truthy", func(v any, expected bool) {
	Expect(expr.Truthy(v)).To(Equal(expected))
},
	Entry("null", nil, false),
	Entry("empty text", "", false),
	Entry("empty list", []any{}, false),
	Entry("empty map", map[string]any{}, false),
	Entry("1", "1", true),
	Entry("0", "0", false),
	Entry("true", "true", true),
	Entry("false", "false", false),
	Entry("true of a block scalar", "true\n", true),
	Entry("a boolean", true, true),
	Entry("a false boolean", false, false),
)

var _ = DescribeTable("Truthy rejects", func(v any, message string) {
	_, err := expr.Truthy(v)
	Expect(err).To(MatchError(message))
},
	Entry("other texts", "hunter2", "the result is a text that is neither true nor false"),
	Entry("numbers", int64(1), "the result is an integer, neither true nor false"),
	Entry("lists", []any{"a"}, "the result is an array, neither true nor false"),
	Entry("maps", map[string]any{"k": "v"}, "the result is an object, neither true nor false"),
)
