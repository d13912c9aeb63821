package schemas

import (
	"regexp"

	"service-adapter/brokerpak"
)

// plainlyValid tells whether values certainly keep the constraints of their inputs, whose constraints are sound. The library would take
// longer to compile a schema of them. False says nothing. FuzzPlainlyValid holds it against the library.
func plainlyValid(inputs []brokerpak.Variable, values map[string]any) bool {
	for _, input := range inputs {
		r, ok := plainRule(input)
		if !ok {
			return false
		}
		one, given := values[input.Name]
		switch {
		case !given && input.Required:
			return false
		case !given:
		case len(input.Enum) > 0 && enumFault(input, one) != "", !encodable(one, 0), !r.accepts(one):
			return false
		}
	}
	return true
}

// plainRule is the rule of an input with a type and a few plain constraints; it is not ok with others, or when one is not as it should
// be.
func plainRule(input brokerpak.Variable) (r rule, ok bool) {
	if input.Type != "" {
		r.Types = []string{input.Type}
	}
	if input.Type != "" && input.Nullable {
		r.Types = append(r.Types, "null")
	}
	for keyword, constraint := range input.Constraints {
		number, isInt := constraint.(int64)
		pattern, isText := constraint.(string)
		const exact = 1 << 53 // up to which a float64 holds every integer
		switch {
		case keyword == "pattern" && isText:
			if _, err := regexp.Compile(pattern); err != nil {
				return r, false
			}
			r.Pattern = pattern
		case !isInt || number < -exact || number > exact:
			return r, false
		case keyword == "minimum":
			r.Limited, r.Minimum = true, number
		case keyword == "maximum":
			r.Capped, r.Maximum = true, number
		case keyword == "minLength" && number >= 0:
			r.MinLength = int(number)
		case keyword == "maxLength" && number > 0:
			r.MaxLength = int(number)
		default:
			return r, false
		}
	}
	return r, (!r.Limited || !r.Capped || r.Minimum <= r.Maximum) && (r.MaxLength == 0 || r.MinLength <= r.MaxLength)
}
