package manifestgen

import (
	"fmt"
	"strings"

	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// Parentheses of values are replaced by private characters while the library interpolates, which would otherwise interpolate
// values again. Those of users have characters of their own, so that a reference that only they complete is found.
const (
	trustedOpen, trustedClose = '\uE0F0', '\uE0F1'
	userOpen, userClose       = '\uE0F2', '\uE0F3'
	maskRunes                 = "\uE0F0\uE0F1\uE0F2\uE0F3"
)

// mergeKey is the key with which YAML merges mappings. Some readers take it for that in quotes as well.
const mergeKey = "<<"

// checkReserved refuses a value that holds one of the private characters, which would become a parenthesis, or the key that
// merges mappings.
func checkReserved(name string, item any, fromRequest bool) error {
	merges := false
	clean := value.Walk(item, func(path string, leaf any) bool {
		text, _ := leaf.(string)
		merges = text == mergeKey && strings.HasSuffix("/"+path, "/"+mergeKey)
		return !merges && !isMasked(text)
	})
	switch {
	case clean:
		return nil
	case merges && fromRequest:
		return fault.Userf("%q must not have the key %q", name, mergeKey)
	case merges:
		return fmt.Errorf("the value of %q has the key %q, which has a meaning of its own in YAML", name, mergeKey)
	case fromRequest:
		return fault.Userf("%q must not hold the characters U+E0F0 to U+E0F3", name)
	default:
		return fmt.Errorf("the value of %q holds one of the characters U+E0F0 to U+E0F3, which the adapter reserves", name)
	}
}

// masked turns a value into what the library can look into, with its parentheses replaced.
func masked(v any, fromRequest bool) any {
	open, end := trustedOpen, trustedClose
	if fromRequest {
		open, end = userOpen, userClose
	}
	return value.AnyKeys(v, func(text string) string {
		return strings.ReplaceAll(strings.ReplaceAll(text, "(", string(open)), ")", string(end))
	})
}

// isMasked tells whether a text holds one of the private characters; all of them begin with the same byte, which is rare.
func isMasked(text string) bool {
	return strings.IndexByte(text, maskRunes[0]) >= 0 && strings.ContainsAny(text, maskRunes)
}

// unmask puts the parentheses back: those of the adapter's own values, or those of users.
func unmask(v any, open, end rune) any {
	return value.Normalise(value.AnyKeys(v, func(text string) string {
		if !isMasked(text) {
			return text
		}
		return strings.ReplaceAll(strings.ReplaceAll(text, string(open), "("), string(end), ")")
	}))
}
