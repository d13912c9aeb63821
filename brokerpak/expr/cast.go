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

// Cast converts the result of an expression to a JSON type:
//
//   - "string": the text of a scalar: "1" for true and "0" for false.
//   - "integer": int64. The empty text is 0, a decimal part is dropped, and "0x1f" and "017" are parsed as in Go.
//   - "number": int64 or uint64 if the value is an integer of 64 bits, else float64. The empty text is 0.
//   - "boolean": the text of the scalar must be one that strconv.ParseBool accepts.
//   - "object" and "array": a text must be JSON.
//   - "": no conversion.
//
// A nil value and, for "object" and "array", the text "null" become nil. Cast returns an error if the value cannot be
// converted or the type is unknown. The error does not contain the value, which may be secret.
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

// castTo implements Cast for a value that is not nil and a type that is not "". The errors name neither the value nor
// the type to which it is converted.
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

// integer parses a text as an int64, in the syntax of Go: "0x1f" is hexadecimal and "017" octal. The empty text is 0,
// and a decimal part is dropped. It returns an error, which does not contain the text, if that is not an integer or
// does not fit into 64 bits.
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

// number parses a text as a decimal number: int64 or uint64 if it is an integer of 64 bits, else float64. The empty
// text is 0. It returns an error, which does not contain the text, if that is not a number or is out of the range of a
// float64.
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

// collection returns a map or list unchanged, and decodes a text, which must be the JSON of one. T is the expected
// type. The JSON null becomes nil. Any other value is an error, which does not contain the value. The parameter kind
// names the expected type in the error, such as "an object".
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

// decodeText decodes a text as JSON, and returns every other value unchanged. It returns an error, which does not
// contain the text, if that is not JSON or contains a number that value.CheckNumbers rejects.
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

// Truthy reports whether the result of a condition is true. A nil, "" and an empty list or map are false. A text must
// be one that strconv.ParseBool accepts, such as "1", "true", "0" or "false"; white space around it is ignored. Truthy
// returns an error for any other value, such as another text, a number, or a list that is not empty; it does not
// contain the value.
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
