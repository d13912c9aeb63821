package vars

import (
	"regexp"
	"strings"
	"unicode"

	"service-adapter/internal/value"
)

// Reference matches a reference to a credential, with its parentheses, as the Director detects it in a text.
var Reference = regexp.MustCompile(`(?s)\(\(.*?\)\)`)

// ReferenceName returns the name in a reference to a BOSH variable, such as "db" for "((db))" and for "(( !db ))". The
// parameter reference includes the parentheses. A single blank after "((", a "!" after that, and a single blank before
// "))" are not part of the name. The parameter whole means that the reference is the complete value and not only a part
// of a text.
//
// If BOSH does not replace the reference, the name is "", and wrong is the reason, which completes a sentence that
// begins with the reference: the name is empty or contains characters other than letters, digits and - _ . /, or whole
// is false and the reference contains a blank. Otherwise wrong is "".
func ReferenceName(reference string, whole bool) (name, wrong string) {
	name = strings.TrimSuffix(strings.TrimPrefix(reference, "(("), "))")
	name = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, " "), "!"), " ")
	switch {
	case name == "" || strings.ContainsFunc(name, notInNames):
		return "", "is not a BOSH variable: a name may only contain letters, digits and the characters - _ . /"
	case !whole && strings.Contains(reference, " "):
		return "", "is only replaced when it is the whole value; write it without blanks"
	default:
		return name, ""
	}
}

// notInNames reports whether a character cannot be part of a variable's name for the BOSH library, which accepts
// Unicode letters, the digits 0 to 9, and the characters - _ . /.
func notInNames(char rune) bool {
	return !unicode.IsLetter(char) && (char < '0' || char > '9') && !strings.ContainsRune("-_./", char)
}

// Credential returns the name of the credential in the name of a reference, without parentheses, which may end with
// keys of the credential: "/ca" for "/ca.certificate". The keys begin with the first dot after the last slash, or
// with the first dot of a name without slashes; a dot before the last slash is part of the name. A name without keys
// is returned unchanged.
func Credential(name string) string {
	slash := strings.LastIndexByte(name, '/')
	if dot := strings.IndexByte(name[slash+1:], '.'); dot >= 0 {
		return name[:slash+1+dot]
	}
	return name
}

// Split returns the name of the credential and the keys in a reference, which includes the parentheses: "name" and
// "keys.sub" for ((name.keys.sub)). White space around the name and a leading "!" are dropped. The keys are "" if the
// reference has none. Split does not check the form, but panics if the text has fewer than four bytes.
func Split(reference string) (name, keys string) {
	text := strings.TrimPrefix(strings.TrimSpace(reference[2:len(reference)-2]), "!")
	name = Credential(text)
	return name, strings.TrimPrefix(text[len(name):], ".")
}

// HasReference reports whether any string or map key in v, a scalar, list or map, contains "((", the beginning of a
// BOSH reference. BOSH would replace a reference that a user wrote. A nil value has none. The text after "((" does not
// matter.
func HasReference(v any) bool {
	return !value.Walk(v, func(_ string, leaf any) bool {
		text, _ := leaf.(string)
		return !strings.Contains(text, "((")
	})
}
