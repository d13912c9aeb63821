// Package redact masks secrets in texts that people read: log lines, error messages and recorded requests. It holds the only rule of the
// program about what a secret is; docs/operations.md tells it to operators.
//
// A text is masked where it shows one of three things:
//   - a value that is a secret: one that a definition or the broker says is a secret (Add), one whose name says so (a setting called password), or one that
//     looks generated (AddValues). Names, ids, addresses, paths and versions are no secrets, and of a URL only its password is.
//   - a word that Keep was told of is no secret, whatever else says so: the definition's own words must stay readable.
//   - a password in a form that everybody writes it in, known or not: password=…, postgres://user:…@host, a private key (form.go).
package redact

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Mask is what stands in the place of a secret.
const Mask = "[redacted]"

// Lengths in bytes from which a secret, and a line of a secret of several lines, is masked. Masking shorter ones would make
// texts unreadable.
const (
	shortestSecret = 6
	shortestLine   = 12
)

// Secrets is a set of secrets. The zero value is empty and ready; it is safe for concurrent use.
type Secrets struct {
	parent  *Secrets
	mutex   sync.Mutex
	secrets []string
	words   []string // are no secrets
}

// Under returns a set that also masks what the other set knows when a text is masked.
func Under(parent *Secrets) *Secrets { return &Secrets{parent: parent} }

// Add adds every text and number of the values, each a secret as a whole; those that are too short are ignored.
func (s *Secrets) Add(values ...any) {
	walk := &walk{}
	for _, item := range values {
		walk.value("", item, declared)
	}
	s.add(walk.secrets)
}

// AddValues adds those of some values that are secrets: all of the named ones, and of the others what the rule says.
func (s *Secrets) AddValues(values map[string]any, named ...string) {
	walk := &walk{}
	for name, item := range values {
		if slices.Contains(named, name) {
			walk.value(name, item, declared)
		} else {
			walk.value(name, item, certaintyOf(name, unknown))
		}
	}
	s.add(walk.secrets)
}

func (s *Secrets) add(secrets []string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.secrets = append(s.secrets, secrets...)
}

// Keep tells words that are no secrets, and no parts of them are.
func (s *Secrets) Keep(words ...string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.words = append(s.words, words...)
}

// known is what this set and the one above it know.
func (s *Secrets) known() (secrets, words []string) {
	if s == nil {
		return nil, nil
	}
	secrets, words = s.parent.known()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append(secrets, s.secrets...), append(words, s.words...)
}

// Any tells whether there is a secret.
func (s *Secrets) Any() bool {
	secrets, _ := s.known()
	return len(secrets) > 0
}

// Clean returns the text with every secret masked, the longest first, so that a secret that contains another one is masked as a whole.
func (s *Secrets) Clean(text string) string {
	secrets, words := s.known()
	var all []shape
	for _, secret := range secrets {
		if !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, secret) }) {
			all = append(all, shapes(secret)...)
		}
	}
	slices.SortStableFunc(all, func(a, b shape) int { return len(b.text) - len(a.text) })
	for _, one := range all {
		text = one.mask(text)
	}
	return maskForms(text)
}

// shapes are the forms in which a secret is looked for: as a whole, its lines, and in base64.
func shapes(secret string) []shape {
	secret = strings.TrimSpace(secret)
	if len(secret) < shortestSecret {
		return nil
	}
	all := append(inBase64(secret), newShape(secret))
	if strings.Contains(secret, "\n") {
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) >= shortestLine && !strings.HasPrefix(line, "-----") {
				all = append(all, newShape(line))
			}
		}
	}
	return all
}

// secretKeys are the names before passwords in texts. A lone "secret" is not one of them: it comes before a secret's name as well.
const secretKeys = `(?i)([\w.-]*(?:passw(?:or)?d|passwd|pwd|passphrase|token|api_?key|access_?key|private_?key|[a-z0-9]_secret|client_?secret))`

// secretForms are how programs write secrets that no definition declares. The last group of each is masked.
var secretForms = sync.OnceValue(func() []*regexp.Regexp { //nolint:gochecknoglobals // a constant table, made when a text is masked
	return []*regexp.Regexp{
		// postgres://user:…@host
		regexp.MustCompile(`(://[^\s:/?#@"']*:)([^\s"'/?#]+)@`),
		// password=… in a connection string, a URL or a command line
		regexp.MustCompile(secretKeys + `=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s"'&;,)\]}\\]+)`),
		// "password": "…" in JSON, YAML or HCL, also within a text that is quoted itself
		regexp.MustCompile(secretKeys + `"?\s*(?:=>|[:=])\s*"((?:[^"\\]|\\.)*)"`),
		regexp.MustCompile(secretKeys + `(?:\\+")?\s*(?:=>|[:=])\s*\\+"(.*?)\\+"`),
		regexp.MustCompile(secretKeys + `'?\s*(?:=>|[:=])\s*'((?:[^'\\]|\\.|'')*)'`),
		// password: … as a line of YAML
		regexp.MustCompile(`(?m)^[ \t]*(?:- )?` + secretKeys + `:[ \t]+(\S+)[ \t]*$`),
		// CREATE ROLE … PASSWORD '…', CREATE USER … IDENTIFIED BY '…'
		regexp.MustCompile(`(?i)(\bPASSWORD|\bIDENTIFIED BY)\s+E?('(?:[^'\\]|''|\\.)*')`),
		regexp.MustCompile(`(?i)(\bAuthorization\\*"?:\s*\\*"?(?:Basic|Bearer|Token))\s+([^\s"'\\]+)`),
		// a token that is readable as one: of OAuth, of GitHub and GitLab
		regexp.MustCompile(`()\b(eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)`),
		regexp.MustCompile(`()\b(gh[pousr]_\w{30,}|github_pat_\w{30,}|glpat-[\w-]{20,})`),
		regexp.MustCompile(`(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----)(.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`),
	}
})

// maskForms masks what is a secret by how it is written.
func maskForms(text string) string {
	for _, form := range secretForms() {
		text = maskForm(form, text)
	}
	return text
}

// maskForm masks the last group of every match.
func maskForm(form *regexp.Regexp, text string) string {
	var out strings.Builder
	end := 0
	for _, match := range form.FindAllStringSubmatchIndex(text, -1) {
		from, to := match[len(match)-2], match[len(match)-1]
		if notSecret.MatchString(strings.Trim(text[from:to], `'"\`)) {
			continue
		}
		out.WriteString(text[end:from] + Mask)
		end = to
	}
	return out.String() + text[end:]
}
