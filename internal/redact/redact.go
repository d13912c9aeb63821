// Package redact masks secrets in texts that people read: log lines and error messages.
package redact

import (
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
	mutex   sync.Mutex
	secrets []string // as they were added
	known   int      // how many of them are in texts
	texts   []string // all forms of secrets, the longest first
}

// Add adds secrets; those that are too short are ignored.
func (s *Secrets) Add(secrets ...string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.secrets = append(s.secrets, secrets...)
}

// learn makes the forms in which a message may show secrets. That is put off until there is a message: mostly there is none, and the
// inputs of a command, which count as secrets, may be large.
func (s *Secrets) learn() {
	if s.known == len(s.secrets) {
		return
	}
	for _, secret := range s.secrets[s.known:] {
		s.texts = append(s.texts, forms(secret)...)
	}
	s.known = len(s.secrets)
	// The longest first, so that a secret that contains another one is masked as a whole.
	slices.SortFunc(s.texts, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	s.texts = slices.Compact(s.texts)
}

// AddLeaves adds every string of a value.
func (s *Secrets) AddLeaves(item any) { s.Add(leaves(nil, item)...) }

func leaves(found []string, item any) []string {
	switch v := item.(type) {
	case string:
		return append(found, v)
	case int64, uint64, float64:
		return append(found, value.Text(v))
	case []any:
		for _, element := range v {
			found = leaves(found, element)
		}
	case map[string]any:
		for _, element := range v {
			found = leaves(found, element)
		}
	}
	return found
}

// Clean returns the text with every secret masked.
func (s *Secrets) Clean(text string) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.learn()
	for _, secret := range s.texts {
		text = strings.ReplaceAll(text, secret, Mask)
	}
	return text
}

// List returns the secrets as they were added.
func (s *Secrets) List() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.secrets)
}

// forms are the texts by which a secret is recognised: itself, its lines, the strings in it when it is a JSON document, and
// each as it looks in a URL, in a quoted text, and in a log line that quotes such a text once more.
func forms(secret string) []string {
	secret = strings.TrimSpace(secret)
	if len(secret) < shortestSecret {
		return nil
	}
	parts := []string{secret}
	if strings.Contains(secret, "\n") {
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) >= shortestLine {
				parts = append(parts, line)
			}
		}
	}
	if secret[0] == '{' || secret[0] == '[' {
		if document, err := value.DecodeJSON([]byte(secret)); err == nil {
			for _, leaf := range leaves(nil, document) {
				if len(leaf) >= shortestSecret {
					parts = append(parts, leaf)
				}
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
