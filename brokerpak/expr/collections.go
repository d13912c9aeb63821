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

// length implements Function.Call for the function length(value) of expressions. It returns, as an int64, the number of
// elements of a list, of entries of a map, or of characters (not bytes) of a text. Numbers and booleans count as their
// texts, so that length(12) is 2. The length of null is 0. It returns an error only for a value of a Go type that
// expressions do not have.
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

// pluck implements Function.Call for the function list.pluck(list, key) of expressions. It returns the values of the
// key in a list of maps, in the order of the list; a value may be null. The result is empty and not nil for an empty
// list. pluck returns nil and an error, which names the key and the index, if an element is not a map or does not have
// the key.
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

// yamlToJSON implements Function.Call for the function yaml.toJSON(text) of expressions. It returns the first YAML
// document in the text as compact JSON (see jsonText), and "null" for an empty text. Keys that are other scalars than
// strings become texts, such as "1" for 1. Further documents are ignored. yamlToJSON returns an error if the text is
// not valid YAML, repeats a key, has a list or mapping as a key, or contains a number that JSON cannot represent or
// that needs more than 64 bits. The error may contain keys of the text, in the path of the number, but none of its
// values, which may be secret.
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

// textsOf returns the texts of the scalars in a list, in its order: "1" and "0" for booleans, and "" for null. The
// result is never nil without an error. textsOf returns nil and an error, which does not contain the value, if an
// element is a list, a map or of a Go type that expressions do not have.
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

// sorted implements Function.Call for the function sort(list) of expressions. It returns a new list of the texts of
// the elements in ascending order, with "" for null; see textsOf. Numbers are sorted by their texts and not by their
// values. sorted returns an error if an element is a list or a map.
func sorted(args []any) (any, error) {
	texts, err := textsOf(as[[]any](args[0]))
	slices.Sort(texts)
	return value.Texts(texts), err
}

// concat implements Function.Call for the function concat(list, ...) of expressions. It returns one new list with the
// elements of all lists, in their order. If all lists are empty, the result is a nil list, which expressions treat as
// an empty one. concat never returns an error.
func concat(args []any) (any, error) {
	return slices.Concat(value.Convert(args, as[[]any])...), nil
}

// reverse implements Function.Call for the function reverse(list) of expressions. It returns a new list of the elements
// in reverse order. It never returns an error.
func reverse(args []any) (any, error) {
	backwards := slices.Clone(as[[]any](args[0]))
	slices.Reverse(backwards)
	return backwards, nil
}

// flatten implements Function.Call for the function flatten(list) of expressions. It returns a new list of the
// elements, with nested lists replaced by their elements at every depth. Maps and the lists in them are not changed. It
// never returns an error.
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

// slice implements Function.Call for the function slice(list, from, to) of expressions. It returns the elements from
// index from up to, but not including, index to, counted from 0. The result shares its memory with the list. slice
// returns an error if from is negative or greater than to, or if to is greater than the length of the list.
func slice(args []any) (any, error) {
	list, from, to := as[[]any](args[0]), as[int64](args[1]), as[int64](args[2])
	if from < 0 || to > int64(len(list)) || from > to {
		return nil, fmt.Errorf("the indexes must be from 0 to %d, the first not after the second", len(list))
	}
	return list[from:to], nil
}

// elementAt implements Function.Call for the function element(list, index) of expressions. It returns the element at
// the index, which counts from 0. An index outside of the list wraps around: index 3 of a list of three elements is the
// first, and -1 is the last. elementAt returns an error if the list is empty.
func elementAt(args []any) (any, error) {
	list, index := as[[]any](args[0]), as[int64](args[1])
	if len(list) == 0 {
		return nil, errors.New("the list is empty")
	}
	length := int64(len(list))
	return list[(index%length+length)%length], nil
}

// distinct implements Function.Call for the function distinct(list) of expressions. It returns a new list without
// repeated elements, in the order of their first occurrences. Elements are equal if their texts are equal, or, for
// lists and maps, the texts in them. The scalars in the result are texts. distinct returns an error only for a scalar
// of a Go type that expressions do not have.
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

// contains implements Function.Call for the function contains(list, value) of expressions. It returns, as a bool,
// whether an element of the list equals the value, which may also be a list or map. Scalars, also those in lists and
// maps, are compared by their texts, so 1 equals "1" and true, and null equals "". contains returns an error only for
// a scalar of a Go type that expressions do not have.
func contains(args []any) (any, error) {
	both, err := texts(args)
	if err != nil {
		return nil, err
	}
	list, wanted := as[[]any](as[[]any](both)[0]), as[[]any](both)[1]
	return slices.ContainsFunc(list, func(item any) bool { return reflect.DeepEqual(item, wanted) }), nil
}

// merge implements Function.Call for the function merge(map, ...) of expressions. It returns a new map with deep copies
// of the entries of all maps. The last map that has a key determines its value; values that are maps are not merged
// with each other. merge never returns an error.
func merge(args []any) (any, error) {
	return value.CloneMap(value.Merge(value.Convert(args, as[map[string]any])...)), nil
}

// keys implements Function.Call for the function keys(map) of expressions. It returns a list of the keys of the map,
// sorted, which is empty and not nil for an empty map. It never returns an error.
func keys(args []any) (any, error) { return value.Texts(value.Keys(as[map[string]any](args[0]))), nil }

// values implements Function.Call for the function values(map) of expressions. It returns a list of the values of the
// map in the order of its sorted keys. The list is nil for an empty map; expressions treat it as an empty list. The
// values are not copied. It never returns an error.
func values(args []any) (any, error) {
	m := as[map[string]any](args[0])
	return value.Convert(value.Keys(m), func(key string) any { return m[key] }), nil
}
