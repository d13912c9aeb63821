package schemas

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/xeipuuv/gojsonschema"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// restrictions returns a new draft-04 schema of the values that an input may have. It consists of the constraints of
// the input, in which the type and the enum of the input, if it has them, replace those of the constraints. If null
// is true, the type and the enum also allow null; v.Nullable has no effect. The translator t rewrites the constraints
// and determines whether the schema is for validation or for publication. If the constraints contain a $ref that the
// translator notices, restrictions leaves it out and sets t.err to errReference.
func restrictions(v brokerpak.Variable, null bool, t *translator) map[string]any {
	constraints := v.Constraints
	if len(v.Enum) > 0 {
		values := make([]any, len(v.Enum))
		for i, allowed := range v.Enum {
			values[i] = allowed.Value
		}
		constraints = value.Merge(constraints, map[string]any{"enum": values})
	}
	schema := t.object(constraints)
	switch {
	case v.Type != "":
		schema["type"] = v.Type
	case len(v.Types) > 0:
		schema["type"] = value.Texts(v.Types)
	}
	if null {
		admitNull(schema)
	}
	return schema
}

// admitNull changes a JSON Schema, in place, so that its type and its enum also allow null. It does not add a missing
// type or a missing or empty enum, and it does not change other keywords, which may still reject null. The lists in the
// schema are replaced and not modified.
func admitNull(schema map[string]any) {
	if name, ok := schema["type"].(string); ok && name != "null" {
		schema["type"] = []any{name, "null"}
	}
	if names, ok := schema["type"].([]any); ok && !slices.Contains(names, any("null")) {
		schema["type"] = append(slices.Clone(names), "null")
	}
	if values, _ := schema["enum"].([]any); len(values) > 0 && !slices.Contains(values, nil) {
		schema["enum"] = append(slices.Clone(values), nil)
	}
}

// described returns the published draft-04 schema of an input, with title, description, default and the keyword
// prohibitUpdate, which is true if updates must not change the input and is otherwise missing. If null is true, the
// type and the enum allow null even if the input is not nullable. The title is that of the constraints, or else is
// derived from the name of the input. The description is the Details of the input, even if the constraints have one. A
// default that an expression computes is only mentioned in it, and a constant default that cannot be evaluated or cast
// to the type is left out. A default in the constraints stays unless the input has a constant one. described returns
// errReference, and a schema that must not be used, if the constraints contain a $ref that the translator notices.
func described(v brokerpak.Variable, null bool) (map[string]any, error) {
	t := &translator{}
	schema := restrictions(v, null || v.Nullable, t)
	if _, ok := schema["title"]; !ok {
		schema["title"] = title(v.Name)
	}
	schema["description"] = v.Details
	switch item, err := v.ConstantDefault(); {
	case v.DefaultExpr != nil && !v.DefaultExpr.IsLiteral():
		schema["description"] = v.Details + " (computed when it is left out)"
	case v.HasDefault && err == nil: // a default with an error rejects requests that omit the input
		schema["default"] = item
	}
	if v.ProhibitUpdate {
		schema["prohibitUpdate"] = true
	}
	return schema, t.err
}

// title returns a heading for the name of an input: "max_disk_gb" becomes "Max Disk GB". The name is split into words
// at hyphens, underscores, periods, semicolons and spaces. The words ID, URI, URL, GB and JDBC are written in upper
// case. Any other word gets a capital first letter and is otherwise unchanged. The title of an empty name is "".
func title(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(" -_.;", r) })
	for i, word := range words {
		switch strings.ToLower(word) {
		case "id", "uri", "url", "gb", "jdbc":
			words[i] = strings.ToUpper(word)
		default:
			first, size := utf8.DecodeRuneInString(word)
			words[i] = string(unicode.ToUpper(first)) + word[size:]
		}
	}
	return strings.Join(words, " ")
}

// propertiesOf returns a map from the names of inputs to their JSON Schemas, which is empty if the list of inputs is.
// schemaOf returns the schema of one input. compile receives the schemas of several inputs by name and returns an error
// if they cannot be used.
//
// If one of the functions returns an error, propertiesOf calls both again for each input alone, and for one that fails
// with each of its constraints alone, to find the cause. It then returns nil and a diag.Errors with one error for each
// input that fails alone. The error has the position of the input in the definition, and names the first constraint, in
// alphabetical order, that fails on its own, or all constraints if they only fail together. If no input fails alone,
// propertiesOf returns nil and the first error.
func propertiesOf(
	inputs []brokerpak.Variable,
	schemaOf func(brokerpak.Variable) (map[string]any, error),
	compile func(properties map[string]any) error,
) (map[string]any, error) {
	together := func(inputs ...brokerpak.Variable) (map[string]any, error) {
		properties := make(map[string]any, len(inputs))
		for _, input := range inputs {
			property, err := schemaOf(input)
			if err != nil {
				return nil, err
			}
			properties[input.Name] = property
		}
		return properties, compile(properties)
	}
	properties, cause := together(inputs...)
	if cause == nil {
		return properties, nil
	}
	var faults diag.List
	for _, input := range inputs {
		if _, err := together(input); err == nil {
			continue
		}
		for _, keyword := range append(value.Keys(input.Constraints), "") {
			_, err := together(withKeyword(input, keyword))
			if err == nil {
				continue
			}
			subject := "the constraints"
			if keyword != "" {
				subject = "constraint " + keyword
			}
			if pattern, ok := input.Constraints[keyword].(string); ok && keyword == "pattern" {
				_, syntax := regexp.Compile(pattern)
				err = cmp.Or(syntax, err)
			}
			reason := strings.Join(strings.Fields(err.Error()), " ")
			faults.Errorf(input.Pos, "constraint", "%s of input %q cannot be used: %s", subject, input.Name, reason)
			break
		}
	}
	return nil, cmp.Or(faults.Err(), cause)
}

// withKeyword returns a copy of an input whose Constraints contain only one JSON Schema keyword, such as "pattern".
// keyword must be one of the keywords in the Constraints of input, or "", for which the copy keeps all constraints.
// With exclusiveMinimum or exclusiveMaximum, the copy also keeps minimum or maximum, respectively, if input has it,
// because the exclusive limit may depend on it. Everything else in the copy, such as the type and the enum, is that of
// the original, which does not change.
func withKeyword(input brokerpak.Variable, keyword string) brokerpak.Variable {
	if keyword == "" {
		return input
	}
	all := input.Constraints
	input.Constraints = map[string]any{keyword: all[keyword]}
	inclusive := map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}[keyword]
	if limit, ok := all[inclusive]; ok {
		input.Constraints[inclusive] = limit
	}
	return input
}

// compilePublished compiles a JSON Schema as the on-demand broker and the Cloud Controller do, which also validate the
// schema against the meta-schema of its draft. It returns an error if they would reject the schema, and nil otherwise.
func compilePublished(schema map[string]any) error {
	loader := gojsonschema.NewSchemaLoader()
	loader.Validate = true
	_, err := loader.Compile(gojsonschema.NewGoLoader(schema))
	return err
}
