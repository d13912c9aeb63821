package brokerpak

import (
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// A Variable is the declaration of an input, which may be a computed input or an import input, or of an output. Its
// zero fields mean that the declaration does not have the key; see the embedded types for the fields that only some
// kinds have.
type Variable struct {
	Name string `key:"field_name,required" doc:"The name."`
	Type string `key:"type" doc:"The JSON type, or a list of types; any type if it is missing."`
	// Types are the allowed types if the declaration lists several. Type is "" then.
	Types       []string
	Details     string         `key:"details,required" doc:"What the variable is for."`
	Required    bool           `key:"required" doc:"Whether a request without it is rejected."`
	Nullable    bool           `key:"nullable" doc:"Whether it may be null, which differs from leaving it out."`
	Enum        []EnumValue    `key:"enum" doc:"The allowed values and what each means."`
	Constraints map[string]any `key:"constraints" doc:"JSON Schema keywords that the value must satisfy."`
	DefaultValue
	ImportSource
	RequestRules
	OutputValue
	Pos diag.Pos
}

// An OutputValue is the value of an output of a bind action with a command. It is zero for any other variable.
type OutputValue struct {
	// Value is the value as it is written. It is nil for null, and if there is none.
	Value any `key:"value"`
	// ValueExpr is the parsed value if that is a string. It is evaluated after the inputs, and cast to the type of the
	// output.
	ValueExpr *expr.Template
}

// A DefaultValue is the default of an input, or the value of a computed input. It is zero if the variable has none.
type DefaultValue struct {
	// Default is the default as it is written.
	Default any `key:"default"`
	// HasDefault is false if the default is missing or null. It is always false for a computed input.
	HasDefault bool
	// DefaultExpr is the parsed default if that is a string. It is evaluated and cast to the type of the variable. It
	// is nil for other defaults.
	DefaultExpr *expr.Template
	// Overwrite means that a computed input replaces an existing value.
	Overwrite bool
}

// An ImportSource is the resource, or the attribute of a resource, that an import reads. It is empty for a variable
// that has no part in imports.
type ImportSource struct {
	TFAttribute     string `key:"tf_attribute"`
	TFAttributeSkip string `key:"tf_attribute_skip" doc:"Another input; if it is true, tf_attribute is not read."`
	// Resource is the address of the template's resource that an import input imports.
	Resource string
}

// RequestRules determine what the parameters of requests can do with an input.
type RequestRules struct {
	ProhibitUpdate bool `key:"prohibit_update" doc:"Whether it cannot be changed after creation."`
	Sticky         bool `key:"sticky"`
	// Additional means that the input is a map of all parameters that no input declares. A parameter with the name of
	// the input is one of them.
	Additional bool `key:"additional"`
}

// An EnumValue is an allowed value of an input, with its YAML type, and a description for users.
type EnumValue struct {
	Value       any
	Description string
}

// AdditionalInput returns the input that is a map of all parameters that no input declares, or nil if there is none.
// The result is a pointer to the element of inputs.
func AdditionalInput(inputs []Variable) *Variable {
	return firstMatch(inputs, func(v *Variable) bool { return v.Additional })
}

// Names returns the names of inputs or outputs, in their order.
func Names(variables []Variable) []string {
	return value.Convert(variables, func(v Variable) string { return v.Name })
}

// Example returns a valid value from the variable's declaration: the first of its examples, its constant, or the
// first value of its enum. It returns false if the declaration has none of them.
func (v Variable) Example() (example any, ok bool) {
	if examples, _ := v.Constraints["examples"].([]any); len(examples) > 0 {
		return examples[0], true
	}
	if constant, ok := v.Constraints["const"]; ok {
		return constant, true
	}
	if len(v.Enum) > 0 {
		return v.Enum[0].Value, true
	}
	return nil, false
}

// ConstantDefault returns the default if it does not depend on the request. A string is evaluated and cast to Type; any
// other default, and a string that is not a valid expression, is returned as it is written. ConstantDefault returns nil
// if the variable has no default, or one with variables or functions. It returns an error if the string cannot be
// evaluated or cast.
func (v Variable) ConstantDefault() (any, error) {
	if v.DefaultExpr == nil {
		return v.Default, nil
	}
	if !v.DefaultExpr.IsLiteral() {
		return nil, nil
	}
	text, err := v.DefaultExpr.Eval(nil)
	if err != nil {
		return nil, err
	}
	return expr.Cast(text, v.Type)
}

// SampleValue returns a plausible value for documentation and checks: the result of Example, or else a value of the
// variable's type, such as the minimum or an empty list. Of several types, the first counts; a text or a value of any
// type is "example". It does not have to satisfy all constraints.
func (v Variable) SampleValue() any {
	if example, ok := v.Example(); ok {
		return example
	}
	typ := v.Type
	if len(v.Types) > 0 {
		typ = v.Types[0]
	}
	switch typ {
	case "integer", "number":
		if least, ok := v.Constraints["minimum"]; ok {
			return least
		}
		return int64(1)
	case "boolean":
		return false
	case "array":
		return []any{}
	case "object":
		return map[string]any{}
	default:
		return "example"
	}
}
