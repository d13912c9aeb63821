package schemas_test

import (
	"testing"

	"service-adapter/brokerpak"
	"service-adapter/internal/value"
	"service-adapter/schemas"
)

// FuzzPlainlyValid compares the check of one value with what the library says of it.
func FuzzPlainlyValid(f *testing.F) {
	types := []string{"", "string", "integer", "number", "boolean", "array", "object"}
	given := []string{`"aä"`, `5`, `1.5`, `1e30`, `18446744073709551615`, `-1`, `true`, `null`, `["a"]`, `{"a": 1}`}
	for i, constraints := range []string{
		`{}`, `{"minimum": 1, "maximum": 60000}`, `{"minimum": 2, "maximum": 1}`, `{"pattern": "^a+$", "maxLength": 3}`, `{"pattern": "("}`,
		`{"minLength": 2, "maxLength": 1}`, `{"minLength": -1}`, `{"maxLength": 0}`, `{"minimum": 1.5}`, `{"enum": ["a", 5]}`, `{"maximum": "x"}`,
		`{"exclusiveMinimum": 5}`, `{"items": {"type": "string"}}`, `{"maximum": 9007199254740993}`, `{"minItems": 2}`,
	} {
		for kind := range types {
			f.Add(uint8(kind), constraints, given[(i+kind)%len(given)], kind%2 == 0, uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, constraints, given string, nullable bool, shape uint8) {
		limits, err := value.DecodeObject([]byte(constraints))
		if err != nil || value.Depth(limits) > 50 {
			return
		}
		one, err := value.DecodeJSON([]byte(given))
		if err != nil || value.Depth(one) > 50 {
			return
		}
		input := brokerpak.Variable{
			Name: "n", Type: types[int(kind)%len(types)], Constraints: limits, Nullable: nullable, Required: shape&1 != 0,
		}
		if text, ok := one.(string); ok && shape&2 != 0 {
			input.Enum = []brokerpak.EnumValue{{Value: "other"}, {Value: text + []string{"", "x"}[shape>>2&1]}}
		}
		inputs := []brokerpak.Variable{input, {Name: "other", Type: "string"}}
		values := map[string]any{"other": "x"}
		if shape&8 == 0 {
			values["n"] = one
		}
		if got, want := schemas.CheckValues(inputs, values), schemas.Validate(inputs, values); (got == nil) != (want == nil) {
			t.Errorf("got %v, the library says %v", got, want)
		}
	})
}
