// Package value handles data that has no Go type of its own in the adapter: parameters, plan properties, variables and
// manifests. A value is nil, bool, string, int64, uint64 (only above the largest int64), float64, []any or
// map[string]any. An integer is never a float64: JSON's 5, 5.0 and 5e0 all become the int64 5, because the Director's
// YAML parser would read a float in a manifest as a string.
package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"time"
)

// MaxDepth is the largest number of lists and maps that a value from outside of the adapter may have around its
// innermost value.
const MaxDepth = 100

// wide and widest are 2⁶³ and 2⁶⁴, the first integers beyond int64 and uint64.
const wide, widest = 1 << 63, 1 << 64

// DecodeJSON decodes exactly one JSON document to a value of the types that Normalise returns, such as int64 for
// integers; null is nil. It returns nil and an error if the document is empty or invalid, or if further data follows
// it; the error may contain parts of the document. The number of nested lists and maps is not limited to MaxDepth, and
// a number beyond float64 becomes an infinity; see Depth and CheckNumbers.
func DecodeJSON(data []byte) (any, error) {
	var raw any
	if err := Decode(data, &raw); err != nil {
		return nil, err
	}
	return Normalise(raw), nil
}

// Decode decodes exactly one JSON document into the variable that into, a non-nil pointer, points to, as the package
// encoding/json does. Numbers that are decoded into an interface become json.Number, so that they keep all digits.
// Decode returns an error if the document is empty or invalid, if it does not fit the variable, or if further data
// follows it; the variable may have been changed nevertheless. The error may contain parts of the document; see
// WithoutContent.
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

// DecodeObject decodes exactly one JSON object, whose values have the types that Normalise returns. It returns a nil
// map without an error for null. It returns nil and an error for a JSON document of any other type, and for data that
// is empty, is not valid JSON, or continues after the document. As for DecodeJSON, the error may contain parts of the
// document, a number beyond float64 becomes an infinity, and the nesting is not limited.
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

// Normalise returns a deep copy of the result of a JSON or YAML decoder as a value, which consists of nil, bool,
// string, int64, uint64, float64, []any and map[string]any only. An integer of 64 bits becomes an int64, or a uint64 if
// it is too large for that, even if the decoder returned a float64 or a json.Number. Any other number becomes the
// nearest float64, or an int64 or uint64 if that float64 is an integer of 64 bits, as for the json.Number
// 0.99999999999999999. A json.Number beyond float64 becomes an infinity; see CheckNumbers. A time becomes a string in
// the format RFC 3339. Map keys that are not strings become strings as by Text, so null becomes ""; if two keys become
// equal, one of the values is lost. A nil map or list becomes an empty one. A Go type that decoders do not return, such
// as map[string]string, becomes a text in Go's default format.
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

// scalar returns a decoded scalar as a value: nil, a bool, a string, an int64 or uint64 for an integer of 64 bits, or a
// float64 for any other number; see number for the rounding of a json.Number. A time becomes a string in the format RFC
// 3339. A value of a Go type that decoders do not return for scalars, such as an int8, a list or a map, becomes its
// text in Go's default format.
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

// unsigned returns an int64 if v fits into one, and v otherwise.
func unsigned(v uint64) any {
	if v <= math.MaxInt64 {
		return int64(v)
	}
	return v
}

// float returns an int64 or uint64 if v is an integer of 64 bits, and v otherwise: for fractions, larger numbers,
// infinities and NaN.
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

// longestExact is the length in bytes of the longest number that is parsed exactly. The time to parse a number grows
// with the square of its length.
const longestExact = 64

// number returns the value of a valid JSON number as an int64, a uint64 or a float64. Integers of 64 bits are parsed
// exactly, even if they are written with a fraction or an exponent, as 9007199254740993.0 is; a float64 would round
// them. A fraction that rounds to an integer as a float64 becomes that integer. An integer of more than 64 bits becomes
// a float64. A text of more than longestExact, 64, bytes is rounded nevertheless, and can also become an integer. A
// number beyond float64 becomes an infinity. The result is not meaningful for any other text.
func number(text string) any {
	// The error is ignored: beyond float64 the result is an infinity, which CheckNumbers rejects before it is used.
	rounded, _ := strconv.ParseFloat(text, 64)
	if rounded != math.Trunc(rounded) || math.Abs(rounded) > widest || len(text) > longestExact {
		return float(rounded)
	}
	const precision = 128 // bits: 64 for the integer, and as many to detect a fraction
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
	return rounded // even if it is -2⁶³, so that CheckNumbers rejects an integer below it
}

// Kind returns the JSON type of a value with its article, for messages: "a string", "an integer", "null". The value
// must be normalised: every Go type that the package comment does not list, such as int or json.Number, counts as "an
// object".
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

// Text returns a scalar as text: a string unchanged, a boolean as "true" or "false", and a number in plain decimal
// notation, such as "100000" for 1e5, or as "+Inf", "-Inf" or "NaN". It returns nil as "", and lists and maps as JSON,
// or as "null" if JSON cannot represent them because they contain an infinity or NaN; see MustJSON. The value must have
// the types that Normalise returns.
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

// MustJSON returns a value as compact JSON without HTML escapes. The keys of maps are sorted; the fields of a struct
// have the order of their declaration, and the keys in a json.RawMessage keep their order. MustJSON never fails: it
// returns "null" for a value that JSON cannot represent, for example because it is or contains an infinity, NaN or a
// map with keys of the type any.
func MustJSON(v any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimRight(out.Bytes(), "\n")
}
