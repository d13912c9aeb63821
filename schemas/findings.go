package schemas

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"

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

// sentences returns one sentence for each place, sorted by place; subject names a place.
func (f *findings) sentences(subject func(path []string) string) []string {
	slices.SortStableFunc(f.items, func(a, b finding) int {
		return cmp.Or(slices.Compare(a.path, b.path), cmp.Compare(a.text, b.text))
	})
	var sentences []string
	for i := 0; i < len(f.items); {
		here := f.items[i].path
		var texts []string
		for ; i < len(f.items) && slices.Equal(f.items[i].path, here); i++ {
			texts = append(texts, f.items[i].text)
		}
		sentences = append(sentences, subject(here)+" "+strings.Join(slices.Compact(texts), " and "))
	}
	return sentences
}

// parameterSubject names a place in the parameters of a request.
func parameterSubject(path []string) string {
	return placeOf(func(name string) string { return "parameter " + quote(name) })(path)
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

// phrase says what a value must be instead, never what it is: it may be a secret.
func phrase(e gojsonschema.ResultError) string {
	details := e.Details()
	switch e.Type() {
	case "required":
		return "is required"
	case "additional_property_not_allowed", "false":
		return "is not allowed"
	case "invalid_type":
		return "must be " + wanted(details)
	case "enum":
		return fmt.Sprintf("must be one of %v", details["allowed"])
	case "pattern":
		return fmt.Sprintf("must match the pattern %v", details["pattern"])
	case "format":
		return fmt.Sprintf("must have the format %v", details["format"])
	case "number_gte":
		return "must be at least " + decimal(details["min"])
	case "number_gt":
		return "must be greater than " + decimal(details["min"])
	case "number_lte":
		return "must be at most " + decimal(details["max"])
	case "number_lt":
		return "must be less than " + decimal(details["max"])
	case "multiple_of":
		return "must be a multiple of " + decimal(details["multiple"])
	default:
		return sizePhrase(e)
	}
}

func sizePhrase(e gojsonschema.ResultError) string {
	details := e.Details()
	switch e.Type() {
	case "string_gte":
		return "must have at least " + count(details["min"], "character")
	case "string_lte":
		return "must have at most " + count(details["max"], "character")
	case "array_min_items":
		return "must have at least " + count(details["min"], "item")
	case "array_max_items":
		return "must have at most " + count(details["max"], "item")
	case "array_no_additional_items":
		return "has too many items"
	case "unique":
		return "must not hold the same item twice"
	case "array_min_properties":
		return "must have at least " + count(details["min"], "key")
	case "array_max_properties":
		return "must have at most " + count(details["max"], "key")
	case "missing_dependency":
		return "also needs the key " + quote(fmt.Sprint(details["dependency"]))
	default:
		return combinationPhrase(e)
	}
}

// combinationPhrase speaks for schemas that are made of others. Where the library adds the faults that it found in these,
// nothing is left to say.
func combinationPhrase(e gojsonschema.ResultError) string {
	switch e.Type() {
	case "number_any_of":
		return "has none of the allowed forms"
	case "number_one_of":
		return "must have exactly one of the allowed forms"
	case "number_not":
		return "has a form that is not allowed"
	case "number_all_of", "condition_then", "condition_else":
		return ""
	default:
		return "is not valid"
	}
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
func decimal(limit any) string {
	number, ok := limit.(*big.Float)
	if !ok {
		return fmt.Sprint(limit)
	}
	if number.MantExp(nil) > 80 {
		return number.Text('g', -1)
	}
	return number.Text('f', -1)
}
