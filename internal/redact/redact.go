// Package redact masks secrets in texts that people read: log lines, error messages, audit lines and recorded requests.
// It contains the program's only rules about which values are secrets; docs/operations/what-is-secret.md explains them
// to operators.
//
// Secrets.Document masks a decoded JSON or YAML document by the names of its keys. Secrets.Clean and Secrets.Mask mask
// any other text. In such a text, two kinds of values are secrets:
//   - The values of the set, both verbatim and in the forms in which programs write them: escaped for JSON, a URL or a
//     shell, or as part of base64. The set contains the values that a definition or the broker declares secret (Add),
//     and the values whose key denotes a secret or which look generated (AddValues). Words registered with NeverMask
//     are never masked, because the words that a definition uses must stay readable.
//   - The values that the text itself labels as secret: password=…, postgres://user:…@host, a private key
//     (labelled.go).
//
// Masking is a safety net and its duration is bounded: a text that cannot be masked in time is withheld entirely.
package redact

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// Mask is the text that replaces a secret.
	Mask = "[redacted]"
	// Withheld is the text that Clean returns instead of a text that could not be masked in time.
	Withheld = "[withheld: masking its secrets took too long]"
	// Limit is the time that Clean may take for one text.
	Limit = time.Second
)

// Secrets is a set of secrets. Its zero value is an empty set that is ready to use. A nil *Secrets is an empty set for
// the methods that mask. All methods are safe for concurrent use.
type Secrets struct {
	parent  *Secrets
	mutex   sync.Mutex
	secrets []string
	words   []string // never masked
	cache   index    // the patterns of the first size secrets and words of this set and its parents
	size    int      // the number of secrets and words from which cache was computed
}

// NewChild returns an empty set below a parent. The set masks its own secrets and all that the parent contains at the
// time of masking. Secrets added to it are not added to the parent. The parent may be nil.
func NewChild(parent *Secrets) *Secrets { return &Secrets{parent: parent} }

// Add adds every text and number within the values to the set; each one is a secret as a whole. Booleans, null, keys of
// maps and "((references))" are not added. A text that is itself a JSON object or array is added as a whole, and so are
// its parts, except for those whose key denotes an id or a harmless value such as a user or a host. Secrets shorter
// than 6 bytes are masked only where a text labels them as secret, because masking them everywhere would make messages
// unreadable. The set must not be nil.
func (s *Secrets) Add(values ...any) {
	for _, item := range values {
		s.add(secretsIn(item, declared), nil)
	}
}

// AddValues adds the secrets among some values, which are given by name. It adds all texts and numbers of the values
// listed in named, as Add does; names that are not in values have no effect. Of the other values it adds the parts
// whose name or key denotes a secret, passwords in URLs, the parts that a text itself labels as secret, and the texts
// that look like a generated secret, unless their key is that of an id. The set must not be nil.
func (s *Secrets) AddValues(values map[string]any, named ...string) {
	for name, item := range values {
		level := certaintyOf(name, unknown, maskedWords)
		if slices.Contains(named, name) {
			level = declared
		}
		s.add(secretsIn(item, level), nil)
	}
}

// NeverMask registers words that are never masked, not even in part. A secret of the set that is equal to or contained
// in one of the words is therefore not masked anywhere. A word that a text itself labels as secret, such as the one in
// password=WORD, is masked all the same. The set must not be nil.
func (s *Secrets) NeverMask(words ...string) { s.add(nil, words) }

// add appends to the secrets of the set and to the words that are never masked. Both may be nil.
func (s *Secrets) add(secrets, words []string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.secrets, s.words = append(s.secrets, secrets...), append(s.words, words...)
}

// all returns the secrets and the never-masked words of this set and its parents. The words always include Mask, so
// that masking a text twice does not change it. A nil set has no secrets and no other words.
func (s *Secrets) all() (secrets, words []string) {
	if s == nil {
		return nil, []string{Mask}
	}
	secrets, words = s.parent.all()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append(secrets, s.secrets...), append(words, s.words...)
}

// Any reports whether this set or one of its parents contains a secret, even one that is too short to be masked. It
// returns false for a nil set.
func (s *Secrets) Any() bool {
	secrets, _ := s.all()
	return len(secrets) > 0
}

// Clean returns the text with every secret replaced by Mask. It returns Withheld if that takes longer than Limit.
func (s *Secrets) Clean(text string) string {
	end := time.Now().Add(Limit)
	if masked, ok := s.mask(text, func() bool { return time.Now().After(end) }); ok {
		return masked
	}
	return Withheld
}

// A maskedError wraps an error and replaces its text by one in which secrets are masked.
type maskedError struct {
	error

	text string
}

// Error returns the masked text.
func (e *maskedError) Error() string { return e.text }

// Unwrap returns the original error, whose own text is not masked.
func (e *maskedError) Unwrap() error { return e.error }

// CleanError returns an error that wraps err and whose text is that of err as Clean returns it. It returns nil if err
// is nil. The texts of the errors that it wraps are not masked.
func (s *Secrets) CleanError(err error) error {
	if err == nil {
		return nil
	}
	return &maskedError{error: err, text: s.Clean(err.Error())}
}

// Mask returns the text with every secret replaced by the constant Mask. If the context ends first, it returns no text
// and an error that wraps the context's.
func (s *Secrets) Mask(ctx context.Context, text string) (string, error) {
	masked, ok := s.mask(text, func() bool { return ctx.Err() != nil })
	if !ok {
		return "", fmt.Errorf("masking secrets: %w", ctx.Err())
	}
	return masked, nil
}

// mask returns the text with every secret masked. It stops and returns false as soon as expired reports true. Spans
// that overlap are masked as one.
func (s *Secrets) mask(text string, expired func() bool) (string, bool) {
	spans := labelled(text, s.index(expired).find(text, expired), expired)
	if expired() {
		return "", false
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	var out strings.Builder
	end := 0
	for _, secret := range spans {
		if secret.from >= end {
			out.WriteString(text[end:secret.from] + Mask)
		}
		end = max(end, secret.to)
	}
	return out.String() + text[end:], true
}

// index returns the patterns of all secrets, or nil if the set is empty or expired reports true. The patterns are
// cached and computed again only after secrets or words were added.
func (s *Secrets) index(expired func() bool) index {
	secrets, words := s.all()
	if len(secrets) == 0 {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if size := len(secrets) + len(words); s.size != size {
		patterns := newIndex(secrets, words, expired)
		if expired() {
			return nil
		}
		s.cache, s.size = patterns, size
	}
	return s.cache
}
