package schemas_test

import (
	"encoding/json"
	"errors"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
	"service-adapter/schemas"
)

// check validates {"n": …} or another document against one input and returns the message for the end user.
func check(v brokerpak.Variable, values string) string {
	GinkgoHelper()
	return userMessage(schemas.CheckValues([]brokerpak.Variable{v}, object(values), nil))
}

var _ = Describe("CheckValues", func() {
	DescribeTable("checks the type of a value",
		func(typeName, given, fault string) {
			want := ""
			if fault != "" {
				want = `parameter "n" must be ` + fault
			}
			Expect(check(input(typeName, ""), `{"n": `+given+`}`)).To(Equal(want))
		},
		Entry(nil, "string", `"x"`, ""),
		Entry(nil, "string", `5`, "a string, not an integer"),
		Entry(nil, "string", `5.5`, "a string, not a number"),
		Entry(nil, "string", `[1]`, "a string, not an array"),
		Entry(nil, "string", `{"a": 1}`, "a string, not an object"),
		Entry(nil, "string", `null`, "a string, not null"),
		Entry(nil, "integer", `"5"`, "an integer, not a string"),
		Entry(nil, "integer", `5`, ""),
		Entry(nil, "integer", `5.0`, ""),
		Entry(nil, "integer", `1e3`, ""),
		Entry(nil, "integer", `18446744073709551615`, ""),
		Entry(nil, "integer", `5.5`, "an integer, not a fraction"),
		Entry(nil, "number", `5`, ""),
		Entry(nil, "number", `5.5`, ""),
		Entry(nil, "number", `true`, "a number, not a boolean"),
		Entry(nil, "boolean", `true`, ""),
		Entry(nil, "boolean", `"true"`, "a boolean, not a string"),
		Entry(nil, "boolean", `1`, "a boolean, not an integer"),
		Entry(nil, "array", `[1, "a"]`, ""),
		Entry(nil, "array", `{"a": 1}`, "an array, not an object"),
		Entry(nil, "object", `{"a": 1}`, ""),
		Entry(nil, "object", `5`, "an object, not an integer"),
		Entry(nil, "", `5`, ""),
		Entry(nil, "", `null`, ""),
	)

	DescribeTable("checks a constraint",
		func(typeName, constraints, good, bad, fault string) {
			Expect(check(input(typeName, constraints), `{"n": `+good+`}`)).To(BeEmpty())
			Expect(check(input(typeName, constraints), `{"n": `+bad+`}`)).To(Equal(fault))
		},
		Entry("pattern", "string", `{"pattern": "^a+$"}`, `"aa"`, `"secret"`,
			`parameter "n" must match the pattern ^a+$`),
		Entry("pattern anywhere", "string", `{"pattern": "a"}`, `"bab"`, `"b"`,
			`parameter "n" must match the pattern a`),
		Entry("minLength", "string", `{"minLength": 2}`, `"éé"`, `"é"`,
			`parameter "n" must have at least 2 characters`),
		Entry("maxLength", "string", `{"maxLength": 1}`, `"é"`, `"ab"`, `parameter "n" must have at most 1 character`),
		Entry("format", "string", `{"format": "email"}`, `"a@b.c"`, `"ab"`, `parameter "n" must have the format email`),
		Entry("minimum", "integer", `{"minimum": 3}`, `3`, `2`, `parameter "n" must be at least 3`),
		Entry("maximum", "integer", `{"maximum": 3}`, `3`, `4`, `parameter "n" must be at most 3`),
		Entry("a large limit", "integer", `{"maximum": 1000000}`, `1000000`, `1000001`,
			`parameter "n" must be at most 1000000`),
		Entry("a very large limit", "number", `{"maximum": 1e100}`, `1`, `1e200`,
			`parameter "n" must be at most 1e+100`),
		Entry("limits beyond floats", "integer", `{"maximum": 9007199254740992}`,
			`9007199254740992`, `9007199254740993`,
			`parameter "n" must be at most 9007199254740992`),
		Entry("exclusiveMinimum, draft-04", "integer", `{"minimum": 3, "exclusiveMinimum": true}`, `4`, `3`,
			`parameter "n" must be greater than 3`),
		Entry("exclusiveMaximum, draft-04", "integer", `{"maximum": 3, "exclusiveMaximum": true}`, `2`, `3`,
			`parameter "n" must be less than 3`),
		Entry("exclusiveMinimum, later drafts", "integer", `{"exclusiveMinimum": 3}`, `4`, `3`,
			`parameter "n" must be greater than 3`),
		Entry("exclusiveMaximum, later drafts", "number", `{"exclusiveMaximum": 3.5}`, `3.4`, `3.5`,
			`parameter "n" must be less than 3.5`),
		Entry("exclusiveMinimum below minimum", "integer", `{"exclusiveMinimum": 1, "minimum": 3}`, `3`, `2`,
			`parameter "n" must be at least 3`),
		Entry("exclusiveMinimum at minimum", "integer", `{"exclusiveMinimum": 3, "minimum": 3}`, `4`, `3`,
			`parameter "n" must be greater than 3`),
		Entry("exclusiveMaximum above maximum", "integer", `{"exclusiveMaximum": 9, "maximum": 3}`, `3`, `4`,
			`parameter "n" must be at most 3`),
		Entry("multipleOf", "integer", `{"multipleOf": 3}`, `6`, `7`, `parameter "n" must be a multiple of 3`),
		Entry("multipleOf a fraction", "number", `{"multipleOf": 0.1}`, `0.3`, `0.35`,
			`parameter "n" must be a multiple of 0.1`),
		Entry("const", "string", `{"const": "x"}`, `"x"`, `"y"`, `parameter "n" must be "x"`),
		Entry("const of another type", "", `{"const": 5}`, `5`, `"5"`, `parameter "n" must be 5, not a string`),
		Entry("enum", "string", `{"enum": ["a", "<b>"]}`, `"<b>"`, `"c"`, `parameter "n" must be one of "a", "<b>"`),
		Entry("enum and const", "string", `{"enum": ["a", "b"], "const": "b"}`, `"b"`, `"a"`,
			`parameter "n" must be one of "b"`),
		Entry("enum of integers beyond floats", "integer", `{"enum": [9007199254740992]}`, `9007199254740992`,
			`9007199254740993`,
			`parameter "n" must be 9007199254740992`),
		Entry("minItems", "array", `{"minItems": 1}`, `[1]`, `[]`, `parameter "n" must have at least 1 item`),
		Entry("maxItems", "array", `{"maxItems": 2}`, `[1, 2]`, `[1, 2, 3]`, `parameter "n" must have at most 2 items`),
		Entry("uniqueItems", "array", `{"uniqueItems": true}`, `[1, 2]`, `[1, 1]`,
			`parameter "n" must not contain the same item twice`),
		Entry("items", "array", `{"items": {"type": "string"}}`, `["a"]`, `["a", 5]`,
			`field "1" of parameter "n" must be a string, not an integer`),
		Entry("items of several kinds", "array", `{"items": [{"type": "string"}], "additionalItems": false}`, `["a"]`,
			`["a", 5]`,
			`parameter "n" has too many items`),
		Entry("items true, additionalItems a schema", "array", `{"items": [true], "additionalItems": {"const": 1}}`,
			`["a", 1]`, `["a", 2]`,
			`field "1" of parameter "n" must be one of 1`),
		Entry("minProperties", "object", `{"minProperties": 1}`, `{"a": 1}`, `{}`,
			`parameter "n" must have at least 1 key`),
		Entry("maxProperties", "object", `{"maxProperties": 1}`, `{"a": 1}`, `{"a": 1, "b": 2}`,
			`parameter "n" must have at most 1 key`),
		Entry("required", "object", `{"required": ["a"]}`, `{"a": 1}`, `{}`, `field "a" of parameter "n" is required`),
		Entry("properties", "object", `{"properties": {"a": {"properties": {"b": {"const": 1}}}}}`, `{"a": {"b": 1}}`,
			`{"a": {"b": 2}}`,
			`field "a.b" of parameter "n" must be one of 1`),
		Entry("a property that is never allowed", "object", `{"properties": {"a": false}}`, `{}`, `{"a": 1}`,
			`field "a" of parameter "n" has a form that is not allowed`),
		Entry("patternProperties", "object", `{"patternProperties": {"^a": {"exclusiveMinimum": 0}}}`,
			`{"ab": 1, "b": 0}`, `{"ab": 0}`,
			`field "ab" of parameter "n" must be greater than 0`),
		Entry("additionalProperties", "object", `{"properties": {"a": {}}, "additionalProperties": false}`, `{"a": 1}`,
			`{"b": 1}`,
			`field "b" of parameter "n" is not allowed`),
		Entry("additionalProperties, a schema", "object", `{"additionalProperties": {"const": 1}}`,
			`{"a": 1}`, `{"b": 2}`,
			`field "b" of parameter "n" must be one of 1`),
		Entry("propertyNames", "object", `{"propertyNames": {"pattern": "^a"}}`, `{"a": 1}`, `{"b": 1, "c": 1}`,
			`parameter "n" has the key "b", which must match the pattern ^a `+
				`and has the key "c", which must match the pattern ^a`),
		Entry("propertyNames below", "array", `{"items": {"propertyNames": {"const": "a"}}}`,
			`[{"a": 1}]`, `[{"b": 1}]`,
			`field "0" of parameter "n" has the key "b", which must be one of "a"`),
		Entry("dependencies", "object", `{"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}`, `{"a": 1, "b": 1}`,
			`{"a": 1, "c": 1}`,
			`parameter "n" also needs the key "b"; field "d" of parameter "n" is required`),
		Entry("anyOf", "", `{"anyOf": [{"type": "integer"}, {"type": "boolean"}]}`, `true`, `"x"`,
			`parameter "n" has none of the allowed forms and must be an integer, not a string`),
		Entry("oneOf", "integer", `{"oneOf": [{"minimum": 3}, {"maximum": 5}]}`, `2`, `4`,
			`parameter "n" must have exactly one of the allowed forms`),
		Entry("allOf", "integer", `{"allOf": [{"minimum": 3}, {"maximum": 5}]}`, `4`, `6`,
			`parameter "n" must be at most 5`),
		Entry("not", "string", `{"not": {"const": "root"}}`, `"me"`, `"root"`,
			`parameter "n" has a form that is not allowed`),
		Entry("several faults", "string", `{"minLength": 3, "pattern": "^a"}`, `"abc"`, `"b"`,
			`parameter "n" must have at least 3 characters and must match the pattern ^a`),
	)

	DescribeTable("ignores the keyword",
		func(typeName, constraints, given string) {
			Expect(check(input(typeName, constraints), `{"n": `+given+`}`)).To(BeEmpty())
		},
		Entry(nil, "string", `{"examples": ["a"]}`, `"b"`),
		Entry(nil, "string", `{"nonsense": 5, "nullable": true, "default": null}`, `"b"`),
		Entry(nil, "array", `{"contains": {"const": 1}}`, `[2]`),
		Entry(nil, "string", `{"if": {"minLength": 1}, "then": {"maxLength": 1}, "else": false}`, `"bbb"`),
		Entry(nil, "string", `{"format": "made-up"}`, `"b"`),
		Entry(nil, "string", `{"id": "http://json-schema.org/draft-04/schema#", "definitions": true}`, `"b"`),
		Entry("a type that the declared one replaces", "string", `{"type": "integer"}`, `"b"`),
	)

	Describe("enums", func() {
		It("compares by the type in the definition", func() {
			v := input("string", "")
			v.Enum = enum(int64(1))
			Expect(check(v, `{"n": "1"}`)).To(Equal(`parameter "n" must be 1, not a string`))
			v = input("integer", "")
			v.Enum = enum(int64(1), int64(2))
			Expect(check(v, `{"n": 2.0}`)).To(BeEmpty())
			Expect(check(v, `{"n": 3}`)).To(Equal(`parameter "n" must be one of 1, 2`))
			Expect(check(v, `{"n": "secret"}`)).To(Equal(`parameter "n" must be one of 1, 2, not a string`))
		})

		It("replaces an enum of the constraints and keeps their const", func() {
			v := input("string", `{"enum": ["x"], "const": "b"}`)
			v.Enum = enum("a", "b")
			Expect(check(v, `{"n": "b"}`)).To(BeEmpty())
			Expect(check(v, `{"n": "a"}`)).To(Equal(`parameter "n" must be one of "b"`))
			Expect(check(v, `{"n": "x"}`)).To(Equal(`parameter "n" must be one of "a", "b"`))
		})

		It("may contain the empty string", func() {
			v := input("string", "")
			v.Enum = enum("", "a")
			Expect(check(v, `{"n": ""}`)).To(BeEmpty())
			Expect(check(v, `{"n": "A"}`)).To(Equal(`parameter "n" must be one of "", "a"`))
		})
	})

	It("checks a value against the last of several inputs with the same name", func() {
		inputs := []brokerpak.Variable{input("string", ""), input("integer", `{"minimum": 3}`)}
		for given, fault := range map[any]string{
			int64(3): "", int64(2): "at least 3", "x": "an integer, not a string",
		} {
			err := schemas.CheckValues(inputs, map[string]any{"n": given}, nil)
			if fault == "" {
				Expect(err).NotTo(HaveOccurred())
			} else {
				Expect(err).To(MatchError(HaveSuffix(`parameter "n" must be ` + fault)))
			}
		}
	})

	Describe("null", func() {
		It("is allowed by nullable, in every enum", func() {
			v := input("string", `{"const": "a", "minLength": 1}`)
			v.Nullable = true
			Expect(check(v, `{"n": null}`)).To(BeEmpty())
			v = input("string", "")
			v.Nullable, v.Enum = true, enum("a")
			Expect(check(v, `{"n": null}`)).To(BeEmpty())
			Expect(check(v, `{"n": 5}`)).To(Equal(`parameter "n" must be one of "a", null, not an integer`))
			v = input("integer", "")
			v.Nullable = true
			Expect(check(v, `{"n": "x"}`)).To(Equal(`parameter "n" must be an integer or null, not a string`))
		})

		It("satisfies required", func() {
			v := input("string", "")
			v.Required, v.Nullable = true, true
			Expect(check(v, `{"n": null}`)).To(BeEmpty())
			v.Nullable = false
			Expect(check(v, `{"n": null}`)).To(Equal(`parameter "n" must be a string, not null`))
		})
	})

	It("requires required inputs and ignores variables that are not inputs", func() {
		required := input("string", "")
		required.Required = true
		Expect(check(required, `{"m": 1}`)).To(Equal(`parameter "n" is required`))
		Expect(check(input("string", ""), `{"m": 1}`)).To(BeEmpty())
	})

	It("lists faults sorted by name, according to the last definition of each name", func() {
		inputs := []brokerpak.Variable{
			{Name: "z", Type: "string"},
			{Name: "b", Type: "boolean", Required: true},
			{Name: "b", Type: "string", Required: true},
			{Name: "a", Type: "array", Constraints: object(`{"items": {"type": "integer"}}`)},
		}
		for range 30 {
			message := userMessage(schemas.CheckValues(inputs, object(`{"z": 1, "a": [0, "p", "q"]}`), nil))
			Expect(message).To(Equal(`field "1" of parameter "a" must be an integer, not a string; ` +
				`field "2" of parameter "a" must be an integer, not a string; ` +
				`parameter "b" is required; parameter "z" must be a string, not an integer`))
		}
	})

	It("does not change the definition", func() {
		v := input("string", `{"const": "a", "items": {"exclusiveMinimum": 1}}`)
		v.Nullable = true
		check(v, `{"n": "a"}`)
		Expect(v.Constraints).To(Equal(object(`{"const": "a", "items": {"exclusiveMinimum": 1}}`)))
	})

	DescribeTable("returns an error for the operator if a constraint is invalid",
		func(constraints, message string) {
			other := brokerpak.Variable{Name: "fine", Type: "string"}
			err := schemas.CheckValues([]brokerpak.Variable{other, input("string", constraints)}, object(`{}`), nil)
			var user *fault.UserError
			Expect(errors.As(err, &user)).To(BeFalse())
			var faults diag.Errors
			Expect(errors.As(err, &faults)).To(BeTrue(), "%v", err)
			Expect(faults.Error()).To(Equal("definitions/redis.yml:7:5: " + message + " [constraint]"))
		},
		Entry(nil, `{"pattern": "["}`,
			"constraint pattern of input \"n\" cannot be used: error parsing regexp: missing closing ]: `[`"),
		Entry(nil, `{"pattern": "^(?!x)", "minLength": 2}`,
			"constraint pattern of input \"n\" cannot be used: error parsing regexp: "+
				"invalid or unsupported Perl syntax: `(?!`"),
		Entry(nil, `{"pattern": 5}`, `constraint pattern of input "n" cannot be used: pattern must be of a string`),
		Entry(nil, `{"minLength": -1}`,
			`constraint minLength of input "n" cannot be used: minLength must be greater than or equal to 0`),
		Entry(nil, `{"minimum": 1, "exclusiveMinimum": "x"}`,
			`constraint exclusiveMinimum of input "n" cannot be used: `+
				`Invalid type. Expected: boolean/number, given: exclusiveMinimum`),
		Entry(nil, `{"exclusiveMaximum": true}`,
			`constraint exclusiveMaximum of input "n" cannot be used: exclusiveMaximum cannot be used without maximum`),
		Entry(nil, `{"minLength": 3, "maxLength": 2}`,
			`the constraints of input "n" cannot be used: minLength cannot be greater than maxLength`),
		Entry(nil, `{"enum": "a"}`, `constraint enum of input "n" cannot be used: enum must be of an array`),
		Entry(nil, `{"$ref": "file:///etc/passwd"}`,
			`constraint $ref of input "n" cannot be used: $ref is not supported in constraints`),
		Entry(nil, `{"items": {"$ref": "#/properties/n"}}`,
			`constraint items of input "n" cannot be used: $ref is not supported in constraints`),
	)
})

