package pakdoc

import (
	"maps"

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
		{"exclusiveMinimum", "More than "},
		{"exclusiveMaximum", "Less than "},
		{"multipleOf", "A multiple of "},
		{"const", "Always "},
		{"pattern", "Must match "},
		{"propertyNames", "Keys must match "},
	} {
		if _, ok := rest[known.key]; ok {
			notes = append(notes, line{text(known.words), code(plain(take(known.key))), text(".")})
		}
	}
	samples, _ := take("examples").([]any)
	for _, key := range value.Keys(rest) {
		notes = append(notes, line{code(key), text(": "), code(literal(rest[key])), text(".")})
	}
	if len(samples) > 0 {
		note := line{text("For example "), code(literal(samples[0]))}
		for _, sample := range samples[1:] {
			note = append(note, text(", "), code(literal(sample)))
		}
		notes = append(notes, append(note, text(".")))
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
	words := func(limit any) span {
		switch {
		case unit == "":
			return text(".")
		case limit == int64(1):
			return text(" " + unit + ".")
		default:
			return text(" " + unit + "s.")
		}
	}
	switch {
	case least == nil && most == nil:
		return nil
	case most == nil:
		return []line{{text("At least "), code(literal(least)), words(least)}}
	case least == nil:
		return []line{{text("At most "), code(literal(most)), words(most)}}
	case unit != "" && literal(least) == literal(most):
		return []line{{text("Exactly "), code(literal(least)), words(least)}}
	default:
		return []line{{code(literal(least)), text(" to "), code(literal(most)), words(most)}}
	}
}
