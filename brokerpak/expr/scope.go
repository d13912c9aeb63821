package expr

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"service-adapter/internal/value"
)

// Scope is what expressions see. The zero value knows no variables and only the standard functions. A Scope may be used
// by several evaluations at once when its functions may.
type Scope struct {
	// Variables holds the values by flat name: "name", "request.instance_id", "request.context". A name that is not in it
	// is looked up as a key of the map variable with its longest dotted prefix.
	Variables map[string]any
	// Constants are further ones, which win.
	Constants map[string]any
	// Functions holds functions besides the standard ones, which cannot be replaced.
	Functions map[string]Function
	// Env looks up an environment variable for env(); nil: there is none.
	Env func(name string) (string, bool)
	// Config looks up a configuration value for config(); nil: there is none.
	Config func(key string) (any, bool)
	// Generate returns the value of one call of rand.base64, time.nano or counter.next. The call is named as in
	// "rand.base64#1", the first call of that function in the template, and create makes a new value: an int64 for
	// counter.next, else a string. It lets the owner carry values over from an earlier evaluation. nil: always a new value.
	Generate func(call string, create func() (any, error)) (any, error)
	// Counter returns the next value of counter.next; nil: there is none.
	Counter func() int64
}

// variable resolves a flat name. When no variable has the name, its longest dotted prefix that is a map holding the rest
// as a key decides.
func (s *Scope) variable(name string) (any, error) {
	var missing error
	for prefix := range (Reference{Name: name}).Names() {
		found, ok := s.get(prefix)
		if ok && prefix == name {
			return found, nil
		}
		m, isMap := found.(map[string]any)
		if !isMap {
			continue
		}
		key := name[len(prefix)+1:]
		if value, ok := m[key]; ok {
			return value, nil
		}
		missing = cmp.Or(missing, missingKey(key, prefix))
	}
	return nil, cmp.Or(missing, fmt.Errorf("%w: %s", ErrUnknownVariable, name))
}

func (s *Scope) get(name string) (value any, ok bool) {
	if value, ok = s.Constants[name]; !ok {
		value, ok = s.Variables[name]
	}
	return value, ok
}

// ErrUnknownVariable says that an expression reads a name that nothing has set.
var ErrUnknownVariable = errors.New("unknown variable accessed")

func missingKey(key, name string) error {
	return fmt.Errorf("key %q does not exist in map %s", key, name)
}

// env is the function env().
func (s *Scope) env(args []any) (any, error) {
	name := as[string](args[0])
	if s.Env != nil {
		if value, ok := s.Env(name); ok {
			return value, nil
		}
	}
	return nil, &UnsetError{fmt.Sprintf("missing environment variable %s", name)}
}

// UnsetError says that an expression reads what the operator has not set: a value of the configuration or the environment.
type UnsetError struct{ message string }

func (e *UnsetError) Error() string { return e.message }

// config is the function config(): a string is trimmed, another scalar becomes its text, a map or list its JSON.
func (s *Scope) config(args []any) (any, error) {
	key := as[string](args[0])
	missing := &UnsetError{fmt.Sprintf("missing config value %s: set the environment variable %s, or %[1]s under `config` of the adapter's "+
		"configuration", key, ConfigVariable(key))}
	if s.Config == nil {
		return nil, missing
	}
	found, ok := s.Config(key)
	if !ok || found == nil || found == "" {
		return nil, missing
	}
	switch found.(type) {
	case map[string]any, []any:
		return jsonText(found)
	default:
		return strings.TrimSpace(value.Text(found)), nil
	}
}

// ConfigVariable is the environment variable that gives config() the value of a key.
func ConfigVariable(key string) string {
	return "GSB_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// configFind is the function config.find().
func (s *Scope) configFind(args []any) (any, error) {
	found, err := s.config(args)
	if err != nil {
		return args[1], nil //nolint:nilerr // it is not set
	}
	return found, nil
}

// next returns the next value of counter.next.
func (s *Scope) next([]any) (any, error) {
	if s.Counter == nil {
		return nil, errors.New("there is no counter here")
	}
	return s.Counter(), nil
}

// randomText returns as many random bytes as asked for, in Base64.
func randomText(args []any) (any, error) {
	const most = 1 << 16
	count := as[int64](args[0])
	if count < 0 {
		return nil, errors.New("count must not be negative")
	}
	if count > most {
		return nil, fmt.Errorf("count must be at most %d", most)
	}
	bytes := make([]byte, count)
	_, _ = rand.Read(bytes) // never fails
	return base64.URLEncoding.EncodeToString(bytes), nil
}
