package adapter

import (
	"errors"
	"fmt"
	"maps"

	"service-adapter/internal/fault"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// deepestBody is how deep a request body may be nested: far deeper than any parameter may be, and less than Go's decoder can
// read.
const deepestBody = 1000

// neutralBody is what the SDK gets of a request body: an empty object for one that is read here, with numbers of any size. What
// is no JSON object is left for the SDK to report, except when it is so deep that nothing could read it.
func neutralBody(text string) (string, error) {
	if nesting(text) > deepestBody {
		return text, fault.Userf("the parameters are nested more than %d levels deep", value.MaxDepth)
	}
	if body, err := value.DecodeObject([]byte(text)); err != nil || body == nil {
		return text, nil //nolint:nilerr // the SDK reports it
	}
	return "{}", nil
}

// nesting is how deep the lists and objects of a JSON text are in one another.
func nesting(text string) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++ // the next character is part of the string, whatever it is
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// checkSize refuses a request body that is larger than the configuration allows, and new parameters that are too large together with those
// which the instance has already: all of them go to OpenTofu, whose memory grows with them. A deletion is never refused.
func (s *session) checkSize(body string, known *record.Record, parameters map[string]any) error {
	if size := len(body); size > s.config.maxRequest() {
		return s.tooLarge("the parameters and the context of the request have %d bytes", size)
	}
	if known == nil || len(parameters) == 0 {
		return nil
	}
	all := map[string]any{}
	maps.Copy(all, known.Parameters)
	maps.Copy(all, parameters)
	if size := len(value.MustJSON(all)); size > s.config.maxRequest() {
		return s.tooLarge("the parameters have, together with those of earlier requests, %d bytes", size)
	}
	return nil
}

func (s *session) tooLarge(format string, size int) error {
	message := fmt.Sprintf(format, size) + fmt.Sprintf("; at most %d are allowed", s.config.maxRequest())
	return &fault.UserError{Message: message, Err: errors.New("max_request_kb of the configuration says so")}
}
