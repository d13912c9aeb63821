package schemas

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// rule is a JSON schema of the few keywords that the manifest's schema uses. Compiling that schema with the library takes longer than
// all else that is done with a small manifest, so a rule accepts first; what it does not accept, the library judges and explains.
type rule struct {
	Schema               string           `json:"$schema"`
	Comment              string           `json:"$comment"`
	Definitions          map[string]*rule `json:"definitions"`
	Ref                  string           `json:"$ref"`
	Type                 types            `json:"type"`
	Required             []string         `json:"required"`
	Properties           map[string]*rule `json:"properties"`
	AdditionalProperties *additional      `json:"additionalProperties"`
	Items                *rule            `json:"items"`
	MinItems             int              `json:"minItems"`
	MinLength            int              `json:"minLength"`
	Minimum              *int64           `json:"minimum"`
	Pattern              string           `json:"pattern"`
	Enum                 []string         `json:"enum"`
	Const                *string          `json:"const"`
	AllOf                []*rule          `json:"allOf"`
	AnyOf                []*rule          `json:"anyOf"`
	OneOf                []*rule          `json:"oneOf"`
	Not                  *rule            `json:"not"`
	If                   *rule            `json:"if"`
	Then                 *rule            `json:"then"`
}

// types are one type or several.
type types []string

// UnmarshalJSON reads a text or a list of texts.
func (t *types) UnmarshalJSON(data []byte) error {
	if data[0] != '"' {
		return json.Unmarshal(data, (*[]string)(t))
	}
	*t = types{""}
	return json.Unmarshal(data, &(*t)[0])
}

// additional is false, or a rule for further keys.
type additional struct{ *rule }

// UnmarshalJSON reads false or a schema; the error says that it is another value.
func (a *additional) UnmarshalJSON(data []byte) error {
	if string(data) == "false" {
		return nil
	}
	var err error
	a.rule, err = parseRule(data)
	return err
}

// parseRule reads a schema. The error says that it has a keyword that a rule has not.
func parseRule(text []byte) (*rule, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var r rule
	if err := decoder.Decode(&r); err != nil {
		return nil, err
	}
	return &r, nil
}

// accepts tells whether a tree certainly meets the manifest's schema. False says nothing.
func accepts(tree map[string]any) bool {
	root, err := parseRule([]byte(manifestSchema))
	return err == nil && encodable(tree, 0) && acceptance{root}.accepts(root, tree)
}

// encodable tells whether the library gets a value as it is: it gets it as JSON.
func encodable(v any, depth int) bool {
	const deepest = 100
	switch item := v.(type) {
	case nil, bool, int64, uint64:
		return true
	case string:
		return utf8.ValidString(item)
	case float64:
		return !math.IsNaN(item) && !math.IsInf(item, 0)
	case []any:
		return depth < deepest && !slices.ContainsFunc(item, func(element any) bool { return !encodable(element, depth+1) })
	case map[string]any:
		for key, element := range item {
			if !utf8.ValidString(key) || !encodable(element, depth+1) {
				return false
			}
		}
		return depth < deepest
	default:
		return false
	}
}

// acceptance holds the schema that references are looked up in.
type acceptance struct{ root *rule }

func (a acceptance) accepts(r *rule, v any) bool {
	if r.Ref != "" { // what stands beside it does not count
		target := a.root.Definitions[strings.TrimPrefix(r.Ref, "#/definitions/")]
		return target != nil && a.accepts(target, v)
	}
	if len(r.Type) > 0 && !slices.ContainsFunc(r.Type, func(name string) bool { return isType(name, v) }) {
		return false
	}
	return a.value(r, v) && a.combinations(r, v)
}

func (a acceptance) value(r *rule, v any) bool {
	text, isText := v.(string)
	if r.Const != nil && (!isText || text != *r.Const) || len(r.Enum) > 0 && (!isText || !slices.Contains(r.Enum, text)) {
		return false
	}
	switch item := v.(type) {
	case string:
		return utf8.RuneCountInString(item) >= r.MinLength && (r.Pattern == "" || matches(r.Pattern, item))
	case int64:
		return r.Minimum == nil || item >= *r.Minimum
	case float64:
		return r.Minimum == nil || item >= float64(*r.Minimum)
	case []any:
		return len(item) >= r.MinItems &&
			(r.Items == nil || !slices.ContainsFunc(item, func(element any) bool { return !a.accepts(r.Items, element) }))
	case map[string]any:
		return a.object(r, item)
	default:
		return true
	}
}

func (a acceptance) object(r *rule, object map[string]any) bool {
	for _, key := range r.Required {
		if _, ok := object[key]; !ok {
			return false
		}
	}
	if r.Properties == nil && r.AdditionalProperties == nil {
		return true
	}
	for key, item := range object {
		property, known := r.Properties[key]
		switch {
		case known:
		case r.AdditionalProperties == nil:
			continue
		case r.AdditionalProperties.rule == nil:
			return false
		default:
			property = r.AdditionalProperties.rule
		}
		if !a.accepts(property, item) {
			return false
		}
	}
	return true
}

func (a acceptance) combinations(r *rule, v any) bool {
	meets := func(r *rule) bool { return a.accepts(r, v) }
	one := 0
	for _, choice := range r.OneOf {
		if meets(choice) {
			one++
		}
	}
	return !slices.ContainsFunc(r.AllOf, func(r *rule) bool { return !meets(r) }) &&
		(len(r.AnyOf) == 0 || slices.ContainsFunc(r.AnyOf, meets)) &&
		(len(r.OneOf) == 0 || one == 1) &&
		(r.Not == nil || !meets(r.Not)) &&
		(r.If == nil || r.Then == nil || !meets(r.If) || meets(r.Then))
}

// matches reports a match; the few patterns are not worth keeping.
func matches(pattern, text string) bool {
	expression, err := regexp.Compile(pattern)
	return err == nil && expression.MatchString(text)
}

func isType(name string, v any) bool {
	switch item := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case int64, uint64:
		return name == "integer" || name == "number"
	case float64:
		return name == "number" || name == "integer" && item == math.Trunc(item)
	case []any:
		return name == "array"
	default:
		return name == "object"
	}
}
