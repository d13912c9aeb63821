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

// Secrets is a set of secrets to be masked, and of words that must stay readable; see NeverMask. The set may have a
// parent, whose secrets and words it includes. Its zero value is an empty set that is ready to use. A nil *Secrets is
// an empty set for Any and the methods that mask, which still mask the values that a text itself labels as secret. All
// methods are safe for concurrent use.
type Secrets struct {
	parent  *Secrets
	mutex   sync.Mutex
	secrets []string
	words   []string // never masked
	cache   index    // the patterns of the first size secrets and words of this set and its parents
	size    int      // the number of secrets and words from which cache was computed
}

// NewChild returns an empty set below a parent. The set masks its own secrets and all that the parent contains at the
// time of masking, and includes the parent's words of NeverMask. Secrets and words added to it are not added to the
// parent. The parent may be nil.
func NewChild(parent *Secrets) *Secrets { return &Secrets{parent: parent} }

// Add adds every text and number within the values to the set; each one is a secret as a whole. It also adds passwords
// in URLs and values that a text itself labels as secret, such as the one in password=…, so that they are masked on
// their own. Booleans, null, keys of maps and "((references))" are not added as a whole. A text that is itself a JSON
// object or array is added as a whole, and so are its parts, except for those whose key denotes an id or a harmless
// value such as a user or a host. Secrets shorter than 6 bytes are masked only where a text labels them as secret,
// because masking them everywhere would make messages unreadable. The set must not be nil.
func (s *Secrets) Add(values ...any) {
	for _, item := range values {
		s.add(secretsIn(item, declared), nil)
	}
}

// AddValues adds the secrets in a map of values by name, such as the parameters of a request. It adds all texts and
// numbers of the values whose names are listed in named, as Add does; names that are not in values have no effect. Of
// the other values it adds the parts whose name or key denotes a secret, passwords in URLs, the parts that a text
// itself labels as secret, and the words that look like a generated secret, unless their key is that of an id. The set
// must not be nil; values may be.
func (s *Secrets) AddValues(values map[string]any, named ...string) {
	for name, item := range values {
		level := certaintyOf(name, unknown, maskedWords)
		if slices.Contains(named, name) {
			level = declared
		}
		s.add(secretsIn(item, level), nil)
	}
}

// NeverMask registers words that must stay readable as a whole. A secret of the set that is equal to or contained in
// one of the words is therefore not masked. There are three exceptions, in which a word is masked all the same: it is a
// part of a longer secret, a text itself labels it as secret, as in password=WORD, or its key in a Document denotes a
// secret. The set must not be nil.
func (s *Secrets) NeverMask(words ...string) { s.add(nil, words) }

// add appends secrets to the secrets of the set and words to the words that are never masked, without checks. Either
// may be nil. The set must not be nil.
func (s *Secrets) add(secrets, words []string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.secrets, s.words = append(s.secrets, secrets...), append(s.words, words...)
}

// all returns the secrets and the never-masked words of this set and its parents. The words always include Mask, also
// for a nil set, so that a secret such as "redacted" does not match in a masked text. A nil set has no secrets and no
// other words.
func (s *Secrets) all() (secrets, words []string) {
	if s == nil {
		return nil, []string{Mask}
	}
	secrets, words = s.parent.all()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append(secrets, s.secrets...), append(words, s.words...)
}

// Any reports whether this set or one of its parents contains a secret, even one that Clean masks only where a text
// labels it, because it is too short or contained in a word of NeverMask. It returns false for a nil set.
func (s *Secrets) Any() bool {
	secrets, _ := s.all()
	return len(secrets) > 0
}

// Clean returns the text with every secret replaced by Mask, "[redacted]": the secrets of the set and its parents,
// verbatim and as programs escape, quote or encode them, and the values that the text itself labels as secret. A secret
// of the set that is shorter than 6 bytes or contained in a word of NeverMask is masked only where the text labels it.
// Clean returns the text Withheld instead if masking takes longer than Limit, one second. The set may be nil.
func (s *Secrets) Clean(text string) string {
	end := time.Now().Add(Limit)
	if masked, ok := s.mask(text, func() bool { return time.Now().After(end) }); ok {
		return masked
	}
	return Withheld
}

// A maskedError wraps an error and replaces its text by one in which secrets are masked. The zero value is not valid.
// CleanError returns it.
type maskedError struct {
	error

	text string
}

// Error returns the text of the wrapped error in which every secret was masked when the maskedError was created.
func (e *maskedError) Error() string { return e.text }

// Unwrap returns the original error, whose own text is not masked.
func (e *maskedError) Unwrap() error { return e.error }

// CleanError returns an error that wraps err and whose text is that of err with every secret masked, or the text
// Withheld if masking takes longer than Limit, one second; see Clean. It returns nil if err is nil. errors.Is and
// errors.As find err in the result, whose own text is not masked. The set may be nil.
func (s *Secrets) CleanError(err error) error {
	if err == nil {
		return nil
	}
	return &maskedError{error: err, text: s.Clean(err.Error())}
}

// Mask returns the text with every secret replaced by the constant Mask, "[redacted]", as Clean does, but without a
// limit other than the context. If the context has ended or ends first, it returns "" and an error that wraps the
// context's. The set may be nil.
func (s *Secrets) Mask(ctx context.Context, text string) (string, error) {
	masked, ok := s.mask(text, func() bool { return ctx.Err() != nil })
	if !ok {
		return "", fmt.Errorf("masking secrets: %w", ctx.Err())
	}
	return masked, nil
}

// mask returns the text with every secret replaced by the constant Mask, and true. The secrets are those of the set and
// its parents, verbatim and as programs escape, quote or encode them, and the values that the text itself labels as
// secret, as in password=VALUE. A secret of the set that is shorter than 6 bytes, or equal to or contained in a word of
// NeverMask, is masked only where the text labels it. Spans that overlap are masked as one. The set may be nil; only
// the labelled values are masked then.
//
// expired is called repeatedly. If it reports true before the end, mask returns "" and false; expired must report true
// in every later call as well.
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

// index returns the patterns of all secrets of the set and its parents, or nil if these have no secrets or expired
// reports true before the patterns are complete. The patterns are cached in s and computed again only after secrets or
// words were added. expired is called repeatedly. s may be nil.
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
