package vars

import (
	"regexp"
	"strings"

	"service-adapter/internal/value"
)

// Reference is what the Director takes for a reference in a text, with its parentheses.
var Reference = regexp.MustCompile(`(?s)\(\(.*?\)\)`)

// referenceForm is what the BOSH library replaces; the name is its group.
var referenceForm = regexp.MustCompile(`^\(\( ?!?([-/.\w\pL]+) ?\)\)$`)

// ReferenceName is the name in a reference, which is the whole text or only a part of one. Wrong says why BOSH does not replace it, as the
// end of a sentence; "" for nothing.
func ReferenceName(reference string, whole bool) (name, wrong string) {
	match := referenceForm.FindStringSubmatch(reference)
	switch {
	case match == nil:
		return "", "is no BOSH variable: a name holds letters, digits and the characters - _ . / only"
	case !whole && strings.Contains(reference, " "):
		return "", "is only replaced when it is the whole value; write it without blanks"
	default:
		return match[1], ""
	}
}

// Credential is the name of the credential that a reference names, which may be followed by a part of it: "/ca" of "/ca.certificate".
func Credential(name string) string {
	slash := strings.LastIndexByte(name, '/')
	if dot := strings.IndexByte(name[slash+1:], '.'); dot >= 0 {
		return name[:slash+1+dot]
	}
	return name
}

// HasReference tells whether a value holds the beginning of a BOSH reference, "((", in any string or key.
func HasReference(v any) bool {
	return !value.Walk(v, func(_ string, leaf any) bool {
		text, ok := leaf.(string)
		return !ok || !strings.Contains(text, reference)
	})
}
