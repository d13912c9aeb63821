package manifestgen

import (
	"service-adapter/brokerpak"
	"service-adapter/internal/value"
)

// Durable shows durable to the tests.
func Durable(tree any) bool { return durable(tree, 0) }

// Encode returns the text of a tree as the emitter writes it, false when it gave up, and as the library does.
func Encode(tree map[string]any) (text string, ok bool, library string, err error) {
	text, ok = emit(tree)
	library, err = encodeAny(tree)
	return text, ok, library, err
}

// References returns the references in a text, and whether it is one of them as a whole.
func References(text string) (all []string, whole bool) {
	return allReferences(text), isReference(text)
}

// Mentions returns the paths and texts of a value that may hold references, one after the other.
func Mentions(tree any) []string {
	var found []string
	for _, m := range mentions(tree) {
		found = append(found, m.place(), m.text)
	}
	return found
}

// LabelText shows labelText to the tests.
func LabelText(text string) string { return labelText(text) }

// Interpolate returns the result of a template as it is made without the library, false when that gave up, and as the library
// makes it. The values are those of variables, and come from the pak or the request.
func Interpolate(text string, values map[string]any, fromRequest bool) (direct map[string]any, ok bool, library map[string]any, err error) {
	variables := documentVariables{values: map[string]any{}}
	for _, name := range value.Keys(values) {
		if err := checkReserved(name, values[name], fromRequest); err != nil {
			return nil, false, nil, err
		}
		variables.values[name] = masked(values[name], fromRequest)
	}
	document := brokerpak.Document{Text: text}
	parsed, diags := document.Tree()
	if err := diags.Err(); err != nil {
		return nil, false, nil, err
	}
	direct, ok = directly(text, parsed, variables)
	w := &generation{variables: variables}
	library, err = w.throughLibrary(document, nil, places{document})
	return direct, ok, library, err
}
