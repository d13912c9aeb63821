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

// findings collects the violations of a JSON Schema in one document, because the library reports them in random order
// and with repetitions. byPath and sentences return them sorted and without repetitions. Only one of the two may be
// called, and only once. The zero findings is empty and ready to use.
type findings struct {
	items []finding
}

// A finding is a violation of a JSON Schema by the value at one path in the document. The path consists of keys and
// the indexes of list items; it is empty for the whole document. The text is the rest of a sentence that begins with
// the name of the value: "must be an integer".
type finding struct {
	path []string
	text string
}

// add records a finding for the value at a path, whose elements are keys and the indexes of list items. text is the
// rest of a sentence that begins with the name of the value, such as "is required". If it is empty, add does nothing.
func (f *findings) add(path []string, text string) {
	if text != "" {
		f.items = append(f.items, finding{path: path, text: text})
	}
}

// collect records the errors in the result of a validation as findings. A missing property, or one that is not allowed,
// is recorded at its own path. An error about the name of a key is recorded at the path of the object that has the key,
// and names the key. Errors that only say that a schema below was violated are left out, because the library reports
// those violations as well. A result without errors adds no findings.
func (f *findings) collect(result *gojsonschema.Result) {
	var badKey string // the key that the last invalid_property_name error concerned
	var badKeyAt string
	for _, e := range result.Errors() {
		path := pathOf(e.Context())
		if e.Type() == "invalid_property_name" {
			badKey, badKeyAt = fmt.Sprint(e.Details()["property"]), e.Context().String(separator)
			continue // the violation by the key follows as the next error with the same context
		}
		key, isText := e.Value().(string)
		if isText && badKeyAt != "" && key == badKey && e.Context().String(separator) == badKeyAt {
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

// separator separates the elements of a path in the library's notation. No name contains it.
const separator = "\x00"

// pathOf returns the path of an error in the document, as keys and the indexes of list items: ["groups", "0", "name"].
// The library's root element is left out, so the result is empty for an error that concerns the whole document.
func pathOf(context *gojsonschema.JsonContext) []string {
	return strings.Split(context.String(separator), separator)[1:] // the first element is the root
}

// byPath returns the recorded findings sorted by path, with one finding for each path: the texts of several findings at
// one path are sorted and joined with "and", without repetitions. It returns nil if no finding was recorded. It may be
// called only once, because it changes the recorded findings.
func (f *findings) byPath() []finding {
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

// sentences returns one sentence for each path with findings, sorted by path, such as `parameter "size" must be an
// integer`. The function subject returns the name of the value at a path, with which the sentence begins. The texts of
// several findings at one path are joined with "and". sentences returns nil if no finding was recorded. It may be
// called only once, and not after byPath.
func (f *findings) sentences(subject func(path []string) string) []string {
	return value.Convert(f.byPath(), func(item finding) string { return subject(item.path) + " " + item.text })
}

// fieldOf returns a function that names the value at a path for an error message. The first element of the path is the
// name of an input; the function subject returns its name in the message, such as `parameter "disk"`. Further elements
// name a part of its value: the path ["disk", "size", "max"] becomes `field "size.max" of parameter "disk"`. The
// returned function panics if the path is empty.
func fieldOf(subject func(name string) string) func(path []string) string {
	return func(path []string) string {
		if len(path) == 1 {
			return subject(path[0])
		}
		return "field " + quote(strings.Join(path[1:], ".")) + " of " + subject(path[0])
	}
}

// phrases holds the texts for the library's error types. They state the requirement and never the value, which may be a
// secret. {min} is replaced by a detail of the library's error, and {min item} by that number with the noun. The text
// is empty if the library also reports the violations in the schemas below, which say enough.
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
	"unique":                          "must not contain the same item twice",
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

// detail matches a placeholder in phrases.
var detail = regexp.MustCompile(`\{(\w+) ?(\w*)\}`)

// phrase returns the text for an error of the library, such as "must be at least 3": the rest of a sentence that
// begins with the name of the value. The text does not contain the rejected value, which may be a secret. For a type
// of error that has no specific text, it is "is not valid". It is "" if the error only says that a schema below was
// violated, because the library reports those violations as well.
func phrase(e gojsonschema.ResultError) string {
	details := e.Details()
	if e.Type() == "invalid_type" {
		return "must be " + expectedType(details)
	}
	template, ok := phrases[e.Type()]
	if !ok {
		return "is not valid"
	}
	return detail.ReplaceAllStringFunc(template, func(token string) string {
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

// expectedType returns the expected types and the actual type of a value as part of a message: "an integer or null, not
// a string". details are those of an error of the library of the type invalid_type. If an integer was expected and the
// value is another number, the actual type is "a fraction".
func expectedType(details gojsonschema.ErrorDetails) string {
	expected := strings.Split(strings.Trim(fmt.Sprint(details["expected"]), "[]"), ",")
	actual := fmt.Sprint(details["given"])
	for i, name := range expected {
		if name == "integer" && actual == "number" {
			actual = "fraction"
		}
		expected[i] = article(name)
	}
	return strings.Join(expected, " or ") + ", not " + article(actual)
}

// article returns the name of a JSON type with its indefinite article, such as "an object" or "a string". It returns
// "null" without an article. A name that is not a JSON type gets the article "a".
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

// count returns a number and a noun for a message, such as "3 items" or "1 item": it adds an "s" to the noun unless the
// number is 1. number is a Go number or *big.Float and is formatted as by fmt.Sprint.
func count(number any, noun string) string {
	if text := fmt.Sprint(number); text != "1" {
		return text + " " + noun + "s"
	}
	return "1 " + noun
}

// decimal returns a number as the shortest decimal text without an exponent, such as "0.5" or "1000000". A number with
// more than 80 bits before the point is written with an exponent, because its text would be long. The number must not
// be nil.
func decimal(number *big.Float) string {
	if number.MantExp(nil) > 80 {
		return number.Text('g', -1)
	}
	return number.Text('f', -1)
}
