package manifestgen

import (
	"fmt"
	"strings"

	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// The parentheses in values are replaced by private-use characters while the library interpolates, because it would
// otherwise interpolate the values again. Parentheses in values from the user are replaced by different characters, so
// that evaluate detects a reference that they complete.
const (
	trustedOpen, trustedClose = '\uE0F0', '\uE0F1'
	userOpen, userClose       = '\uE0F2', '\uE0F3'
	maskRunes                 = "\uE0F0\uE0F1\uE0F2\uE0F3"
)

// mergeKey is the key that merges mappings in YAML. Some parsers merge even if the key is quoted.
const mergeKey = "<<"

// checkReserved returns an error if the value contains one of the private-use characters, which would become a
// parenthesis, or has the key "<<", which merges mappings. The error is a *fault.UserError if fromRequest is true. The
// name describes the value in the error.
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
		return fmt.Errorf("the value of %q holds one of the characters U+E0F0 to U+E0F3, which the adapter reserves",
			name)
	}
}

// masked returns a copy of the value with the parentheses in its texts and keys replaced by private-use characters:
// those for the user's values if fromRequest is true. Its mappings have keys of any type, as the library requires.
func masked(v any, fromRequest bool) any {
	open, end := trustedOpen, trustedClose
	if fromRequest {
		open, end = userOpen, userClose
	}
	return value.AnyKeys(v, func(text string) string {
		return strings.ReplaceAll(strings.ReplaceAll(text, "(", string(open)), ")", string(end))
	})
}

// isMasked reports whether a text contains one of the private-use characters.
func isMasked(text string) bool {
	// All of the characters begin with the same byte, which is rare: this avoids decoding most texts.
	return strings.IndexByte(text, maskRunes[0]) >= 0 && strings.ContainsAny(text, maskRunes)
}

// unmask returns a copy of the value with the characters open and end in its texts and keys replaced by parentheses.
// Its mappings have string keys.
func unmask(v any, open, end rune) any {
	return value.Normalise(value.AnyKeys(v, func(text string) string {
		if !isMasked(text) {
			return text
		}
		return strings.ReplaceAll(strings.ReplaceAll(text, string(open), "("), string(end), ")")
	}))
}
