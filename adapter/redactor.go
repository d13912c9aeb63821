package adapter

import (
	"io"
	"slices"
	"strings"
	"sync"
)

// shortestSecret is the length in bytes from which a value is masked. Shorter ones would mask ordinary words.
const shortestSecret = 6

// redactor is a writer that replaces secrets. The log is written through it.
type redactor struct {
	out io.Writer

	mutex   sync.Mutex
	secrets []string
}

// add makes the string leaves of values secret.
func (r *redactor) add(values ...any) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, item := range values {
		r.collect(item)
	}
	// The longest first, so that a secret within another leaves nothing of it.
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
}

func (r *redactor) collect(item any) {
	switch v := item.(type) {
	case string:
		if len(v) >= shortestSecret {
			r.secrets = append(r.secrets, v)
		}
	case []any:
		for _, element := range v {
			r.collect(element)
		}
	case map[string]any:
		for _, element := range v {
			r.collect(element)
		}
	}
}

// Write replaces the secrets in one log record. It reports the length of what it was given.
func (r *redactor) Write(record []byte) (int, error) {
	r.mutex.Lock()
	text := string(record)
	for _, secret := range r.secrets {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	r.mutex.Unlock()
	if _, err := io.WriteString(r.out, text); err != nil {
		return 0, err
	}
	return len(record), nil
}

// list returns the secrets known so far.
func (r *redactor) list() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.secrets)
}
