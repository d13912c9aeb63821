package manifestgen

import (
	"regexp"
	"strings"

	"service-adapter/internal/value"
)

// mention is a text or key of a value that may hold references, with its path as value.Walk writes it.
type mention struct{ path, text string }

// mentions returns the mentions of a value in the order of value.Walk.
func mentions(tree any) []mention {
	var found []mention
	value.Walk(tree, func(path string, leaf any) bool {
		if text, ok := leaf.(string); ok && strings.Contains(text, "((") {
			found = append(found, mention{path, text})
		}
		return true
	})
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

// anyReference is what the Director takes for a reference.
var anyReference = regexp.MustCompile(`(?s)\(\(.*?\)\)`)

// allReferences returns what the Director takes for references in a text, with their parentheses.
func allReferences(text string) []string { return anyReference.FindAllString(text, -1) }

// holdsMask tells whether a text or key of a value holds one of the private characters.
func holdsMask(tree any) bool {
	return !value.Walk(tree, func(_ string, leaf any) bool {
		text, _ := leaf.(string)
		return !isMasked(text)
	})
}
