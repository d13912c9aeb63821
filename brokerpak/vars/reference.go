package vars

import (
	"regexp"
	"strings"
	"unicode"

	"service-adapter/internal/value"
)

// Reference is what the Director takes for a reference in a text, with its parentheses.
var Reference = regexp.MustCompile(`(?s)\(\(.*?\)\)`)

// ReferenceName is the name in a reference, which is the whole text or only a part of one. Wrong says why BOSH does not replace it, as the
// end of a sentence; "" for nothing.
func ReferenceName(reference string, whole bool) (name, wrong string) {
	name = strings.TrimSuffix(strings.TrimPrefix(reference, "(("), "))")
	name = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, " "), "!"), " ")
	switch {
	case name == "" || strings.ContainsFunc(name, notInNames):
		return "", "is no BOSH variable: a name holds letters, digits and the characters - _ . / only"
	case !whole && strings.Contains(reference, " "):
		return "", "is only replaced when it is the whole value; write it without blanks"
	default:
		return name, ""
	}
}

// notInNames tells what the BOSH library does not take for a part of a name.
func notInNames(char rune) bool {
	return !unicode.IsLetter(char) && (char < '0' || char > '9') && !strings.ContainsRune("-_./", char)
}

// Credential is the name of the credential that a reference names, which may be followed by a part of it: "/ca" of "/ca.certificate".
func Credential(name string) string {
	slash := strings.LastIndexByte(name, '/')
	if dot := strings.IndexByte(name[slash+1:], '.'); dot >= 0 {
		return name[:slash+1+dot]
	}
	return name
}

// Split takes a reference apart: the name of the credential, and the keys below it, as in ((name.keys)).
func Split(reference string) (name, keys string) {
	text := strings.TrimPrefix(strings.TrimSpace(reference[2:len(reference)-2]), "!")
	name = Credential(text)
	return name, strings.TrimPrefix(text[len(name):], ".")
}

// HasReference tells whether a value holds the beginning of a BOSH reference, "((", in any string or key. BOSH would resolve one that a
// user wrote.
func HasReference(v any) bool {
	return !value.Walk(v, func(_ string, leaf any) bool {
		text, _ := leaf.(string)
		return !strings.Contains(text, "((")
	})
}
