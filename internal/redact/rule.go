package redact

import (
	"net"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"service-adapter/internal/value"
)

// The patterns of the rule.
var (
	// In the names of what is a secret: password, secret_key, but also conn_str of the backend pg, http_auth and access_token of
	// consul, sas_token of azurerm, credentials of gcs.
	secretWords = regexp.MustCompile(`(?i)passw|pwd|passphrase|secret|token|credential|conn_?str|connection_?string|http_?auth|sas_|` +
		`(access|account|api|auth|client|customer|encryption|license|master|private|shared|signing|storage)[_-]?key`)
	// In the names of what is only about a secret, and so no secret itself: token_url, secret_name, use_password.
	plainWords = regexp.MustCompile(`(?i)^(skip|use|enable|require|allow|has|is)_|` +
		`(^|[_-])(name|names|user|username|email|host|hosts|hostname|port|path|paths|file|files|url|urls|uri|` +
		`endpoint|version|type|length|count|size|ttl|policy|region|bucket|enabled|required)$`)
	// In the names of ids, which may look generated.
	idWords = regexp.MustCompile(`(?i)(^|[_-])(id|ids|guid|uuid|arn)$`)
	// An id, also as a part of a name; digests, which tell what something must be; and the names that infrastructures give.
	guid = regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	ids  = regexp.MustCompile(`(?i)\bsha(1|256|384|512):[0-9a-f]+|\b[a-z]{1,12}-[0-9a-f]{8,17}\b`)
	// A domain name, with or without a port.
	hostName = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]*[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?\.?(:[0-9]+)?$`)
	version  = regexp.MustCompile(`(?i)^v?[0-9]+(\.[0-9]+)+([-+].*)?$`)
	// Certificates and the like in PEM, and the public keys of SSH.
	publicKeys = regexp.MustCompile(`(?s)-----BEGIN (CERTIFICATE|[A-Z ]*PUBLIC KEY|CERTIFICATE REQUEST|X509 CRL|[A-Z0-9 ]*PARAMETERS)-----` +
		`.*?-----END [A-Z0-9 ]+-----|\b(ssh-[a-z0-9]+|ecdsa-[a-z0-9-]+|sk-[a-z0-9@.-]+) [A-Za-z0-9+/=]+`)
	// PostgreSQL's other form of a connection string, host=… password='…', and a URL, which need not be a valid one.
	keywords = regexp.MustCompile(`(?i)\bpassword\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&;]+)`)
	address  = regexp.MustCompile(`://[^:/?#]*:(.+)@`)
	// What may stand in the place of a secret: a reference, an expression, a mask.
	notSecret = regexp.MustCompile(`^(\(\(.*|\(sensitive.*|\(known.*|\[redacted\]|<[\w -]+>|\$\{.*|\$\(.*|\$[A-Z_]+|\*+|%[a-z]|` +
		`(var|local|data|each|self|random_\w+)\..*|null|nil|true|false|)$`)
)

// certainty is how much is known of a value before anybody has looked at it.
type certainty int

const (
	unknown  certainty = iota // nothing: it is a secret if it looks generated
	plain                     // it is an id, however it looks
	named                     // its name, or that of what it is in, says that it is one
	declared                  // a definition declares it a secret
)

// certaintyOf is what a name says, or what it is in where it says nothing.
func certaintyOf(name string, around certainty) certainty {
	switch {
	case around == declared || name == "":
		return around
	case idWords.MatchString(name):
		return plain
	case plainWords.MatchString(name):
		return unknown
	case secretWords.MatchString(name):
		return named
	case around == plain:
		return unknown
	default:
		return around
	}
}

// walk collects the secrets in values.
type walk struct{ secrets []string }

func (w *walk) value(name string, item any, is certainty) {
	switch v := item.(type) {
	case string:
		w.text(name, v, is)
	case int64, uint64, float64:
		if is >= named {
			w.secrets = append(w.secrets, value.Text(v))
		}
	case []any:
		for _, element := range v {
			w.value(name, element, is)
		}
	case map[string]any:
		for key, element := range v {
			w.value(key, element, certaintyOf(key, is))
		}
	}
}

