package manifestgen

import "service-adapter/brokerpak/instance"

// References returns the references in a text, and whether it is one of them as a whole.
func References(text string) (all []string, whole bool) {
	return allReferences(text), instance.IsReference(text)
}

// Mentions returns the paths and texts of a value that may hold references, one after the other.
func Mentions(tree any) []string {
	var found []string
	for _, m := range mentions(tree) {
		found = append(found, m.path, m.text)
	}
	return found
}

// LabelText shows labelText to the tests.
func LabelText(text string) string { return labelText(text) }
