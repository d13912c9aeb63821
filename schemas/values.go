package schemas

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/xeipuuv/gojsonschema"

	"service-adapter/brokerpak"
	"service-adapter/internal/value"
)

// CheckValues checks the values of the resolved variables, by name, against the declared inputs: a required input must
// have a value, and each value must have the type of its input, be one of its enum and satisfy its constraints, of
// which contains, if, then and else are ignored. A null counts as a value; it fits an input that restricts neither the
// type nor the values, and a nullable input unless constraints other than the enum reject it. Of several inputs with
// the same name, only the last counts. Variables that are not inputs are not checked. The result is nil if all values
// fit or if the list of inputs is empty.
//
// If values do not fit and subject is nil, CheckValues returns a *fault.UserError, which calls the inputs parameters.
// If they do not fit and subject is not nil, it returns a *ValueError; the function subject returns the name of an
// input for its sentences. Both errors describe up to nine faults and count the others. They may contain the allowed
// values of an enum, but never the rejected values, of which they name only keys.
//
// If constraints of the definition cannot be used, CheckValues returns an error for the operator that wraps a
// diag.Errors with the positions in the definition. It returns another error if a value cannot be checked because JSON
// cannot represent it.
func CheckValues(inputs []brokerpak.Variable, values map[string]any, subject func(input string) string) error {
	inputs = lastOfEachName(inputs)
	if len(inputs) == 0 {
		return nil
	}
	var schema *gojsonschema.Schema // of the library's hybrid draft, which supports propertyNames
	enums := map[string][]any{}     // checked separately, because the library compares floats, for which 2⁵³+1 is 2⁵³
	schemaOf := func(input brokerpak.Variable) (map[string]any, error) {
		t := &translator{validating: true}
		property := restrictions(input, input.Nullable, t)
		if allowed, ok := property["enum"].([]any); ok {
			enums[input.Name] = allowed
			delete(property, "enum")
		}
		return property, t.err
	}
	_, err := propertiesOf(inputs, schemaOf, func(properties map[string]any) (err error) {
		schema, err = gojsonschema.NewSchema(gojsonschema.NewGoLoader(map[string]any{"properties": properties}))
		return err
	})
	if err != nil {
		return fmt.Errorf("reading the constraints of inputs: %w", err)
	}
	present := map[string]any{}
	var failed findings
	for _, input := range inputs {
		one, ok := values[input.Name]
		text := "is required"
		switch {
		case ok:
			text = enumFault(enums[input.Name], one)
		case !input.Required:
			continue
		}
		failed.add([]string{input.Name}, text)
		if text == "" { // a value outside of the enum needs no further findings
			present[input.Name] = one
		}
	}
	result, err := schema.Validate(gojsonschema.NewGoLoader(present))
	if err != nil {
		return fmt.Errorf("checking the values of inputs: %w", err)
	}
	failed.collect(result)
	if subject == nil {
		parameter := func(name string) string { return "parameter " + quote(name) }
		return userError(limit(failed.sentences(fieldOf(parameter))))
	}
	if sentences := failed.sentences(fieldOf(subject)); len(sentences) > 0 {
		return &ValueError{Sentences: limit(sentences)}
	}
	return nil
}

// A ValueError is the error that CheckValues returns if values do not fit their inputs and its argument subject is
// not nil. It contains one sentence for each faulty input or part of an input, up to nine, and the number of the
// others. The sentences may contain the allowed values of an enum, but never the rejected values, of which they name
// only keys.
type ValueError struct {
	// Sentences describe up to nine faults, without the rejected values. If there are more, a last element contains
	// their number.
	Sentences []string
}

// Error returns all sentences, separated by semicolons, and "" if there are none.
func (e *ValueError) Error() string { return strings.Join(e.Sentences, "; ") }

// lastOfEachName returns the inputs in their order, but of several inputs with the same name only the last one. It
// returns a new slice, which is nil if there are no inputs.
func lastOfEachName(inputs []brokerpak.Variable) []brokerpak.Variable {
	var kept []brokerpak.Variable
	for i, input := range inputs {
		if !slices.Contains(brokerpak.Names(inputs[i+1:]), input.Name) {
			kept = append(kept, input)
		}
	}
	return kept
}

// enumFault returns the rest of a sentence about a value that is not in an enum, such as "must be one of 1, 2" or, for
// an enum of one value, "must be 1". If no allowed value has the JSON type of the value, that type follows, as in "must
// be one of 1, 2, not a string". The values of the enum are written as JSON; the rejected value is not in the text.
// enumFault returns "" if allowed contains the value, compared as JSON, or if allowed is empty, which means that every
// value is allowed.
func enumFault(allowed []any, actual any) string {
	if len(allowed) == 0 || slices.ContainsFunc(allowed, func(a any) bool { return equal(a, actual) }) {
		return ""
	}
	shown := make([]string, len(allowed))
	sameType := false
	for i, one := range allowed {
		shown[i] = string(value.MustJSON(one))
		sameType = sameType || value.Kind(one) == value.Kind(actual)
	}
	text := "must be one of " + strings.Join(shown, ", ")
	if len(allowed) == 1 {
		text = "must be " + shown[0]
	}
	if !sameType {
		text += ", not " + value.Kind(actual)
	}
	return text
}

// equal reports whether two values have the same JSON encoding: 1 and 1.0 are the same number, and the order of the
// keys of a map does not matter. A value that JSON cannot represent counts as null.
func equal(a, b any) bool { return bytes.Equal(value.MustJSON(a), value.MustJSON(b)) }