// text collects the secrets in a text. A reference to a secret is not masked.
func (w *walk) text(name, text string, is certainty) {
	text = strings.TrimSpace(text)
	if text == "" || strings.HasPrefix(text, "((") && strings.HasSuffix(text, "))") {
		return
	}
	if is >= named {
		w.secrets = append(w.secrets, text)
	}
	if text[0] == '{' || text[0] == '[' {
		if document, err := value.DecodeJSON([]byte(text)); err == nil {
			// Of a credential in several parts some are no secrets: its user, its host.
			w.value(name, document, min(is, named))
			return
		}
	}
	w.secrets = append(w.secrets, passwords(text)...)
	if is != unknown {
		return
	}
	text = publicKeys.ReplaceAllString(text, "")
	if strings.Contains(text, "PRIVATE KEY-----") {
		w.secrets = append(w.secrets, text)
		return
	}
	for word := range strings.FieldsSeq(text) {
		w.secrets = append(w.secrets, generatedParts(word)...)
	}
}

// passwords are the passwords in a URL or in a connection string of keywords.
func passwords(text string) []string {
	var all []string
	for _, match := range keywords.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.NewReplacer(`\'`, `'`, `\\`, `\`).Replace(strings.Trim(match[1], "'")))
	}
	for _, match := range address.FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
		if decoded, err := url.PathUnescape(match[1]); err == nil && decoded != match[1] {
			all = append(all, decoded)
		}
	}
	if parsed, err := url.Parse(text); err == nil && parsed.Scheme != "" {
		for name, values := range parsed.Query() {
			if certaintyOf(name, unknown) == named {
				all = append(all, values...)
			}
		}
	}
	return all
}

// generatedParts are the secrets in a word of a value: the word, or of a URL what looks generated in its path and query.
func generatedParts(word string) []string {
	_, rest, isURL := strings.Cut(word, "://")
	if !isURL {
		if generated(word) {
			return []string{word}
		}
		return nil
	}
	var all []string
	_, rest, _ = strings.Cut(rest, "/")
	for _, part := range strings.FieldsFunc(rest, func(char rune) bool { return strings.ContainsRune("/?&=#;", char) }) {
		if generated(part) {
			all = append(all, part)
		}
	}
	return all
}

// shortestGenerated is the length in bytes from which a text may be a generated secret.
const shortestGenerated = 16

// generated tells whether a text looks like a generated secret: it is long and changes irregularly between lower case, upper case,
// digits and signs, as names, ids, addresses and paths do not.
func generated(text string) bool {
	if !irregular(text) || net.ParseIP(text) != nil || hostName.MatchString(text) || version.MatchString(text) || isPath(text) {
		return false
	}
	return irregular(ids.ReplaceAllString(guid.ReplaceAllString(text, "-"), "-"))
}

// irregular tells whether a text changes more often than names do. One without parts is less likely a name.
func irregular(text string) bool {
	const share = 7
	few := 4
	if !strings.ContainsAny(text, separators) {
		few = 3
	}
	return len(text) >= shortestGenerated && irregularities(text) >= max(few, len(text)/share)
}

// isPath tells whether a text is an absolute path of at least two names, none of which looks generated by itself.
func isPath(text string) bool {
	names := strings.Split(text, "/")
	return len(names) > 2 && names[0] == "" && !generated(names[1])
}

// irregularities counts the places in a text where no new word or number begins, although the kind of character changes: fooBar, foo12
// and foo-bar have none, f7oQ2 has four.
func irregularities(text string) int {
	runes := []rune(text)
	count := 0
	run := 1 // how many characters of the same kind end here; a capital counts to the word that it begins
	for i := 1; i < len(runes); i++ {
		before, now := kindOf(runes[i-1]), kindOf(runes[i])
		switch {
		case before == now:
			run++
			continue
		case before == upper && now == lower:
			if run == 2 { // MYid: neither a word nor an abbreviation before one
				count++
			}
			run = 2
			continue
		case before == lower && now == upper:
			if run < 3 { // a word of one or two letters
				count++
			}
		case now == digit:
			if before < separator && !endsInDigits(runes[i:]) {
				count++
			}
		case before == digit && now < separator:
			count++
		case now == sign && before < separator && i+1 < len(runes):
			count++
		}
		run = 1
	}
	return count
}

// endsInDigits tells whether a name ends with the digits that begin here: node01, but not n0de.
func endsInDigits(rest []rune) bool {
	for _, char := range rest {
		if kind := kindOf(char); kind != digit {
			return kind == separator
		}
	}
	return true
}

// separators stand between the parts of names.
const separators = "-_./:@,"

// kind is what a character is. Signs are all that are nothing else.
type kind int

const (
	lower kind = iota
	upper
	digit
	separator
	sign
)

func kindOf(char rune) kind {
	switch {
	case unicode.IsUpper(char):
		return upper
	case unicode.IsDigit(char):
		return digit
	case unicode.IsLetter(char):
		return lower
	case strings.ContainsRune(separators, char):
		return separator
	default:
		return sign
	}
}
