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

// checkReserved returns an error if a text or key in item, at any level, contains one of the private-use characters
// U+E0F0 to U+E0F3, which would become a parenthesis (see masked), or if item has the key "<<" at any level, which some
// YAML parsers use to merge mappings. The error describes only the first such fault, and is a *fault.UserError if
// fromRequest is true. name describes the value in the error. checkReserved returns nil if item is clean.
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
		return fault.Userf("%q must not contain characters from U+E0F0 to U+E0F3", name)
	default:
		return fmt.Errorf("the value of %q contains a character from U+E0F0 to U+E0F3, which the adapter reserves",
			name)
	}
}

// masked returns a copy of the value in which the parentheses in texts and keys are replaced by private-use
// characters, so that the library does not interpolate values again. The value must have the types of package value;
// parentheses in a value of any other type are not replaced. If fromRequest is true, the characters are those for the
// user's values, otherwise those for trusted values; unmask reverts either. All mappings in the copy are map[any]any,
// as the library requires. masked does not reject values that contain such characters already; see checkReserved.
func masked(v any, fromRequest bool) any {
	open, end := trustedOpen, trustedClose
	if fromRequest {
		open, end = userOpen, userClose
	}
	return value.AnyKeys(v, func(text string) string {
		return strings.ReplaceAll(strings.ReplaceAll(text, "(", string(open)), ")", string(end))
	})
}

// isMasked reports whether a text contains one of the private-use characters U+E0F0 to U+E0F3, which represent
// parentheses in masked values.
func isMasked(text string) bool {
	// All of the characters begin with the same byte, which is rare: this avoids decoding most texts.
	return strings.IndexByte(text, maskRunes[0]) >= 0 && strings.ContainsAny(text, maskRunes)
}

// unmask returns a copy of the value in which the character open becomes "(" and the character end becomes ")" in all
// texts and keys. The value must have the types of package value, unlike the result of masked, whose mappings are
// map[any]any. Callers pass the pair for trusted values or the pair for the user's values (see masked); the
// characters of the other pair are not changed. The copy has the types of package value as well.
func unmask(v any, open, end rune) any {
	return value.Normalise(value.AnyKeys(v, func(text string) string {
		if !isMasked(text) {
			return text
		}
		return strings.ReplaceAll(strings.ReplaceAll(text, string(open), "("), string(end), ")")
	}))
}
