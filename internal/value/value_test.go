package value_test

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
)

type object = map[string]any

var _ = DescribeTable("a JSON number", func(text string, want any) {
	Expect(value.DecodeJSON([]byte(text))).To(BeIdenticalTo(want))
},
	Entry(nil, "0", int64(0)),
	Entry(nil, "-0", int64(0)),
	Entry(nil, "-0.0", int64(0)),
	Entry(nil, "5.0", int64(5)),
	Entry(nil, "-5e0", int64(-5)),
	Entry(nil, "1e6", int64(1000000)),
	Entry(nil, "1.5e1", int64(15)),
	Entry(nil, "10240000000", int64(10240000000)),
	Entry(nil, "2.5", 2.5),
	Entry(nil, "1e-7", 1e-7),
	Entry("2^53+1", "9007199254740993", int64(9007199254740993)),
	Entry("2^53+1 with a fraction", "9007199254740993.0", int64(9007199254740993)),
	Entry("2^53+1 with an exponent", "9.007199254740993e15", int64(9007199254740993)),
	Entry("beyond 2^53", "1e16", int64(10000000000000000)),
	Entry("a fraction that a double cannot hold", "9007199254740993.5", int64(9007199254740994)),
	Entry("2^63-1", "9223372036854775807", int64(math.MaxInt64)),
	Entry("-2^63", "-9223372036854775808", int64(math.MinInt64)),
	Entry("-2^63 with a fraction", "-9223372036854775808.0", int64(math.MinInt64)),
	Entry("2^63", "9223372036854775808", uint64(1<<63)),
	Entry("2^63 with a fraction", "9223372036854775808.0", uint64(1<<63)),
	Entry("2^64-1", "18446744073709551615", uint64(math.MaxUint64)),
	Entry("2^64", "18446744073709551616", float64(1<<64)),
	Entry(nil, "1e400", math.Inf(1)),
	Entry(nil, "-1e400", math.Inf(-1)),
	Entry(nil, "1e-400", int64(0)),
	Entry("a very long integer", "1"+strings.Repeat("0", 100), 1e100),
	Entry("a very long fraction", "1."+strings.Repeat("0", 100), int64(1)),
)

var _ = DescribeTable("a number that cannot be passed on", func(text, message string) {
	decoded, err := value.DecodeJSON([]byte(text))
	Expect(err).NotTo(HaveOccurred())
	if message == "" {
		Expect(value.CheckNumbers(decoded)).To(Succeed())
	} else {
		Expect(value.CheckNumbers(decoded)).To(MatchError(message))
	}
},
	Entry("none", `{"a": [18446744073709551615, -9223372036854775808, 1e16, 2.5, "1e400"]}`, ""),
	Entry("2^64", `{"a": {"b": [1, 18446744073709551616]}}`,
		`the number at "a/b/1" is too large; integers may have up to 64 bits`),
	Entry("below -2^63", `-9223372036854775809`, `the number at "" is too large; integers may have up to 64 bits`),
	Entry("infinity", `[1e400]`, `the number at "0" is too large; integers may have up to 64 bits`),
	Entry("infinity below", `-1e400`, `the number at "" is too large; integers may have up to 64 bits`),
)

var _ = DescribeTable("decoding JSON", func(text string, want any) {
	got, err := value.DecodeJSON([]byte(text))
	Expect(err).NotTo(HaveOccurred())
	Expect([]any{got}).To(Equal([]any{want})) // in a list: null is compared as well
},
	Entry(nil, `{"a": [1, "1", true, null, {}], "b": {"c": 1.0}}`,
		object{"a": []any{int64(1), "1", true, nil, object{}}, "b": object{"c": int64(1)}}),
	Entry(nil, " null\n", nil),
	Entry("the last of two keys counts", `{"a": 1, "a": 2}`, object{"a": int64(2)}),
)

var _ = DescribeTable("decoding an invalid JSON document", func(text, message string) {
	_, err := value.DecodeJSON([]byte(text))
	Expect(err).To(MatchError(ContainSubstring(message)))
},
	Entry(nil, "", "unexpected end of JSON input"),
	Entry(nil, " ", "unexpected end of JSON input"),
	Entry(nil, `{"a": 1`, "unexpected EOF"),
	Entry(nil, `{} {}`, "unexpected data after the JSON document"),
	Entry(nil, `{} x`, "unexpected data after the JSON document"),
	Entry(nil, `{'a': 1}`, "invalid character"),
)

var _ = DescribeTable("decoding an object", func(text string, want object, message string) {
	got, err := value.DecodeObject([]byte(text))
	if message != "" {
		Expect(err).To(MatchError(message))
		return
	}
	Expect(err).NotTo(HaveOccurred())
	Expect(got).To(Equal(want))
},
	Entry(nil, `{"a": 1}`, object{"a": int64(1)}, ""),
	Entry("null is none", `null`, nil, ""),
	Entry(nil, `[1]`, nil, "expected a JSON object, found an array"),
	Entry(nil, `true`, nil, "expected a JSON object, found a boolean"),
	Entry(nil, `"a"`, nil, "expected a JSON object, found a string"),
	Entry(nil, `1`, nil, "expected a JSON object, found an integer"),
	Entry(nil, `1.5`, nil, "expected a JSON object, found a number"),
)

