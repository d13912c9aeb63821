package schemas

import (
	"maps"
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
	constraints := maps.Clone(v.Constraints)
	if len(v.Enum) > 0 {
		values := make([]any, len(v.Enum))
		for i, allowed := range v.Enum {
			values[i] = allowed.Value
		}
		constraints = with(constraints, "enum", values)
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

// with sets a key of a map, which may be nil.
func with(m map[string]any, key string, value any) map[string]any {
	if m == nil {
		m = map[string]any{}
	}
	m[key] = value
	return m
}

func admitNull(schema map[string]any) {
	if name, ok := schema["type"].(string); ok && name != "null" {
		schema["type"] = []any{name, "null"}
	}
	if names, ok := schema["type"].([]any); ok && !slices.Contains(names, any("null")) {
		schema["type"] = append(slices.Clone(names), "null")
	}
	if values := list(schema["enum"]); len(values) > 0 && !slices.Contains(values, nil) {
		schema["enum"] = append(slices.Clone(values), nil)
	}
}

func list(value any) []any {
	values, _ := value.([]any)
	return values
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
// place of each input at fault, with the keyword.
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
	alone := func(input brokerpak.Variable) error {
		_, err := together(input)
		return err
	}
	var faults diag.List
	for _, input := range inputs {
		err := alone(input)
		if err == nil {
			continue
		}
		subject := "the constraints"
		if keyword, reason := faultyKeyword(input, alone); keyword != "" {
			subject, err = "constraint "+keyword, reason
		}
		faults.Errorf(input.Pos, "constraint", "%s of input %q cannot be used: %s", subject, input.Name,
			strings.Join(strings.Fields(err.Error()), " "))
	}
	if !faults.HasErrors() {
		return nil, cause
	}
	return nil, faults.Err()
}

// faultyKeyword returns the first keyword that is at fault by itself.
func faultyKeyword(input brokerpak.Variable, compile func(brokerpak.Variable) error) (string, error) {
	for _, keyword := range slices.Sorted(maps.Keys(input.Constraints)) {
		alone := input
		alone.Constraints = map[string]any{keyword: input.Constraints[keyword]}
		for exclusive, inclusive := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
			if limit, ok := input.Constraints[inclusive]; ok && keyword == exclusive {
				alone.Constraints[inclusive] = limit
			}
		}
		err := compile(alone)
		if err == nil {
			continue
		}
		if pattern, ok := input.Constraints[keyword].(string); ok && keyword == "pattern" {
			if _, syntax := regexp.Compile(pattern); syntax != nil {
				err = syntax
			}
		}
		return keyword, err
	}
	return "", nil
}

// compileOwn compiles a schema for our own validation: the library's mixed draft, in which propertyNames counts.
func compileOwn(schema map[string]any) (*gojsonschema.Schema, error) {
	return gojsonschema.NewSchemaLoader().Compile(gojsonschema.NewGoLoader(schema))
}

// compilePublished compiles a schema as the broker and the Cloud Controller do, who also hold it against the schema of
// schemas.
func compilePublished(schema map[string]any) error {
	loader := gojsonschema.NewSchemaLoader()
	loader.Validate = true
	_, err := loader.Compile(gojsonschema.NewGoLoader(schema))
	return err
}
