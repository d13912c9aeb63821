package expr

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
)

// length counts what a value holds.
func length(args []any) (any, error) {
	switch c := args[0].(type) {
	case nil:
		return int64(0), nil
	case []any:
		return int64(len(c)), nil
	case map[string]any:
		return int64(len(c)), nil
	default:
		scalar, err := text(c)
		return int64(utf8.RuneCountInString(scalar)), err
	}
}

// pluck returns one entry of each map in a list.
func pluck(args []any) (any, error) {
	key := as[string](args[1])
	plucked := []any{}
	for i, element := range as[[]any](args[0]) {
		item, ok := as[map[string]any](element)[key]
		if !ok {
			return nil, fmt.Errorf("element %d has no key %q", i, key)
		}
		plucked = append(plucked, item)
	}
	return plucked, nil
}

// yamlToJSON reads one YAML document, "null" from an empty text. The error does not quote the text, which may be a user's.
func yamlToJSON(args []any) (any, error) {
	var decoded any
	if err := yaml.Unmarshal([]byte(as[string](args[0])), &decoded); err != nil {
		return nil, errors.New("the text is no YAML")
	}
	tree := value.Normalise(decoded)
	if err := value.CheckNumbers(tree); err != nil {
		return nil, err
	}
	return jsonText(tree)
}
