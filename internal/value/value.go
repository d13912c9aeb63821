// Package value holds the data that flows through the adapter without a Go type of its own: parameters, plan properties,
// variables, manifests. A value is nil, bool, string, int64, uint64 (only above the largest int64), float64, []any or
// map[string]any. Integers are never floats: JSON's 5, 5.0 and 5e0 are all the int64 5, because a float in a BOSH manifest
// is read as a string by the Director's YAML parser.
package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxDepth is how deep a value from outside may be nested.
const MaxDepth = 100

// wide and widest are 2 to the power of 63 and 64, where the integers of 64 bits end.
const wide, widest = 1 << 63, 1 << 64

// DecodeJSON reads exactly one JSON document.
func DecodeJSON(data []byte) (any, error) {
	var raw any
	if err := Decode(data, &raw); err != nil {
		return nil, err
	}
	return Normalise(raw), nil
}

// Decode reads exactly one JSON document into what a pointer names. Numbers in what has no type of its own are json.Number, so that
// none loses digits.
func Decode(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		if err == io.EOF {
			return errors.New("unexpected end of JSON input")
		}
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("unexpected data after the JSON document")
	}
	return nil
}

// DecodeObject reads exactly one JSON object; null gives a nil map.
func DecodeObject(data []byte) (map[string]any, error) {
	decoded, err := DecodeJSON(data)
	if err != nil {
		return nil, err
	}
	switch object := decoded.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return object, nil
	default:
		return nil, fmt.Errorf("expected a JSON object, found %s", Kind(decoded))
	}
}

// Normalise turns what a JSON or YAML decoder made into a value; the input is not changed. Map keys that are no strings
// become their text.
func Normalise(raw any) any {
	switch v := raw.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = Normalise(item)
		}
		return out
	case map[any]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[Text(Normalise(key))] = Normalise(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = Normalise(item)
		}
		return out
	default:
		return scalar(raw)
	}
}

func scalar(raw any) any {
	switch v := raw.(type) {
	case nil, bool, string, int64:
		return v
	case int:
		return int64(v)
	case int32:
		return int64(v)
	case uint64:
		return unsigned(v)
	case uint:
		return unsigned(uint64(v))
	case float64:
		return float(v)
	case json.Number:
		return number(v.String())
	case time.Time: // a YAML timestamp
		return v.Format(time.RFC3339Nano)
	default:
		return fmt.Sprint(v)
	}
}

func unsigned(v uint64) any {
	if v <= math.MaxInt64 {
		return int64(v)
	}
	return v
}

func float(v float64) any {
	switch {
	case v != math.Trunc(v): // NaN as well
		return v
	case v >= -wide && v < wide:
		return int64(v)
	case v >= wide && v < widest:
		return uint64(v)
	default:
		return v
	}
}

// longestExact bounds in bytes the numbers that are read exactly; the time to read one grows with the square of its length.
const longestExact = 64

// number reads integers exactly, also those that are written with a fraction or an exponent, such as 9007199254740993.0: a float64 would
// round them.
func number(text string) any {
	// Beyond float64 the result is infinite, which CheckNumbers refuses, so that the number is never used.
	rounded, _ := strconv.ParseFloat(text, 64)
	if rounded != math.Trunc(rounded) || math.Abs(rounded) > widest || len(text) > longestExact {
		return float(rounded)
	}
	const precision = 128 // bits; 64 for the integer, the others show a fraction
	exact, _, err := big.ParseFloat(text, 10, precision, big.ToNearestEven)
	if err != nil || !exact.IsInt() {
		return float(rounded)
	}
	if i, accuracy := exact.Int64(); accuracy == big.Exact {
		return i
	}
	if u, accuracy := exact.Uint64(); accuracy == big.Exact {
		return u
	}
	return float(rounded)
}

// Kind names the JSON type of a value with its article, for messages: "a string", "an integer", "null".
func Kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case int64, uint64:
		return "an integer"
	case float64:
		return "a number"
	case []any:
		return "an array"
	default:
		return "an object"
	}
}

// Text renders a scalar as text, integers and floats in plain decimal; lists and maps as JSON; nil as "".
func Text(v any) string {
	switch s := v.(type) {
	case nil:
		return ""
	case string:
		return s
	case bool:
		return strconv.FormatBool(s)
	case int64:
		return strconv.FormatInt(s, 10)
	case uint64:
		return strconv.FormatUint(s, 10)
	case float64:
		return strconv.FormatFloat(s, 'f', -1, 64)
	default:
		return string(MustJSON(s))
	}
}

// MustJSON renders a value as compact JSON with sorted keys and without HTML escapes. Only infinities and values that are
// none of this package cannot be rendered; they give null.
func MustJSON(v any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimRight(out.Bytes(), "\n")
}

// Map returns a deep copy with every scalar changed, or the first error.
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

// Clone returns a deep copy.
func Clone(v any) any {
	copied, _ := Map(v, func(scalar any) (any, error) { return scalar, nil }) // never fails
	return copied
}

// CloneMap returns a deep copy; nil stays nil.
func CloneMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	copied, _ := Clone(m).(map[string]any)
	return copied
}

// Merge lays maps over each other in a new one; later ones win.
func Merge[V any](layers ...map[string]V) map[string]V {
	all := map[string]V{}
	for _, layer := range layers {
		maps.Copy(all, layer)
	}
	return all
}

// Texts is a list of texts as a value.
func Texts(texts []string) []any {
	items := make([]any, len(texts))
	for i, text := range texts {
		items[i] = text
	}
	return items
}

// Each returns what a function makes of each element of a list.
func Each[E, R any](list []E, make func(element E) R) []R {
	var all []R
	for _, element := range list {
		all = append(all, make(element))
	}
	return all
}

// Keys returns the sorted keys of a map.
func Keys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

// Mappings returns the entries of a list that are maps; none for what is no list.
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

// Depth is the number of lists and maps around the innermost value.
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
	return 1 + slices.Max(append(Each(inner, Depth), 0))
}

// Walk calls visit for every scalar and every map key (as a string) in a value, in sorted order, with its path such as
// "labels/team" or "hosts/0". It stops when visit returns false.
func Walk(v any, visit func(path string, leaf any) bool) bool {
	return walk(nil, v, visit)
}

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

// CheckNumbers returns an error for a number that cannot be passed on unchanged: an integer beyond 64 bits, or one beyond
// the range of a double.
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

// AnyKeys returns a copy whose maps have keys of any type, as the BOSH and ops libraries look into them, with every string and
// key changed; nil changes none.
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
