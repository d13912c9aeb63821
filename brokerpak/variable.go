package brokerpak

import (
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// A Variable is the declaration of one input or output of an action in a service definition: of a plan input, user
// input, computed input or import input, or of an output. It contains the name, the type, and rules and defaults for
// the value. A key that the declaration does not have, or that is null in it, leaves its field zero. If the
// declaration lists several types, Types contains them and Type is "". An empty Type without Types allows any type.
type Variable struct {
	Name string `key:"field_name,required" doc:"The name."`
	Type string `key:"type" doc:"The JSON type, or a list of types. If it is missing, the value may have any type."`
	// Types are the allowed types if the declaration lists several. Type is "" then.
	Types       []string
	Details     string         `key:"details,required" doc:"The purpose of the variable."`
	Required    bool           `key:"required" doc:"Whether the adapter rejects a request if no source sets the value."`
	Nullable    bool           `key:"nullable" doc:"Whether the value may be null. A null differs from an omitted value."`
	Enum        []EnumValue    `key:"enum" doc:"The allowed values, each with a description."`
	Constraints map[string]any `key:"constraints" doc:"JSON Schema keywords that the value must satisfy."`
	DefaultValue
	ImportSource
	RequestRules
	OutputValue
	Pos diag.Pos
}

// An OutputValue is the content of the key `value` of an output in a bind section with a command: the value as it is
// written, and the expression parsed from it if it is a string. The zero OutputValue means that the output has no such
// key, or that its value is null. In a valid definition, it is zero for all other variables.
type OutputValue struct {
	// Value is the value as it is written. It is nil for null, and if there is none.
	Value any `key:"value"`
	// ValueExpr is the parsed value if that is a string. It is evaluated after the inputs, and cast to the type of the
	// output.
	ValueExpr *expr.Template
}

// A DefaultValue is the default of an input or output, or the value of a computed input: the value as it is written,
// and the expression parsed from it if it is a string. Only defaults of user inputs and values of computed inputs
// take effect; any other default is documentation. HasDefault reports whether an input has a default other than null;
// it is always false for a computed input. A computed input with Overwrite replaces the value that another source has
// set; without it, the computed value applies only if no other source has set one. Overwrite is false for all other
// variables. The zero DefaultValue means that the variable has no default, or null as its default.
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

// An ImportSource describes the role of a variable in the import of existing resources: the attribute of an imported
// resource from which an input gets its value (TFAttribute, as TYPE.NAME.ATTRIBUTE, and TFAttributeSkip, another input
// that disables this), or the address of the resource that an import input imports (Resource). It is zero for a
// variable that has no part in imports.
type ImportSource struct {
	TFAttribute     string `key:"tf_attribute"`
	TFAttributeSkip string `key:"tf_attribute_skip" doc:"Another input. If it is true, the adapter ignores tf_attribute."`
	// Resource is the address of the template's resource that an import input imports.
	Resource string
}

// RequestRules are the flags of an input that limit or extend how parameters of requests set it: it cannot be changed
// after the creation of an instance (ProhibitUpdate), an instance keeps its value when the plan or the default changes
// (Sticky), or it collects all parameters that no input declares (Additional). The zero RequestRules mean an input
// without these rules.
type RequestRules struct {
	ProhibitUpdate bool `key:"prohibit_update" doc:"Whether the adapter rejects updates that contain the parameter."`
	Sticky         bool `key:"sticky"`
	// Additional means that the input is a map of all parameters that no input declares. A parameter with the name of
	// the input is one of them.
	Additional bool `key:"additional"`
}

// An EnumValue is an entry of the key enum of an input: an allowed value, with the Go type of its YAML type (such as
// int64 or string), and a description of it for users, which may be "".
type EnumValue struct {
	Value       any
	Description string
}

// AdditionalInput returns the first of the inputs that has the flag Additional: the input whose value is a map of all
// parameters that no input declares. It returns nil if there is none. The result is a pointer to the element of inputs.
func AdditionalInput(inputs []Variable) *Variable {
	return firstMatch(inputs, func(v *Variable) bool { return v.Additional })
}

// Names returns the names of inputs or outputs, in their order and with repetitions. It returns nil for an empty list.
// A name may be "".
func Names(variables []Variable) []string {
	return value.Convert(variables, func(v Variable) string { return v.Name })
}

// Example returns a value that the variable's declaration names as valid: the first element of the constraint examples,
// or else the constraint const, which may be nil, or else the first value of the enum. It returns nil and false if the
// declaration has none of them. The value is not checked against the type and the other constraints.
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

// ConstantDefault returns the default of the variable if it is the same for every request. A default that is not a
// string is returned as it is written, and so is a string whose expressions ${...} cannot be parsed. A string without
// expressions, or that consists of a single one with a constant string, is returned with $$ replaced by a dollar sign
// and cast to Type. ConstantDefault returns nil and an error if such a string cannot be cast, for example "x" to the
// type integer.
//
// The result is nil, without an error, for any other string, because its value may depend on the request, and if the
// variable has no default.
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

// SampleValue returns a plausible value of the variable for documentation and checks: the result of Example if the
// declaration has one, or else a value of the variable's type. That is the constraint minimum, or else 1, for a number
// or integer, false for a boolean, an empty list or an empty map, and "example" for a string or a variable of any type.
// Of several types, the first counts. The value does not have to satisfy all constraints.
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
