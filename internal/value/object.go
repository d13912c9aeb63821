package value

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// NormaliseMap returns a copy of a decoded YAML or JSON object as Normalise does. It returns an empty map for nil.
func NormaliseMap(m map[string]any) map[string]any {
	normalised, _ := Normalise(m).(map[string]any)
	return normalised
}

// Lookup returns the value of a dotted key in nested mappings. The key is first tried as a whole, then split at its
// first dot: "a.b.c" is the key of a value, or "b.c" is looked up in the mapping at "a". Lookup returns nil and false
// if there is no value or the value is null.
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

// WithoutContent returns an error for a syntax or type error of a JSON decoder that contains the position or the type
// found, but not the surrounding text, which may contain secrets. The returned error does not wrap err, and lacks the
// texts of errors that wrap the decoder's error. All other errors, and nil, are returned unchanged.
func WithoutContent(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("no valid JSON at byte %d", syntax.Offset)
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		kind, _, _ := strings.Cut(wrong.Value, " ") // "number 5"
		return fmt.Errorf("found: %s", kind)
	}
	return err
}
