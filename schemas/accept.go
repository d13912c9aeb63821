package schemas

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// rule is a JSON schema of the few keywords that the manifest's schema uses; manifestRule is that schema. Compiling it with the library
// takes longer than all else that is done with a small manifest, so a rule accepts first; what it does not accept, the library judges
// and explains.
type rule struct {
	Ref        *rule // stands alone
	Types      []string
	Required   []string
	Properties []property
	Closed     bool  // there are no other properties
	Additional *rule // of other properties
	Items      *rule
	MinItems   int
	MinLength  int
	MaxLength  int  // 0: any
	Limited    bool // by Minimum
	Minimum    int64
	Capped     bool // by Maximum
	Maximum    int64
	Pattern    string
	Enum       []string
	AllOf      []rule
	AnyOf      []rule
	OneOf      []rule
	Not        *rule
	If         *rule
	Then       *rule
}

type property struct {
	name string
	rule rule
}

// accepts tells whether a tree certainly meets the manifest's schema. False says nothing.
func accepts(tree map[string]any) bool {
	return encodable(tree, 0) && manifestRule.accepts(tree)
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

func (r *rule) accepts(v any) bool {
	if r.Ref != nil {
		return r.Ref.accepts(v)
	}
	if len(r.Types) > 0 && !slices.ContainsFunc(r.Types, func(name string) bool { return isType(name, v) }) {
		return false
	}
	return r.value(v) && r.combinations(v)
}

func (r *rule) value(v any) bool {
	text, isText := v.(string)
	if len(r.Enum) > 0 && (!isText || !slices.Contains(r.Enum, text)) {
		return false
	}
	switch item := v.(type) {
	case string:
		length := utf8.RuneCountInString(item)
		return length >= r.MinLength && (r.MaxLength == 0 || length <= r.MaxLength) && (r.Pattern == "" || matches(r.Pattern, item))
	case int64:
		return (!r.Limited || item >= r.Minimum) && (!r.Capped || item <= r.Maximum)
	case uint64: // above every int64
		return !r.Capped
	case float64:
		return (!r.Limited || item >= float64(r.Minimum)) && (!r.Capped || item <= float64(r.Maximum))
	case []any:
		return len(item) >= r.MinItems &&
			(r.Items == nil || !slices.ContainsFunc(item, func(element any) bool { return !r.Items.accepts(element) }))
	case map[string]any:
		return r.object(item)
	default:
		return true
	}
}

func (r *rule) object(object map[string]any) bool {
	for _, key := range r.Required {
		if _, ok := object[key]; !ok {
			return false
		}
	}
	for key, item := range object {
		known := slices.IndexFunc(r.Properties, func(p property) bool { return p.name == key })
		switch {
		case known >= 0:
			if !r.Properties[known].rule.accepts(item) {
				return false
			}
		case r.Closed, r.Additional != nil && !r.Additional.accepts(item):
			return false
		}
	}
	return true
}

func (r *rule) combinations(v any) bool {
	met := func(rules []rule) (count int) {
		for i := range rules {
			if rules[i].accepts(v) {
				count++
			}
		}
		return count
	}
	return met(r.AllOf) == len(r.AllOf) &&
		(len(r.AnyOf) == 0 || met(r.AnyOf) > 0) &&
		(len(r.OneOf) == 0 || met(r.OneOf) == 1) &&
		(r.Not == nil || !r.Not.accepts(v)) &&
		(r.If == nil || r.Then == nil || !r.If.accepts(v) || r.Then.accepts(v))
}

// The patterns that nearly every manifest has a text for.
const (
	watchTime     = `^\s*\d+\s*(-\s*\d+\s*)?$` // milliseconds, or a span of them
	variableName  = `^[a-zA-Z0-9_/-]+$`
	variableFault = `//|/$` // must not match
)

// matches reports a match. To compile those patterns would take longer than all other checks.
func matches(pattern, text string) bool {
	switch pattern {
	case watchTime:
		const blanks = "\t\n\f\r "
		from, to, span := strings.Cut(text, "-")
		return isNumber(strings.Trim(from, blanks)) && (!span || isNumber(strings.Trim(to, blanks)))
	case variableName:
		return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '/' && r != '-'
		})
	case variableFault:
		return strings.Contains(text, "//") || strings.HasSuffix(text, "/")
	}
	expression, err := regexp.Compile(pattern)
	return err == nil && expression.MatchString(text)
}

func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

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
