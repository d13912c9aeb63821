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

// length implements length(value): the number of elements of a list, entries of a map, or characters of a text. Numbers
// and booleans count as their texts, so that length(12) is 2. The length of null is 0. It fails only for values of
// unsupported types.
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

// pluck implements list.pluck(list, key): the values of the key in a list of maps, in the order of the list. It fails
// if an element is not a map or does not have the key.
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

// yamlToJSON implements yaml.toJSON(text): the JSON text of the first YAML document; an empty text gives "null". It
// fails if the text is not YAML or contains a number that JSON cannot represent. The error does not contain the text,
// which may be secret.
func yamlToJSON(args []any) (any, error) {
	var decoded any
	if err := yaml.Unmarshal([]byte(as[string](args[0])), &decoded); err != nil {
		return nil, errors.New("the text is not YAML")
	}
	tree := value.Normalise(decoded)
	if err := value.CheckNumbers(tree); err != nil {
		return nil, err
	}
	return jsonText(tree)
}

// textsOf returns the texts of a list of scalars, in its order; the text of null is "". It returns an error, which does
// not contain the value, if an element is a list or a map.
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

// sorted implements sort(list): the texts of the elements in ascending order. Numbers are therefore not sorted by their
// values. The list itself is not changed. It fails if an element is not a scalar.
func sorted(args []any) (any, error) {
	texts, err := textsOf(as[[]any](args[0]))
	slices.Sort(texts)
	return value.Texts(texts), err
}

// concat implements concat(list, ...): the elements of all lists in one list. It never fails.
func concat(args []any) (any, error) {
	return slices.Concat(value.Convert(args, as[[]any])...), nil
}

// reverse implements reverse(list). The result is a copy. It never fails.
func reverse(args []any) (any, error) {
	backwards := slices.Clone(as[[]any](args[0]))
	slices.Reverse(backwards)
	return backwards, nil
}

// flatten implements flatten(list): the elements of the list, with nested lists replaced by their elements at every
// depth. It never fails.
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

// slice implements slice(list, from, to): the elements from index from up to, but not including, index to. It fails if
// from is negative or greater than to, or if to is greater than the length of the list.
func slice(args []any) (any, error) {
	list, from, to := as[[]any](args[0]), as[int64](args[1]), as[int64](args[2])
	if from < 0 || to > int64(len(list)) || from > to {
		return nil, fmt.Errorf("the indexes must be from 0 to %d, the first not after the second", len(list))
	}
	return list[from:to], nil
}

// elementAt implements element(list, index). An index outside of the list wraps around; -1 is the last element. It
// fails if the list is empty.
func elementAt(args []any) (any, error) {
	list, index := as[[]any](args[0]), as[int64](args[1])
	if len(list) == 0 {
		return nil, errors.New("the list is empty")
	}
	length := int64(len(list))
	return list[(index%length+length)%length], nil
}

// distinct implements distinct(list): the list without repeated elements, in the order of the first ones. Elements are
// equal if their texts, or the texts in them, are equal. The scalars in the result are texts. It fails only for values
// of unsupported types.
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

// contains implements contains(list, value): whether an element of the list equals the value. Scalars, also those in
// lists and maps, are compared by their texts, so 1 equals "1" and true. It fails only for values of unsupported types.
func contains(args []any) (any, error) {
	both, err := texts(args)
	if err != nil {
		return nil, err
	}
	list, wanted := as[[]any](as[[]any](both)[0]), as[[]any](both)[1]
	return slices.ContainsFunc(list, func(item any) bool { return reflect.DeepEqual(item, wanted) }), nil
}

// merge implements merge(map, ...): a deep copy of the entries of all maps. The last map that has a key determines
// its value. It never fails.
func merge(args []any) (any, error) {
	return value.CloneMap(value.Merge(value.Convert(args, as[map[string]any])...)), nil
}

// keys implements keys(map): the sorted keys of the map. It never fails.
func keys(args []any) (any, error) { return value.Texts(value.Keys(as[map[string]any](args[0]))), nil }

// values implements values(map): the values in the order of the sorted keys. It never fails.
func values(args []any) (any, error) {
	m := as[map[string]any](args[0])
	return value.Convert(value.Keys(m), func(key string) any { return m[key] }), nil
}
