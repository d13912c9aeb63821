// Package redact masks secrets in texts that people read: log lines, error messages and recorded requests. It holds the only rule of the
// program about what a secret is; docs/operations.md tells it to operators.
//
// A text is masked where it shows one of three things:
//   - a value that is a secret: one that somebody says is one (Add), one whose name says so (a setting called password), or one that
//     looks generated (AddValues). Names, ids, addresses, paths and versions are none, and of a URL only its password is.
//   - a word that Keep was told of is none, whatever else says so: the definition's own words must stay readable.
//   - a password in a form that everybody writes it in, known or not: password=…, postgres://user:…@host, a private key (form.go).
package redact

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"service-adapter/internal/value"
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
	mutex  sync.Mutex
	parent *Secrets
	// pending are what was added and not looked at yet. That is put off until there is a message: mostly there is none, and the
	// inputs of a command may be large.
	pending []func() found
	found
	texts []string // the forms of all secrets, the longest first
	of    int      // how many secrets and words they were made of
}

// found is what is known of secrets.
type found struct{ secrets, kept []string }

// Under returns a set that also masks what the other one knows, by then.
func Under(parent *Secrets) *Secrets { return &Secrets{parent: parent} }

// Add adds every text and number of the values, each a secret as a whole; those that are too short are ignored.
func (s *Secrets) Add(values ...any) {
	s.put(func() found {
		walk := &walk{}
		for _, item := range values {
			walk.value("", item, declared)
		}
		return found{secrets: walk.secrets}
	})
}

// AddValues adds those of some values that are secrets: all of the named ones, and of the others what the rule says.
func (s *Secrets) AddValues(values map[string]any, named ...string) {
	s.Later(func() (map[string]any, []string) { return values, named })
}

// Later is AddValues for values that take time to find out. The function is called at most once, when there is a message.
func (s *Secrets) Later(find func() (values map[string]any, named []string)) {
	s.put(func() found {
		values, named := find()
		walk := &walk{}
		for name, item := range values {
			if slices.Contains(named, name) {
				walk.value(name, item, declared)
			} else {
				walk.value(name, item, said(name, unsaid))
			}
		}
		return found{secrets: walk.secrets}
	})
}

// Keep tells words that are no secrets, and no parts of them are. The function is called at most once, when there is a message.
func (s *Secrets) Keep(words func() []string) {
	s.put(func() found { return found{kept: words()} })
}

func (s *Secrets) put(find func() found) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.pending = append(s.pending, find)
}

// known is what this set and the one above it know.
func (s *Secrets) known() found {
	if s == nil {
		return found{}
	}
	s.mutex.Lock()
	pending := s.pending
	s.pending = nil
	s.mutex.Unlock()
	var more found
	for _, find := range pending { // which may add to this very set
		one := find()
		more.secrets, more.kept = append(more.secrets, one.secrets...), append(more.kept, one.kept...)
	}
	s.mutex.Lock()
	s.secrets, s.kept = append(s.secrets, more.secrets...), append(s.kept, more.kept...)
	own := s.found
	s.mutex.Unlock()
	above := s.parent.known()
	return found{secrets: slices.Concat(above.secrets, own.secrets), kept: slices.Concat(above.kept, own.kept)}
}

// Any tells whether there is a secret.
func (s *Secrets) Any() bool { return len(s.known().secrets) > 0 }

// Clean returns the text with every secret masked.
func (s *Secrets) Clean(text string) string {
	for _, secret := range s.allForms() {
		text = strings.ReplaceAll(text, secret, Mask)
	}
	return maskForms(text)
}

// allForms are the forms of all secrets, the longest first, so that a secret that contains another one is masked as a whole.
func (s *Secrets) allForms() []string {
	known := s.known()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if count := len(known.secrets) + len(known.kept); count != s.of {
		var texts []string
		for _, secret := range known.secrets {
			if !slices.ContainsFunc(known.kept, func(word string) bool { return strings.Contains(word, secret) }) {
				texts = append(texts, forms(secret)...)
			}
		}
		slices.SortFunc(texts, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
		})
		s.texts, s.of = slices.Compact(texts), count
	}
	return s.texts
}

// forms are the texts by which a secret is recognised: itself and its lines, and each as it looks in a URL, in a quoted text, and in a
// log line that quotes such a text once more.
func forms(secret string) []string {
	secret = strings.TrimSpace(secret)
	if len(secret) < shortestSecret {
		return nil
	}
	parts := []string{secret}
	if strings.Contains(secret, "\n") {
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) >= shortestLine && !strings.HasPrefix(line, "-----") {
				parts = append(parts, line)
			}
		}
	}
	var all []string
	for _, part := range parts {
		once := []string{part, url.QueryEscape(part), url.PathEscape(part), quoted(part), escaped(part), inside(string(value.MustJSON(part)))}
		for _, form := range once {
			all = append(all, form, quoted(form))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// quoted is a text inside Go's quotes.
func quoted(text string) string { return inside(strconv.Quote(text)) }

// escaped is a text inside JSON's quotes, with the escapes for HTML.
func escaped(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		return text
	}
	return inside(string(encoded))
}

// inside drops the quotes around a text.
func inside(text string) string { return text[1 : len(text)-1] }
