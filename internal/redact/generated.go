package redact

import (
	"net"
	"regexp"
	"strings"
	"unicode"
)

var (
	// guid matches an id, also as a part of a name. ids matches digests, which are published to verify content, and the
	// names that infrastructures assign, such as i-0123456789abcdef0.
	guid = regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	ids  = regexp.MustCompile(`(?i)\bsha(1|256|384|512):[0-9a-f]+|\b[a-z]{1,12}-[0-9a-f]{8,17}\b`)
	// hostOrVersion matches a domain name with or without a port, and a version.
	hostOrVersion = regexp.MustCompile(
		`^([a-z0-9_]([a-z0-9_-]*[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?\.?(:[0-9]+)?$|` +
			`^(?i:v?[0-9]+(\.[0-9]+)+([-+].*)?)$`)
	// publicKeys matches certificates and other public data in PEM, and public SSH keys.
	publicKeys = regexp.MustCompile(`(?s)-----BEGIN ` +
		`(CERTIFICATE|[A-Z ]*PUBLIC KEY|CERTIFICATE REQUEST|X509 CRL|[A-Z0-9 ]*PARAMETERS)-----` +
		`.*?-----END [A-Z0-9 ]+-----|\b(ssh-[a-z0-9]+|ecdsa-[a-z0-9-]+|sk-[a-z0-9@.-]+) [A-Za-z0-9+/=]+`)
)

// generatedIn returns the words of a text, separated by white space, that look like generated secrets. It first removes
// certificates, public keys and other public data in PEM, and public SSH keys. If the rest contains a private key in
// PEM, the only result is the whole rest.
//
// Of a word that is a URL, only the part after the first slash behind the host is considered: the names in its path,
// and the keys and values in its query and fragment, each on its own. A URL without that slash yields nothing, even if
// it has a query. The result is nil if no word looks like a secret.
func generatedIn(text string) []string {
	text = publicKeys.ReplaceAllString(text, "")
	if strings.Contains(text, "PRIVATE KEY-----") {
		return []string{text}
	}
	var all []string
	for word := range strings.FieldsSeq(text) {
		parts := []string{word}
		if _, rest, isURL := strings.Cut(word, "://"); isURL {
			_, rest, _ = strings.Cut(rest, "/")
			parts = strings.FieldsFunc(rest, func(char rune) bool { return strings.ContainsRune("/?&=#;", char) })
		}
		for _, part := range parts {
			if generated(part) {
				all = append(all, part)
			}
		}
	}
	return all
}

// generated reports whether a text looks like a generated secret, such as "x7Kp2mQ9vL4tRs8w": it has at least 16
// bytes, and changes between lower case, upper case, digits and special characters more often than a name of its
// length would; see irregular for the exact rule. The same must be true after GUIDs, digests and ids of
// infrastructures in the text are replaced by hyphens. generated returns false for an IP address, a host name in
// lower case with or without a port, a version, and an absolute path with at least two elements whose first directory
// does not itself look generated.
func generated(text string) bool {
	if !irregular(text) || net.ParseIP(text) != nil || hostOrVersion.MatchString(text) {
		return false
	}
	if names := strings.Split(text, "/"); len(names) > 2 && names[0] == "" && !generated(names[1]) {
		return false // an absolute path
	}
	return irregular(ids.ReplaceAllString(guid.ReplaceAllString(text, "-"), "-"))
}

// Patterns over the shapes that shapeOf returns.
var (
	// numbered matches the number at the end of a part of a name.
	numbered = regexp.MustCompile(`([aA!])0+(-|$)`)
	// words matches one word or number, such as foo, Foo, fooBar, FOO or 12.
	words = regexp.MustCompile(`!*(?:(?:Aa{2,}|a{3,}|A{3,})+|A?a+|A+|0+)`)
)

// irregular reports whether a text has at least 16 bytes and consists of more words and numbers than a name of its
// length would. It divides the text into parts at hyphens, dots and other separators, and counts the words and
// numbers in each part, except the first one of the part and a number that ends it, as in web12. Words of at least
// three letters in camel case, such as fooBarBaz, count as one word; shorter ones, as in aBcDe, count one each. The
// total must be at least one for every seven bytes, and at least three for a text of one part and four for a text of
// several, because the latter is more likely to be a name.
func irregular(text string) bool {
	const shortestGenerated, share = 16, 7
	shape := strings.Map(shapeOf, text)
	parts := strings.Split(numbered.ReplaceAllString(shape, "$1$2"), "-")
	few, count := 3, 0
	if len(parts) > 1 {
		few = 4
	}
	for _, part := range parts {
		count += max(1, len(words.FindAllString(part, -1))) - 1
	}
	return len(text) >= shortestGenerated && count >= max(few, len(text)/share)
}

// shapeOf maps a character to its class: 'A' for upper case, 'a' for all other letters, '0' for digits, '-' for the
// separators - _ . / : @ and comma between the parts of names, and '!' for all others.
func shapeOf(char rune) rune {
	switch {
	case unicode.IsUpper(char):
		return 'A'
	case unicode.IsDigit(char):
		return '0'
	case unicode.IsLetter(char):
		return 'a'
	case strings.ContainsRune("-_./:@,", char):
		return '-'
	default:
		return '!'
	}
}
