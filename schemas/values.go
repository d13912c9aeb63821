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

// CheckValues checks the resolved variables against the declared inputs: required ones are there, and each has its type,
// is one of its enum and keeps its constraints. Variables that are no inputs are not looked at. A value that does not fit
// is a *fault.UserError, which shows no value; with subject, which names an input in sentences, it is a *ValueError for whoever
// gave the value. A constraint that cannot be used is an error for the operator that names its place in the definition.
func CheckValues(inputs []brokerpak.Variable, values map[string]any, subject func(input string) string) error {
	inputs = lastOfEachName(inputs)
	if len(inputs) == 0 {
		return nil
	}
	var schema *gojsonschema.Schema // of the library's mixed draft, in which propertyNames counts
	enums := map[string][]any{}     // which the library would compare as floats, where 2⁵³+1 is 2⁵³
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
	given := map[string]any{}
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
		if text == "" { // else it says enough
			given[input.Name] = one
		}
	}
	result, err := schema.Validate(gojsonschema.NewGoLoader(given))
	if err != nil {
		return fmt.Errorf("checking the values of inputs: %w", err)
	}
	failed.collect(result)
	if subject == nil {
		return userError(limit(failed.sentences(placeOf(func(name string) string { return "parameter " + quote(name) }))))
	}
	if sentences := failed.sentences(placeOf(subject)); len(sentences) > 0 {
		return &ValueError{Sentences: limit(sentences)}
	}
	return nil
}

// ValueError says which values do not fit their inputs. It shows no value.
type ValueError struct {
	Sentences []string
}

// Error returns all sentences.
func (e *ValueError) Error() string { return strings.Join(e.Sentences, "; ") }

// lastOfEachName drops inputs that a later one of the same name replaces.
func lastOfEachName(inputs []brokerpak.Variable) []brokerpak.Variable {
	var kept []brokerpak.Variable
	for i, input := range inputs {
		if !slices.Contains(brokerpak.Names(inputs[i+1:]), input.Name) {
			kept = append(kept, input)
		}
	}
	return kept
}

// enumFault says what is wrong with a value that is not among those of an enum; "" for nothing.
func enumFault(allowed []any, given any) string {
	if len(allowed) == 0 || slices.ContainsFunc(allowed, func(a any) bool { return equal(a, given) }) {
		return ""
	}
	shown := make([]string, len(allowed))
	sameType := false
	for i, one := range allowed {
		shown[i] = string(value.MustJSON(one))
		sameType = sameType || value.Kind(one) == value.Kind(given)
	}
	text := "must be one of " + strings.Join(shown, ", ")
	if len(allowed) == 1 {
		text = "must be " + shown[0]
	}
	if !sameType {
		text += ", not " + value.Kind(given)
	}
	return text
}

// equal compares as JSON does, where 1 and 1.0 are one number.
func equal(a, b any) bool { return bytes.Equal(value.MustJSON(a), value.MustJSON(b)) }
