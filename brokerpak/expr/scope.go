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

// A Scope is the environment in which expressions are evaluated: the values of variables, functions in addition to the
// standard ones, and the sources of environment variables, configuration values, generated values and counter numbers.
// Constants take precedence over Variables with the same name, and standard functions over Functions. The zero Scope
// has no variables and only the standard functions, of which env, config and counter.next fail. A Scope may be used by
// concurrent evaluations if its functions may be called concurrently.
type Scope struct {
	// Variables contains the values of variables by name: "name", "request.instance_id", "request.context". If a name
	// is missing, its longest dotted prefix that is a map with the rest of the name as a key is used:
	// "request.context.platform" is the key "platform" of "request.context".
	Variables map[string]any
	// Constants contains further variables, which take precedence over Variables.
	Constants map[string]any
	// Functions contains further functions. A standard function with the same name takes precedence.
	Functions map[string]Function
	// Env looks up an environment variable for the function env. Nil means that no variable is set.
	Env func(name string) (string, bool)
	// Config looks up a configuration value for the functions config and config.find. Nil means that no value is set.
	Config func(key string) (any, bool)
	// Generate returns the result of a call of rand.base64, time.nano or counter.next, so that the owner of the scope
	// can reuse the results of an earlier evaluation. The call is identified by the function and its number in the
	// template, such as "rand.base64#1". The function create generates a new result, which is an int64 for
	// counter.next and a string for the others. Nil means that new results are always generated.
	Generate func(call string, create func() (any, error)) (any, error)
	// Counter returns the next number for counter.next. If it is nil, counter.next fails.
	Counter func() int64
}

// variable returns the value of the variable with this name, which may be nil. A name with dots, such as "a.b.c", is
// first looked up as a whole, then as the key "c" of the map variable a.b, and then as the key "b.c" of the map
// variable a. Maps within these maps are not searched. A constant takes precedence over a variable with the same
// name.
//
// If the variable is not set, variable returns nil and an error. If no prefix of the name, such as a.b, is a map, the
// error wraps ErrUnknownVariable. Otherwise it names the longest such prefix and the key that this map does not have,
// and does not wrap ErrUnknownVariable.
func (s *Scope) variable(name string) (any, error) {
	var missing error
	for prefix := range (Reference{Name: name}).Names() {
		prefixValue, ok := s.get(prefix)
		if ok && prefix == name {
			return prefixValue, nil
		}
		m, isMap := prefixValue.(map[string]any)
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

// get returns the constant or, if there is none, the variable with exactly this name; the name is not split at dots. A
// value may be nil. get returns nil and false if neither exists. The scope must not be nil.
func (s *Scope) get(name string) (value any, ok bool) {
	if value, ok = s.Constants[name]; !ok {
		value, ok = s.Variables[name]
	}
	return value, ok
}

// ErrUnknownVariable means that an expression reads a variable that is not set.
var ErrUnknownVariable = errors.New("unknown variable accessed")

// missingKey returns the error for a key that the map variable with the given name does not have, such as `key "c" does
// not exist in map a.b`. The error contains no value of the map, but the key, which may be the value of an expression.
// It is never nil.
func missingKey(key, name string) error {
	return fmt.Errorf("key %q does not exist in map %s", key, name)
}

// env implements Function.Call for the function env(name) of expressions. It returns the value of an environment
// variable as a string, which may be "". It returns nil and an *UnsetError if the scope has no Env, or if the variable
// is not set.
func (s *Scope) env(args []any) (any, error) {
	name := as[string](args[0])
	if s.Env != nil {
		if value, ok := s.Env(name); ok {
			return value, nil
		}
	}
	return nil, &UnsetError{fmt.Sprintf("missing environment variable %s", name)}
}

// An UnsetError means that an expression reads a configuration value or an environment variable that the operator has
// not set. The functions config and env return it as a pointer, so errors.As needs a *UnsetError. The zero UnsetError
// has an empty message.
type UnsetError struct{ message string }

// Error returns the message, which names the missing environment variable or configuration value. For a configuration
// value, it also explains how to set it.
func (e *UnsetError) Error() string { return e.message }

// config implements Function.Call for the function config(key) of expressions. It returns the configuration value of
// the key as a string: white space around a string is removed, another scalar becomes its text, such as "true" for a
// boolean, and a map or list becomes JSON.
//
// config returns nil and an *UnsetError if the scope has no Config, or if the value is missing, null or ""; a string
// that consists of white space becomes "" without an error. It returns another error if a map or list contains a value
// that JSON cannot represent.
func (s *Scope) config(args []any) (any, error) {
	key := as[string](args[0])
	missing := &UnsetError{fmt.Sprintf("missing config value %s: set the environment variable %s, or %[1]s under "+
		"`config` of the adapter's configuration", key, ConfigVariable(key))}
	if s.Config == nil {
		return nil, missing
	}
	setting, ok := s.Config(key)
	if !ok || setting == nil || setting == "" {
		return nil, missing
	}
	switch setting.(type) {
	case map[string]any, []any:
		return jsonText(setting)
	default:
		return strings.TrimSpace(value.Text(setting)), nil
	}
}

// ConfigVariable returns the name of the environment variable that sets the configuration value of a key:
// "GSB_REDIS_HOST" for the key "redis.host". Dots become underscores and letters upper case; all other characters stay.
// ConfigVariable does not read the variable.
func ConfigVariable(key string) string {
	return "GSB_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// configFind implements Function.Call for the function config.find(key, default) of expressions. It returns the
// configuration value of the key as a string, converted as by config, or the default if config would return an error,
// for example because the value is not set. It never returns an error.
func (s *Scope) configFind(args []any) (any, error) {
	setting, err := s.config(args)
	if err != nil {
		return args[1], nil //nolint:nilerr // the value is not set
	}
	return setting, nil
}

// next implements Function.Call for the function counter.next() of expressions. It returns the next number of the
// scope's Counter, as an int64. It calls Counter once and ignores the arguments. It returns an error only if the
// scope has no Counter.
func (s *Scope) next([]any) (any, error) {
	if s.Counter == nil {
		return nil, errors.New("no counter is available here")
	}
	return s.Counter(), nil
}

// randomText implements Function.Call for the function rand.base64(count) of expressions. It returns count random bytes
// from a cryptographic source, encoded in URL-safe Base64 with padding. The text is longer than count, and "" for 0.
// randomText returns an error if the count is negative or greater than 65536.
func randomText(args []any) (any, error) {
	const maxCount = 1 << 16
	count := as[int64](args[0])
	if count < 0 {
		return nil, errors.New("count must not be negative")
	}
	if count > maxCount {
		return nil, fmt.Errorf("count must be at most %d", maxCount)
	}
	bytes := make([]byte, count)
	_, _ = rand.Read(bytes) // never fails
	return base64.URLEncoding.EncodeToString(bytes), nil
}