var _ = Describe("normalising", func() {
	It("converts numbers to their kinds and keys to strings", func() {
		raw := object{
			"ints": []any{1, int32(2), int64(3), uint(4), uint64(5), uint64(1 << 63)}, "floats": []any{
				1.0, 1.5, -1e15, 1e19,
				1e20,
			},
			"numbers": []any{json.Number("7"), json.Number("7.5")},
			"keys":    map[any]any{1: "a", true: "b", nil: "c", 2.5: "d", "e": map[any]any{}},
			"time":    time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), "bytes": []byte("x"), "nil": nil,
		}
		Expect(value.Normalise(raw)).To(Equal(object{
			"ints":    []any{int64(1), int64(2), int64(3), int64(4), int64(5), uint64(1 << 63)},
			"floats":  []any{int64(1), 1.5, int64(-1e15), uint64(1e19), 1e20},
			"numbers": []any{int64(7), 7.5},
			"keys":    object{"1": "a", "true": "b", "": "c", "2.5": "d", "e": object{}},
			"time":    "2026-01-31T12:00:00Z", "bytes": "[120]", "nil": nil,
		}))
	})

	It("does not change its input", func() {
		inner := []any{1}
		raw := object{"a": inner}
		value.Normalise(raw)
		Expect(raw).To(Equal(object{"a": inner}))
		Expect(inner).To(Equal([]any{1}))
	})

	It("does not change a normalised value", func() {
		var raw any
		Expect(yaml.Unmarshal([]byte("{a: [1, 2.5, x, null, true, 18446744073709551615, 1.0e+3], 5: b}"),
			&raw)).To(Succeed())
		once := value.Normalise(raw)
		Expect(once).To(Equal(object{
			"a": []any{int64(1), 2.5, "x", nil, true, uint64(math.MaxUint64), int64(1000)},
			"5": "b",
		}))
		Expect(value.Normalise(once)).To(Equal(once))
	})

	It("keeps NaN a float", func() {
		Expect(value.Normalise(math.NaN())).To(Satisfy(func(v any) bool { return math.IsNaN(v.(float64)) }))
	})
})

var _ = DescribeTable("the text of a value", func(v any, want string) {
	Expect(value.Text(v)).To(Equal(want))
},
	Entry(nil, nil, ""),
	Entry(nil, "a\nb", "a\nb"),
	Entry(nil, true, "true"),
	Entry(nil, int64(-5), "-5"),
	Entry(nil, uint64(math.MaxUint64), "18446744073709551615"),
	Entry("never with an exponent", 1e21, "1000000000000000000000"),
	Entry(nil, 0.1, "0.1"),
	Entry(nil, []any{int64(1), "<a>"}, `[1,"<a>"]`),
	Entry("sorted", object{"b": nil, "a": 2.5}, `{"a":2.5,"b":null}`),
	Entry("not representable", []any{math.Inf(1)}, "null"),
)

var _ = DescribeTable("the depth of a value", func(v any, want int) {
	Expect(value.Depth(v)).To(Equal(want))
},
	Entry(nil, "a", 0),
	Entry(nil, nil, 0),
	Entry(nil, []any{}, 1),
	Entry(nil, object{"a": []any{object{}}, "b": "c"}, 3),
)

var _ = Describe("walking a value", func() {
	v := object{"b": []any{"x", object{"c": nil}}, "a": int64(1)}

	It("visits keys and scalars in order", func() {
		var seen [][2]any
		Expect(value.Walk(v, func(path string, leaf any) bool {
			seen = append(seen, [2]any{path, leaf})
			return true
		})).To(BeTrue())
		Expect(seen).To(Equal([][2]any{
			{"a", "a"},
			{"a", int64(1)},
			{"b", "b"},
			{"b/0", "x"},
			{"b/1/c", "c"},
			{"b/1/c", nil},
		}))
	})

	It("stops when visit returns false", func() {
		visits := 0
		Expect(value.Walk(v, func(path string, _ any) bool {
			visits++
			return path != "b/0"
		})).To(BeFalse())
		Expect(visits).To(Equal(4))
	})
})

var _ = Describe("a copy", func() {
	It("shares nothing with the original", func() {
		original := object{"a": []any{object{"b": "c"}}}
		copied := value.CloneMap(original)
		Expect(copied).To(Equal(original))
		copied["a"].([]any)[0].(object)["b"] = "changed"
		Expect(original).To(Equal(object{"a": []any{object{"b": "c"}}}))
		Expect(value.CloneMap(nil)).To(BeNil())
		Expect(value.Clone("x")).To(Equal("x"))
	})
})

var _ = DescribeTable("the maps of a list", func(list any, want ...object) {
	Expect(value.Mappings(list)).To(HaveExactElements(want))
},
	Entry("in order, without other entries", []any{object{"a": 1}, "b", nil, object{}}, object{"a": 1}, object{}),
	Entry("of a value that is not a list", object{"a": object{}}),
	Entry("of null", nil),
)

var _ = It("converts a list of strings to a value", func() {
	Expect(value.Convert([]int{2, 1}, strconv.Itoa)).To(Equal([]string{"2", "1"}))
	Expect(value.Convert(nil, strconv.Itoa)).To(BeNil())
})

var _ = It("returns sorted keys", func() {
	Expect(value.Keys(map[string]int{"b": 1, "a": 2, "ä": 3})).To(Equal([]string{"a", "b", "ä"}))
})
