package manifestgen

import (
	"slices"
	"strconv"
	"strings"

	"service-adapter/internal/value"
)

// mention is a text or key of a value that may hold references.
type mention struct {
	text string
	// path leads to it, the last element first.
	path []string
}

// place is the path as value.Walk writes it.
func (m mention) place() string {
	path := slices.Clone(m.path)
	slices.Reverse(path)
	return strings.Join(path, "/")
}

// mentions returns the mentions of a value in the order of value.Walk. Only what has some is put in order, because most of a large
// manifest has none.
func mentions(v any) []mention {
	switch item := v.(type) {
	case string:
		if strings.Contains(item, "((") {
			return []mention{{text: item}}
		}
	case []any:
		var found []mention
		for n, element := range item {
			if more := mentions(element); len(more) > 0 {
				found = append(found, below(strconv.Itoa(n), more)...)
			}
		}
		return found
	case map[string]any:
		return mentionsOfMapping(item)
	}
	return nil
}

func mentionsOfMapping(mapping map[string]any) []mention {
	var byKey map[string][]mention
	for key, element := range mapping {
		found := mentions(element)
		if strings.Contains(key, "((") {
			found = append([]mention{{text: key}}, found...)
		}
		if len(found) == 0 {
			continue
		}
		if byKey == nil {
			byKey = map[string][]mention{}
		}
		byKey[key] = below(key, found)
	}
	var found []mention
	for _, key := range value.Keys(byKey) {
		found = append(found, byKey[key]...)
	}
	return found
}

// below puts an element before the paths of mentions.
func below(element string, found []mention) []mention {
	for i := range found {
		found[i].path = append(found[i].path, element)
	}
	return found
}

// references returns all references in a value, in order, with repetitions.
func references(tree any) []string { return referencesIn(mentions(tree)) }

func referencesIn(found []mention) []string {
	var all []string
	for _, m := range found {
		all = append(all, allReferences(m.text)...)
	}
	return all
}

// allReferences returns what the Director takes for references in a text, with their parentheses.
func allReferences(text string) []string {
	var found []string
	for {
		start := strings.Index(text, "((")
		if start < 0 {
			return found
		}
		text = text[start:]
		end := strings.Index(text[2:], "))")
		if end < 0 {
			return found
		}
		found = append(found, text[:2+end+2])
		text = text[2+end+2:]
	}
}

// holds tells whether a value has a string or key of a kind.
func holds(v any, is func(text string) bool) bool {
	switch item := v.(type) {
	case string:
		return is(item)
	case []any:
		for _, element := range item {
			if holds(element, is) {
				return true
			}
		}
	case map[string]any:
		for key, element := range item {
			if is(key) || holds(element, is) {
				return true
			}
		}
	}
	return false
}
