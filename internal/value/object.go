package value

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// NormaliseMap returns a deep copy of a decoded YAML or JSON object, in which all values have the types that Normalise
// returns, such as int64 for integers. It returns an empty map for nil.
func NormaliseMap(m map[string]any) map[string]any {
	normalised, _ := Normalise(m).(map[string]any)
	return normalised
}

// Lookup returns the value of a dotted key, such as "a.b.c", in nested mappings. It tries the key as a whole first.
// If that key is missing or null, it splits the key at its first dot, and looks up "b.c" in the mapping at "a" in the
// same way. Keys with dots in them are therefore found only at the end of the dotted key. Lookup returns nil and
// false if there is no value, or if the value is null. The mapping may be nil.
func Lookup(mapping map[string]any, key string) (any, bool) {
	if item := mapping[key]; item != nil {
		return item, true
	}
	head, rest, found := strings.Cut(key, ".")
	if below, ok := mapping[head].(map[string]any); ok && found {
		return Lookup(below, rest)
	}
	return nil, false
}

// WithoutContent returns an error for a syntax or type error of a JSON decoder that contains only the position or the
// JSON type, as in "not valid JSON at byte 12" or "found: string", but not the surrounding text, which may contain
// secrets. The returned error does not wrap err, and lacks the texts of errors that wrap the decoder's error. All other
// errors, and nil, are returned unchanged.
func WithoutContent(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("not valid JSON at byte %d", syntax.Offset)
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		kind, _, _ := strings.Cut(wrong.Value, " ") // "number 5"
		return fmt.Errorf("found: %s", kind)
	}
	return err
}
