package value

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Map returns a deep copy of a value in which every scalar, including null, is replaced by the result of change. Maps
// are visited in the order of their keys, which are not changed. A nil map or list becomes an empty one, and every Go
// type other than map[string]any and []any counts as a scalar. If change returns an error, Map stops and returns nil
// and that error. Map does not change v.
func Map(v any, change func(scalar any) (any, error)) (any, error) {
	var err error
	switch c := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(c))
		for _, key := range Keys(c) {
			if out[key], err = Map(c[key], change); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(c))
		for i, item := range c {
			if out[i], err = Map(item, change); err != nil {
				return nil, err
			}
		}
		return out, nil
	default:
		return change(v)
	}
}

// Clone returns a deep copy of a value. A nil map or list becomes an empty one. Every Go type other than map[string]any
// and []any counts as a scalar: such a list or map, for example a []string, is shared with the copy.
func Clone(v any) any {
	copied, _ := Map(v, func(scalar any) (any, error) { return scalar, nil }) // the function never fails
	return copied
}

// CloneMap returns a deep copy of a map as Clone does, but nil for a nil map.
func CloneMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	copied, _ := Clone(m).(map[string]any)
	return copied
}

// Merge returns a new map, which is never nil, with the entries of all layers. An entry of a later layer replaces an
// earlier one with the same key. Values are neither merged with each other nor copied. A layer may be nil.
func Merge[V any](layers ...map[string]V) map[string]V {
	all := map[string]V{}
	for _, layer := range layers {
		maps.Copy(all, layer)
	}
	return all
}

// Texts returns a list of strings as a value. The result is never nil.
func Texts(texts []string) []any {
	items := make([]any, len(texts))
	for i, text := range texts {
		items[i] = text
	}
	return items
}

// Convert returns the results of a function for the elements of a list, in their order. It returns nil for an empty
// list.
func Convert[E, R any](list []E, convert func(element E) R) []R {
	var all []R
	for _, element := range list {
		all = append(all, convert(element))
	}
	return all
}

// Keys returns the sorted keys of a map. It returns nil for an empty map.
func Keys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

// Mappings returns those elements of a list of the type []any that have the type map[string]any, in their order and
// without copying them. It returns nil if there are none or if the value is not such a list.
func Mappings(list any) []map[string]any {
	items, _ := list.([]any)
	var entries []map[string]any
	for _, item := range items {
		if entry, ok := item.(map[string]any); ok {
			entries = append(entries, entry)
		}
	}
	return entries
}

// Depth returns the number of lists and maps around the most deeply nested value in v. It is 0 for a scalar, 1 for an
// empty list or map, and 2 for a list of maps of scalars. Every Go type other than map[string]any and []any counts as a
// scalar.
func Depth(v any) int {
	var inner []any
	switch c := v.(type) {
	case map[string]any:
		inner = slices.Collect(maps.Values(c))
	case []any:
		inner = c
	default:
		return 0
	}
	return 1 + slices.Max(append(Convert(inner, Depth), 0))
}

// Walk calls visit for every scalar and every map key in a value: the entries of a map in the order of their keys, the
// items of a list in their order. A key is passed as a string, before the value at the key, with the same path. A path
// consists of keys and indexes, such as "labels/team" or "hosts/0"; that of a scalar that is the whole value is "".
// Walk stops when visit returns false, and reports whether all calls returned true.
func Walk(v any, visit func(path string, leaf any) bool) bool {
	return walk(nil, v, visit)
}

// walk calls visit for every scalar and every map key in v, as Walk does. It stops when visit returns false, and
// reports whether all calls returned true. path contains the keys and indexes that lead to v from the whole value;
// joined by slashes, they are the beginning of each path that visit receives. walk may overwrite the array behind
// path.
func walk(path []string, v any, visit func(string, any) bool) bool {
	switch c := v.(type) {
	case map[string]any:
		for _, key := range Keys(c) {
			at := append(path, key)
			if !visit(strings.Join(at, "/"), key) || !walk(at, c[key], visit) {
				return false
			}
		}
		return true
	case []any:
		for i, item := range c {
			if !walk(append(path, strconv.Itoa(i)), item, visit) {
				return false
			}
		}
		return true
	default:
		return visit(strings.Join(path, "/"), v)
	}
}

// CheckNumbers returns an error if a value contains a number that a manifest cannot contain: an integer of more than
// 64 bits, an infinity or NaN. It returns nil if there is none. The value must be normalised: only numbers of the
// type float64 are checked, and an integer among them counts as too large, because Normalise returns smaller ones as
// int64 or uint64. Rounding by Normalise is not noticed. The error names the path of the first such number, keys and
// indexes such as "hosts/0", but not the number.
func CheckNumbers(v any) error {
	var failed error
	Walk(v, func(path string, leaf any) bool {
		f, ok := leaf.(float64)
		if ok && (math.IsInf(f, 0) || math.IsNaN(f) || f == math.Trunc(f)) {
			failed = fmt.Errorf("the number at %q is too large; integers may have up to 64 bits", path)
		}
		return failed == nil
	})
	return failed
}

// AnyKeys returns a copy of a value in which all maps are map[any]any, as the BOSH and ops libraries expect them. The
// value must have the types that Normalise returns; every other Go type, also map[any]any, counts as a scalar. change
// is applied to every string and to every key of a map; nil changes none. Scalars that are not strings stay as they
// are. If two keys of a map become equal, one of the values is lost.
func AnyKeys(v any, change func(string) string) any {
	if change == nil {
		change = func(text string) string { return text }
	}
	switch item := v.(type) {
	case string:
		return change(item)
	case []any:
		out := make([]any, len(item))
		for i, element := range item {
			out[i] = AnyKeys(element, change)
		}
		return out
	case map[string]any:
		out := make(map[any]any, len(item))
		for key, element := range item {
			out[change(key)] = AnyKeys(element, change)
		}
		return out
	default:
		return v
	}
}
