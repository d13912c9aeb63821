package pakdoc

import (
	"slices"

	"service-adapter/internal/value"
)

// constraints says in words what an input demands of its value.
func constraints(all map[string]any) []line {
	notes := slices.Concat(
		bounds(all),
		counted(all, "minLength", "maxLength", "character"),
		counted(all, "minItems", "maxItems", "item"),
		counted(all, "minProperties", "maxProperties", "key"),
	)
	worded := []struct{ key, words string }{
		{"multipleOf", "A multiple of "}, {"const", "Always "}, {"pattern", "Must match "}, {"propertyNames", "Keys must match "},
	}
	for _, known := range worded {
		if limit, ok := all[known.key]; ok {
			notes = append(notes, line{text(known.words), code(plain(limit)), text(".")})
		}
	}
	for _, key := range value.Keys(all) {
		switch key {
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems",
			"minProperties", "maxProperties", "multipleOf", "const", "pattern", "propertyNames", "examples":
		default:
			notes = append(notes, line{code(key), text(": "), code(literal(all[key])), text(".")})
		}
	}
	if samples, ok := all["examples"].([]any); ok && len(samples) > 0 {
		note := line{text("For example ")}
		for i, sample := range samples {
			if i > 0 {
				note = append(note, text(", "))
			}
			note = append(note, code(literal(sample)))
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

// bounds words the limits of a number. In draft-04 an exclusive limit is a flag beside the inclusive one.
func bounds(all map[string]any) []line {
	low, lowest := all["minimum"]
	high, highest := all["maximum"]
	above, isAbove := all["exclusiveMinimum"]
	below, isBelow := all["exclusiveMaximum"]
	if above == true && lowest {
		above, lowest = low, false
	}
	if below == true && highest {
		below, highest = high, false
	}
	var notes []line
	switch {
	case lowest && highest:
		notes = append(notes, line{code(literal(low)), text(" to "), code(literal(high)), text(".")})
	case lowest:
		notes = append(notes, line{text("At least "), code(literal(low)), text(".")})
	case highest:
		notes = append(notes, line{text("At most "), code(literal(high)), text(".")})
	}
	if _, flag := above.(bool); isAbove && !flag {
		notes = append(notes, line{text("More than "), code(literal(above)), text(".")})
	}
	if _, flag := below.(bool); isBelow && !flag {
		notes = append(notes, line{text("Less than "), code(literal(below)), text(".")})
	}
	return notes
}

// counted words the limits of a length.
func counted(all map[string]any, minimum, maximum, unit string) []line {
	low, lowest := all[minimum]
	high, highest := all[maximum]
	switch {
	case lowest && highest && literal(low) == literal(high):
		return []line{{text("Exactly "), code(literal(low)), text(" " + plural(unit, low) + ".")}}
	case lowest && highest:
		return []line{{code(literal(low)), text(" to "), code(literal(high)), text(" " + plural(unit, high) + ".")}}
	case lowest:
		return []line{{text("At least "), code(literal(low)), text(" " + plural(unit, low) + ".")}}
	case highest:
		return []line{{text("At most "), code(literal(high)), text(" " + plural(unit, high) + ".")}}
	default:
		return nil
	}
}

func plural(unit string, count any) string {
	if count == int64(1) {
		return unit
	}
	return unit + "s"
}
