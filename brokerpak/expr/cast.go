package expr

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"service-adapter/internal/value"
)

// Cast converts v, the result of an expression, to a JSON type, whose name is typ:
//
//   - "string": the text of a scalar: "1" for true and "0" for false.
//   - "integer": int64. The empty text is 0, a decimal part is dropped, and "0x1f" and "017" are parsed as in Go.
//   - "number": int64 or uint64 if the value is an integer of 64 bits, else float64. The empty text is 0.
//   - "boolean": the text of the scalar must be one that strconv.ParseBool accepts, such as "1" or "false".
//   - "object" and "array": a map or a list, respectively. A text must be JSON of one.
//   - "": no conversion.
//
// A scalar is converted by way of its text, so that true becomes the integer 1. A nil value becomes nil, even if the
// type is unknown, and so does the text "null" for "object" and "array". For any other value, Cast returns nil and an
// error if the value cannot be converted, for example a list to "string", or if the type is unknown. The error
// contains no scalar of the value, which may be secret, but may contain keys of a map.
func Cast(v any, typ string) (any, error) {
	if typ == "" || v == nil {
		return v, nil
	}
	cast, err := castTo(v, typ)
	if err != nil {
		return nil, fmt.Errorf("converting to %s: %w", typ, err)
	}
	return cast, nil
}

// castTo converts a value to a JSON type as Cast does. The value must not be nil, and the type must not be "". castTo
// returns nil and an error if the value cannot be converted or the type is unknown. The error contains no scalar of the
// value, but may contain keys of a map.
func castTo(v any, typ string) (any, error) {
	switch typ {
	case "object":
		return collection[map[string]any](v, "an object")
	case "array":
		return collection[[]any](v, "an array")
	}
	switch v.(type) {
	case map[string]any, []any:
		return nil, fmt.Errorf("unable to cast %s", value.Kind(v))
	}
	scalar, err := text(v)
	if err != nil {
		return nil, err
	}
	switch typ {
	case "string":
		return scalar, nil
	case "integer":
		return integer(scalar)
	case "number":
		return number(scalar)
	case "boolean":
		b, err := strconv.ParseBool(scalar)
		if err != nil {
			return nil, errors.New("the text is neither true nor false")
		}
		return b, nil
	default:
		return nil, errors.New("unknown type")
	}
}

// decimal matches a number with a decimal point. Its groups are the sign and the digits before the point.
var decimal = regexp.MustCompile(`^([-+]?)([0-9]*)\.[0-9]*$`)

// integer parses a text as an int64, in the syntax of Go for integers: "0x1f" is hexadecimal and "017" octal. The empty
// text is 0. A decimal point and the decimal digits after it, as in "-1.9" or "1.", are dropped without rounding, and
// no digits before the point mean 0. integer returns an error if the text is not an integer in this sense, such as
// "1e3" or " 1", or does not fit into 64 bits. The error does not contain the text.
func integer(text string) (any, error) {
	if text == "" {
		return int64(0), nil
	}
	if parts := decimal.FindStringSubmatch(text); parts != nil {
		text = parts[1] + cmp.Or(parts[2], "0")
	}
	i, err := strconv.ParseInt(text, 0, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return nil, errors.New("the integer is out of range")
	case err != nil:
		return nil, errors.New("the text is not an integer")
	}
	return i, nil
}

// number parses a text as a number, in the syntax of strconv.ParseFloat, such as "1.5" or "1e3". The result is an
// int64 or uint64 if the number, or the float64 nearest to it, is an integer of 64 bits, also if it is written as
// "1e3" or "5.0", and else a float64. The empty text is 0. number returns an error if the text is not a number, is an
// infinity or NaN, or is out of the range of a float64. The error does not contain the text.
func number(text string) (any, error) {
	if text == "" {
		return int64(0), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return nil, errors.New("the number is out of range")
	case err != nil, math.IsNaN(f), math.IsInf(f, 0):
		return nil, errors.New("the text is not a number")
	}
	return value.Normalise(json.Number(text)), nil
}

// collection returns a map or list of the type T unchanged, and decodes a text, which must be the JSON of one. A nil
// value and the JSON text null become nil. collection returns nil and an error if v is of any other type, if the text
// is not JSON or contains a number that cannot be represented, or if it is JSON of another type. The parameter kind
// names the expected type in the error, such as "an object". The error contains no scalar of the value, but may contain
// keys of a map.
func collection[T map[string]any | []any](v any, kind string) (any, error) {
	decoded, err := decodeText(v)
	if err != nil || decoded == nil {
		return nil, err
	}
	if result, ok := decoded.(T); ok {
		return result, nil
	}
	return nil, fmt.Errorf("expected %s, found %s", kind, value.Kind(decoded))
}

// decodeText decodes a string as JSON, and returns every other value unchanged. The text null becomes nil. decodeText
// returns an error if the text is empty or not exactly one JSON document, or if it contains an integer of more than
// 64 bits or a number beyond float64; other numbers are rounded to float64 if necessary. The result must not be used
// after an error. The error may contain keys of the text, in the path of such a number, but none of its values.
func decodeText(v any) (any, error) {
	text, ok := v.(string)
	if !ok {
		return v, nil
	}
	result, err := value.DecodeJSON([]byte(text))
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("the text is not JSON from byte %d on", syntax.Offset)
	case err != nil:
		return nil, errors.New("the text is not JSON")
	}
	return result, value.CheckNumbers(result)
}

// Truthy reports whether v, the result of a condition, is true. A bool is its own value. Nil, "" and an empty list or
// map are false. Any other text must be one that strconv.ParseBool accepts, such as "1", "true", "0" or "false"; white
// space around it is ignored. Truthy returns false and an error for every other value: another text, such as "yes" or
// white space only, a number, or a list or map that is not empty. The error does not contain the value.
func Truthy(v any) (bool, error) {
	switch c := v.(type) {
	case nil:
		return false, nil
	case bool:
		return c, nil
	case string:
		if c == "" {
			return false, nil
		}
		holds, err := strconv.ParseBool(strings.TrimSpace(c))
		if err != nil {
			return false, errors.New("the result is a text that is neither true nor false")
		}
		return holds, nil
	case []any:
		if len(c) == 0 {
			return false, nil
		}
	case map[string]any:
		if len(c) == 0 {
			return false, nil
		}
	}
	return false, fmt.Errorf("the result is %s, neither true nor false", value.Kind(v))
}