func FuzzCheckValues(f *testing.F) {
	inputs := []brokerpak.Variable{
		{Name: "s", Type: "string", Required: true, Constraints: map[string]any{
			"pattern": "^a", "maxLength": int64(3),
		}},
		{Name: "i", Type: "integer", Nullable: true, Constraints: map[string]any{
			"exclusiveMinimum": int64(1),
			"multipleOf":       0.5,
		}},
		{Name: "e", Enum: []brokerpak.EnumValue{{Value: int64(1)}, {Value: "x"}}},
		{Name: "o", Type: "object", Constraints: map[string]any{
			"propertyNames": map[string]any{"pattern": "^a"},
			"additionalProperties": map[string]any{"anyOf": []any{
				map[string]any{"type": "string"},
				map[string]any{"minItems": int64(1)},
			}},
		}},
		{Name: "l", Type: "array", Constraints: map[string]any{
			"uniqueItems": true,
			"items":       map[string]any{"const": int64(1)},
		}},
	}
	f.Add([]byte(`{"s": "abc", "i": 2, "e": 1, "o": {"a": "x"}, "l": [1]}`))
	f.Add([]byte(`{"s": null, "i": 1e400, "e": {}, "o": {"b": [], "": {}}, "l": [1, 1.0, [[]]]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		values, err := value.DecodeObject(document)
		if err != nil || value.CheckNumbers(values) != nil {
			t.Skip()
		}
		first := schemas.CheckValues(inputs, values, nil)
		second := schemas.CheckValues(inputs, values, nil)
		if (first == nil) != (second == nil) || first != nil && first.Error() != second.Error() {
			t.Errorf("%v\n%v", first, second)
		}
		var user *fault.UserError
		if first != nil && !errors.As(first, &user) {
			t.Errorf("not for the user: %v", first)
		}
	})
}

func FuzzConstraints(f *testing.F) {
	f.Add([]byte(`{"pattern": "^a", "minLength": 1}`), []byte(`"abc"`))
	f.Add([]byte(`{"definitions": true, "items": [true], "oneOf": [], "dependencies": {"a": true}}`), []byte(`[{}]`))
	f.Add([]byte(`{"propertyNames": {"const": 1}, "not": {}, "required": ["a"], "enum": [1, null]}`),
		[]byte(`{"a": {}}`))
	f.Fuzz(func(_ *testing.T, constraints, document []byte) {
		parsed, err := value.DecodeObject(constraints)
		if err != nil || !json.Valid(document) {
			return
		}
		given, err := value.DecodeJSON(document)
		if err != nil {
			return
		}
		inputs := []brokerpak.Variable{{Name: "n", Nullable: true, Constraints: parsed}}
		_ = schemas.CheckValues(inputs, map[string]any{"n": given}, nil) // must not panic
		_, _, _, _ = schemas.ForPlan(&brokerpak.Service{Bind: brokerpak.Action{UserInputs: inputs}},
			nil, schemas.Supplied{})
	})
}
