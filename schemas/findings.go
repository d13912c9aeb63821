package schemas

import (
	"cmp"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"service-adapter/internal/value"

	"github.com/xeipuuv/gojsonschema"
)

// findings collects what is wrong with a document, by place. The library reports in random order and repeats itself.
type findings struct {
	items []finding
}

// finding says what is wrong at a place, as the rest of a sentence that begins with the place: "must be an integer".
type finding struct {
	path []string
	text string
}

// add records a finding; an empty text is none.
func (f *findings) add(path []string, text string) {
	if text != "" {
		f.items = append(f.items, finding{path: path, text: text})
	}
}

// collect takes over the errors of a validation.
func (f *findings) collect(result *gojsonschema.Result) {
	var badKey string // the key that the last invalid_property_name was about
	var badKeyAt string
	for _, e := range result.Errors() {
		path := pathOf(e.Context())
		if e.Type() == "invalid_property_name" {
			badKey, badKeyAt = fmt.Sprint(e.Details()["property"]), e.Context().String(separator)
			continue // what is wrong with the key follows, at the same place
		}
		if key, ok := e.Value().(string); ok && badKeyAt != "" && key == badKey && e.Context().String(separator) == badKeyAt {
			if text := phrase(e); text != "" {
				f.add(path, "has the key "+quote(key)+", which "+text)
			}
			continue
		}
		switch e.Type() {
		case "required", "additional_property_not_allowed":
			path = append(path, fmt.Sprint(e.Details()["property"]))
		}
		f.add(path, phrase(e))
	}
}

// separator parts the elements of a path in the library's notation; no name holds it.
const separator = "\x00"

func pathOf(context *gojsonschema.JsonContext) []string {
	return strings.Split(context.String(separator), separator)[1:] // the first element is the root
}

// byPlace returns one finding for each place, sorted by place.
func (f *findings) byPlace() []finding {
	compare := func(a, b finding) int { return cmp.Or(slices.Compare(a.path, b.path), cmp.Compare(a.text, b.text)) }
	slices.SortFunc(f.items, compare)
	var all []finding
	for _, item := range slices.CompactFunc(f.items, func(a, b finding) bool { return compare(a, b) == 0 }) {
		if last := len(all) - 1; last >= 0 && slices.Equal(all[last].path, item.path) {
			all[last].text += " and " + item.text
		} else {
			all = append(all, item)
		}
	}
	return all
}

// sentences returns one sentence for each place, sorted by place; subject names a place.
func (f *findings) sentences(subject func(path []string) string) []string {
	return value.Each(f.byPlace(), func(found finding) string { return subject(found.path) + " " + found.text })
}

// placeOf names a place in a value that subject names.
func placeOf(subject func(name string) string) func(path []string) string {
	return func(path []string) string {
		if len(path) == 1 {
			return subject(path[0])
		}
		return "field " + quote(strings.Join(path[1:], ".")) + " of " + subject(path[0])
	}
}

// phrases say what a value must be instead, never what it is: it may be a secret. {min} stands for a detail of the library's error,
// {min item} for that many items. Where the library adds the faults that it found in the schemas below one, nothing is left to say.
var phrases = map[string]string{ //nolint:gochecknoglobals // a constant table
	"required":                        "is required",
	"additional_property_not_allowed": "is not allowed",
	"false":                           "is not allowed",
	"enum":                            "must be one of {allowed}",
	"pattern":                         "must match the pattern {pattern}",
	"format":                          "must have the format {format}",
	"number_gte":                      "must be at least {min}",
	"number_gt":                       "must be greater than {min}",
	"number_lte":                      "must be at most {max}",
	"number_lt":                       "must be less than {max}",
	"multiple_of":                     "must be a multiple of {multiple}",
	"string_gte":                      "must have at least {min character}",
	"string_lte":                      "must have at most {max character}",
	"array_min_items":                 "must have at least {min item}",
	"array_max_items":                 "must have at most {max item}",
	"array_no_additional_items":       "has too many items",
	"unique":                          "must not hold the same item twice",
	"array_min_properties":            "must have at least {min key}",
	"array_max_properties":            "must have at most {max key}",
	"missing_dependency":              "also needs the key {dependency}",
	"number_any_of":                   "has none of the allowed forms",
	"number_one_of":                   "must have exactly one of the allowed forms",
	"number_not":                      "has a form that is not allowed",
	"number_all_of":                   "",
	"condition_then":                  "",
	"condition_else":                  "",
}

var detail = regexp.MustCompile(`\{(\w+) ?(\w*)\}`)

func phrase(e gojsonschema.ResultError) string {
	details := e.Details()
	if e.Type() == "invalid_type" {
		return "must be " + wanted(details)
	}
	words, known := phrases[e.Type()]
	if !known {
		return "is not valid"
	}
	return detail.ReplaceAllStringFunc(words, func(token string) string {
		parts := detail.FindStringSubmatch(token)
		name, noun := parts[1], parts[2]
		switch number, isNumber := details[name].(*big.Float); {
		case noun != "":
			return count(details[name], noun)
		case isNumber:
			return decimal(number)
		case name == "dependency":
			return quote(fmt.Sprint(details[name]))
		default:
			return fmt.Sprint(details[name])
		}
	})
}

// wanted turns "[integer,null]" into "an integer or null", with what was given.
func wanted(details gojsonschema.ErrorDetails) string {
	expected := strings.Split(strings.Trim(fmt.Sprint(details["expected"]), "[]"), ",")
	given := fmt.Sprint(details["given"])
	for i, name := range expected {
		if name == "integer" && given == "number" {
			given = "fraction"
		}
		expected[i] = article(name)
	}
	return strings.Join(expected, " or ") + ", not " + article(given)
}

func article(typeName string) string {
	switch typeName {
	case "null":
		return typeName
	case "integer", "array", "object":
		return "an " + typeName
	default:
		return "a " + typeName
	}
}

func count(number any, noun string) string {
	if text := fmt.Sprint(number); text != "1" {
		return text + " " + noun + "s"
	}
	return "1 " + noun
}

// decimal shows a limit without an exponent, unless it is very large.
func decimal(number *big.Float) string {
	if number.MantExp(nil) > 80 {
		return number.Text('g', -1)
	}
	return number.Text('f', -1)
}
