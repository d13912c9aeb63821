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

// restrictions returns what an input demands of its value as a draft-04 schema. With null, null is allowed besides. The
// translator says whether the schema is for our own validation or for publication.
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

// described returns the schema of an input as published, with title, description and default.
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
	case v.HasDefault && err == nil: // else a request without the input is refused
		schema["default"] = item
	}
	if v.ProhibitUpdate {
		schema["prohibitUpdate"] = true
	}
	return schema, t.err
}

// title makes a heading of a name: max_disk_gb becomes "Max Disk GB".
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

// propertiesOf makes the schemas of inputs and compiles them together. Where that fails, each is compiled alone: the error names the
// place of each input at fault, with the first keyword that is at fault by itself.
func propertiesOf(
	inputs []brokerpak.Variable, schemaOf func(brokerpak.Variable) (map[string]any, error), compile func(properties map[string]any) error,
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
			faults.Errorf(input.Pos, "constraint", "%s of input %q cannot be used: %s", subject, input.Name, strings.Join(strings.Fields(err.Error()), " "))
			break
		}
	}
	return nil, cmp.Or(faults.Err(), cause)
}

// withKeyword is an input with one of its constraints, and the limit that it may belong to; with all for "".
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

// compilePublished compiles a schema as the broker and the Cloud Controller do, who also hold it against the schema of
// schemas.
func compilePublished(schema map[string]any) error {
	loader := gojsonschema.NewSchemaLoader()
	loader.Validate = true
	_, err := loader.Compile(gojsonschema.NewGoLoader(schema))
	return err
}
