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

// Cast converts the result of an expression to a JSON type: "string", "integer" (int64; the empty text is 0, a decimal
// part is dropped, "0x1f" and "017" are read as in Go), "number" (int64 when integral, else float64; the empty text is 0),
// "boolean", "object" and "array" (a text must be JSON), or "" for no conversion. A null and, for "object" and "array",
// the text "null" stay null. The error does not quote the value, which may be secret.
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

// decimal is a number with a point; the groups are its sign and its digits before the point.
var decimal = regexp.MustCompile(`^([-+]?)([0-9]*)\.[0-9]*$`)

func integer(text string) (any, error) {
	if text == "" {
		return int64(0), nil
	}
	if parts := decimal.FindStringSubmatch(text); parts != nil { // the decimal part is dropped
		text = parts[1] + cmp.Or(parts[2], "0")
	}
	i, err := strconv.ParseInt(text, 0, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return nil, errors.New("the integer is out of range")
	case err != nil:
		return nil, errors.New("the text is no integer")
	}
	return i, nil
}

func number(text string) (any, error) {
	if text == "" {
		return int64(0), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return nil, errors.New("the number is out of range")
	case err != nil, math.IsNaN(f), math.IsInf(f, 0):
		return nil, errors.New("the text is no number")
	}
	return value.Normalise(json.Number(text)), nil
}

// collection is a map or a list, or the value of a JSON text that is one; kind names it in the error.
func collection[T map[string]any | []any](v any, kind string) (any, error) {
	decoded, err := decodeText(v)
	if err != nil || decoded == nil {
		return nil, err
	}
	if found, ok := decoded.(T); ok {
		return found, nil
	}
	return nil, fmt.Errorf("expected %s, found %s", kind, value.Kind(decoded))
}

// decodeText returns the value of a JSON text, and every other value as it is.
func decodeText(v any) (any, error) {
	text, ok := v.(string)
	if !ok {
		return v, nil
	}
	result, err := value.DecodeJSON([]byte(text))
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("the text is no JSON from byte %d on", syntax.Offset)
	case err != nil:
		return nil, errors.New("the text is no JSON")
	}
	return result, value.CheckNumbers(result)
}

// Truthy tells whether the result of a condition holds. A null, "" and an empty list or map do not; a text must be one of
// those that mean true or false in Go ("1", "true", "0", "false", …).
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
