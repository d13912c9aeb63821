package pakdoc

import (
	"maps"
	"strings"

	"service-adapter/internal/value"
)

// constraints says in words what an input demands of its value.
func constraints(given map[string]any) []line {
	rest := maps.Clone(given)
	take := func(key string) any {
		found := rest[key]
		delete(rest, key)
		return found
	}
	// In draft-04 an exclusive limit is a flag beside the inclusive one.
	for exclusive, inclusive := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		if flag, ok := rest[exclusive].(bool); ok {
			delete(rest, exclusive)
			if limit, set := rest[inclusive]; flag && set {
				rest[exclusive] = limit
				delete(rest, inclusive)
			}
		}
	}
	var notes []line
	for _, limit := range []struct{ least, most, unit string }{
		{"minimum", "maximum", ""}, {"minLength", "maxLength", "character"}, {"minItems", "maxItems", "item"}, {"minProperties", "maxProperties", "key"},
	} {
		notes = append(notes, limits(take(limit.least), take(limit.most), limit.unit)...)
	}
	for _, known := range []struct{ key, words string }{
		{"exclusiveMinimum", "More than %s."},
		{"exclusiveMaximum", "Less than %s."},
		{"multipleOf", "A multiple of %s."},
		{"const", "Always %s."},
		{"pattern", "Must match %s."},
		{"propertyNames", "Keys must match %s."},
	} {
		if _, ok := rest[known.key]; ok {
			notes = append(notes, linef(known.words, plain(take(known.key))))
		}
	}
	samples, _ := take("examples").([]any)
	for _, key := range value.Keys(rest) {
		notes = append(notes, linef("%s: %s.", key, literal(rest[key])))
	}
	if len(samples) > 0 {
		notes = append(notes, linef("For example %s"+strings.Repeat(", %s", len(samples)-1)+".", value.Each(samples, literal)...))
	}
	return notes
}

// plain writes a text as it is: a pattern is no JSON.
func plain(v any) string {
	if words, ok := v.(string); ok {
		return words
	}
	return literal(v)
}

// limits words the limits of a number, or of how many units there may be; nil stands for none.
func limits(least, most any, unit string) []line {
	words := func(limit any) string {
		switch {
		case unit == "":
			return "."
		case limit == int64(1):
			return " " + unit + "."
		default:
			return " " + unit + "s."
		}
	}
	switch {
	case least == nil && most == nil:
		return nil
	case most == nil:
		return []line{linef("At least %s"+words(least), literal(least))}
	case least == nil:
		return []line{linef("At most %s"+words(most), literal(most))}
	case unit != "" && literal(least) == literal(most):
		return []line{linef("Exactly %s"+words(least), literal(least))}
	default:
		return []line{linef("%s to %s"+words(most), literal(least), literal(most))}
	}
}
