package expr

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
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

// textsOf returns the texts of a list of scalars.
func textsOf(list []any) ([]string, error) {
	texts := make([]string, len(list))
	for i, element := range list {
		scalar, err := text(element)
		if err != nil {
			return nil, fmt.Errorf("element %d is %s, not a text", i, value.Kind(element))
		}
		texts[i] = scalar
	}
	return texts, nil
}

func sorted(args []any) (any, error) {
	texts, err := textsOf(as[[]any](args[0]))
	slices.Sort(texts)
	return value.Texts(texts), err
}

func concat(args []any) (any, error) {
	return slices.Concat(value.Each(args, as[[]any])...), nil
}

func reverse(args []any) (any, error) {
	backwards := slices.Clone(as[[]any](args[0]))
	slices.Reverse(backwards)
	return backwards, nil
}

func flatten(args []any) (any, error) {
	flat := []any{}
	for _, item := range as[[]any](args[0]) {
		inner, ok := item.([]any)
		if !ok {
			flat = append(flat, item)
			continue
		}
		nested, _ := flatten([]any{inner}) // never fails
		flat = append(flat, as[[]any](nested)...)
	}
	return flat, nil
}

func slice(args []any) (any, error) {
	list, from, to := as[[]any](args[0]), as[int64](args[1]), as[int64](args[2])
	if from < 0 || to > int64(len(list)) || from > to {
		return nil, fmt.Errorf("the indexes must be from 0 to %d, the first not after the second", len(list))
	}
	return list[from:to], nil
}

func elementAt(args []any) (any, error) {
	list, index := as[[]any](args[0]), as[int64](args[1])
	if len(list) == 0 {
		return nil, errors.New("the list is empty")
	}
	length := int64(len(list))
	return list[(index%length+length)%length], nil
}

func distinct(args []any) (any, error) {
	all, err := texts(args[0])
	kept, seen := []any{}, map[string]bool{}
	for _, item := range as[[]any](all) {
		id, _ := jsonText(item) // never fails with texts
		if !seen[id] {
			kept = append(kept, item)
		}
		seen[id] = true
	}
	return kept, err
}

func contains(args []any) (any, error) {
	both, err := texts(args)
	if err != nil {
		return nil, err
	}
	list, wanted := as[[]any](as[[]any](both)[0]), as[[]any](both)[1]
	return slices.ContainsFunc(list, func(item any) bool { return reflect.DeepEqual(item, wanted) }), nil
}

func merge(args []any) (any, error) {
	return value.CloneMap(value.Merge(value.Each(args, as[map[string]any])...)), nil
}

func keys(args []any) (any, error) { return value.Texts(value.Keys(as[map[string]any](args[0]))), nil }

func values(args []any) (any, error) {
	m := as[map[string]any](args[0])
	return value.Each(value.Keys(m), func(key string) any { return m[key] }), nil
}
