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

// restrictions returns a draft-04 schema of the type, enum and constraints of an input. If null is true, the schema
// also allows null. The translator decides whether the schema is for validation or for publication. If the constraints
// contain a reference, restrictions sets the err of the translator and leaves the reference out.
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

// admitNull changes a schema, in place, so that its type and enum also allow null. A missing type or enum is not added.
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

// described returns the published schema of an input, with title, description, default and the keyword prohibitUpdate,
// which is set if updates must not change the input. If null is true, it allows null even if the input is not nullable.
// A default that depends on the request is only mentioned in the description, and one that cannot be cast to the type
// is left out. described returns errReference if the constraints contain a reference.
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

// title returns a heading for a name: max_disk_gb becomes "Max Disk GB". Words are separated by hyphens, underscores,
// periods, semicolons and spaces; ID, URI, URL, GB and JDBC are in upper case.
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

// propertiesOf returns the schemas of inputs by name: schemaOf returns the schema of an input, and compile reports
// whether the schemas of several inputs can be used. If either fails, both are called again for each input alone to
// find the cause. The error is then a diag.Errors that contains the position of each input at fault in the definition,
// and the first of its constraints that fails on its own. If no input fails alone, the first error is returned.
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

// withKeyword returns a copy of an input with only one of its constraints. An exclusive limit keeps its inclusive
// limit, which it may depend on. For the keyword "", the input keeps all constraints.
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

// compilePublished compiles a schema as the broker and the Cloud Controller do: they also validate it against the
// meta-schema. It returns an error if they would reject the schema.
func compilePublished(schema map[string]any) error {
	loader := gojsonschema.NewSchemaLoader()
	loader.Validate = true
	_, err := loader.Compile(gojsonschema.NewGoLoader(schema))
	return err
}
