package manifestgen

import "service-adapter/brokerpak/instance"

// References returns the references in a text, and whether it is one of them as a whole.
func References(text string) (all []string, whole bool) {
	return allReferences(text), instance.IsReference(text)
}

// Mentions returns the paths of the references in a value and the references, one after the other.
func Mentions(tree any) []string {
	var found []string
	for _, m := range mentions(tree) {
		found = append(found, m.path, m.reference)
	}
	return found
}

// LabelText shows labelText to the tests.
func LabelText(text string) string { return labelText(text) }
