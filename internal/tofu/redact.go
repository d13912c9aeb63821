package tofu

import (
	"encoding/json"
	"slices"
	"strings"
)

// shortestSecret is how long, in bytes, a value must be to be masked: masking shorter ones would make errors unreadable.
const shortestSecret = 6

// redactor masks secrets in texts.
type redactor struct {
	secrets []string
}

// add adds secrets; those that are too short are ignored.
func (r *redactor) add(secrets ...string) {
	for _, secret := range secrets {
		secret = strings.TrimSpace(secret)
		if len(secret) < shortestSecret {
			continue
		}
		r.secrets = append(r.secrets, secret)
		// As it looks inside a quoted string.
		if quoted, err := json.Marshal(secret); err == nil {
			r.secrets = append(r.secrets, string(quoted[1:len(quoted)-1]))
		}
	}
	// The longest first, so that a secret that contains another one is masked as a whole.
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
	r.secrets = slices.Compact(r.secrets)
}

// addLeaves adds every string of a value.
func (r *redactor) addLeaves(value any) {
	switch v := value.(type) {
	case string:
		r.add(v)
	case []any:
		for _, item := range v {
			r.addLeaves(item)
		}
	case map[string]any:
		for _, item := range v {
			r.addLeaves(item)
		}
	}
}

// clean returns the text with every secret masked.
func (r *redactor) clean(text string) string {
	for _, secret := range r.secrets {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}
