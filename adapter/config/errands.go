package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/strictyaml"
	"service-adapter/internal/value"
)

// The keys of errand_properties that this file reads.
const (
	ErrandPaksKey   = "paks"
	errandStateKey  = "state"
	errandConfigKey = "config"
	errandLimitKey  = "errand_limit"
	errandBudgetKey = "budget"
)

// deferred reports whether a value of errand_properties is a text that is resolved later: one that contains "((", as
// the reference ((name)), or "${", as an expression that is evaluated for each instance. It returns false for any value
// that is not a text.
func deferred(item any) bool {
	text, _ := item.(string)
	return strings.Contains(text, "((") || strings.Contains(text, "${")
}

// CheckErrands returns an error if the errands apply-instance and destroy-instance cannot work with properties, which
// are the errand_properties, or if they would keep states where bindings do not find them. paks must be present and
// not an empty list. state must be a mapping with the same state backend and location as the configuration c, which
// must not be local, and must encrypt states exactly if c does. errand_limit must not be below budget, and both must
// be durations; see checkErrandLimit for missing ones. The error lists all faults, and is nil if there are none; but
// if the types of the backends differ or are local, it lists no other fault of state. Unknown keys are not an error;
// see UnknownErrandKeys.
//
// Texts with references or expressions, which are resolved later, are not checked, with two exceptions: state itself
// must not be one, and an encryption that is one counts as encryption.
func (c *Config) CheckErrands(properties map[string]any) error {
	failed := []error{c.checkErrandState(properties[errandStateKey]), c.checkErrandLimit(properties)}
	if paks, isList := properties[ErrandPaksKey].([]any); properties[ErrandPaksKey] == nil || isList && len(paks) == 0 {
		failed = append(failed, errors.New("errand_properties.paks must name the brokerpaks of the errands, "+
			"as in [/var/vcap/packages/service-adapter-paks/NAME]"))
	}
	return errors.Join(failed...)
}

// checkErrandState compares item, the value of the key "state" in errand_properties, with the state of the adapter. It
// returns an error if the types of the backends differ or are local; the rest is not compared then. Otherwise the error
// lists each setting that identifies the location of states, such as a bucket, and differs, and the error of
// checkErrandEncryption. It is nil if there are none. A missing setting counts as OpenTofu's default. Other settings
// may differ, because an errand may reach the same states as another user and by another host. For a type of backend
// that package backend does not know, no setting is compared.
//
// An item that is not a mapping, also nil and a text that is resolved later, has no type and is therefore an error. In
// the mapping, a type that is resolved later (see deferred) is not compared with that of the adapter, and the settings
// are compared as those of the adapter's type. Settings that are resolved later are not compared, and neither is a
// "config" that is neither a mapping nor missing.
func (c *Config) checkErrandState(item any) error {
	state, _ := item.(map[string]any)
	kind := state["type"]
	if text := value.Text(kind); c.State.Type == Local || !deferred(kind) && text != c.State.Type {
		return fmt.Errorf("errand_properties must have the same state.type as the adapter, which must not be local, "+
			"because bindings read the states that the errands store; "+
			"the adapter has %q, errand_properties has %q", c.State.Type, text)
	}
	failed := []error{c.checkErrandEncryption(state["encryption"])}
	settings, isMapping := state["config"].(map[string]any)
	if state["config"] != nil && !isMapping {
		return errors.Join(failed...)
	}
	own := backend.Backend{Type: c.State.Type, Config: value.NormaliseMap(c.State.Config)}.Identity()
	theirs := backend.Backend{Type: c.State.Type, Config: settings}.Identity()
	standard := backend.Backend{Type: c.State.Type}.Identity()
	for _, key := range value.Keys(own) {
		if own[key] == theirs[key] || deferred(own[key]) || deferred(theirs[key]) {
			continue
		}
		hint := ""
		if standard[key] != "" {
			hint = fmt.Sprintf("; OpenTofu's default is %q", standard[key])
		}
		failed = append(failed, fmt.Errorf("errand_properties.state.config.%s must have the value of the adapter's "+
			"state.config.%[1]s, because bindings read the states that the errands store%s", key, hint))
	}
	return errors.Join(failed...)
}

// checkErrandEncryption returns an error if the errands encrypt states and the adapter does not, or the reverse.
// encryption is state.encryption of errand_properties, or nil if that is missing. A mapping counts as encryption if its
// "key" is not null. Any other value except nil counts as encryption, such as a text that is resolved later. The keys
// themselves are not compared.
func (c *Config) checkErrandEncryption(encryption any) error {
	if settings, ok := encryption.(map[string]any); ok {
		encryption = settings["key"]
	}
	switch encrypted := encryption != nil; {
	case encrypted == (c.State.Encryption != nil):
		return nil
	case encrypted:
		return errors.New("errand_properties.state.encryption must not be set, because the adapter's state has none: " +
			"otherwise bindings cannot read the states that the errands store")
	default:
		return errors.New("errand_properties.state.encryption.key must be set, because the adapter's state is " +
			"encrypted: otherwise bindings cannot read the states that the errands store")
	}
}

// checkErrandLimit returns an error if errand_limit or budget in properties, the errand_properties, is not a duration
// such as 90m, or if the errand_limit will be below the budget. A missing or zero errand_limit means that of the
// adapter, and a missing, null or zero budget means 45s, the default of the errands' jobs. An errand_limit of null is
// long enough for every valid budget, because the errand then computes it. A text with a reference or expression is
// accepted, and is not compared.
func (c *Config) checkErrandLimit(properties map[string]any) error {
	limit, limitErr := errandDuration(properties, errandLimitKey, c.ErrandLimit)
	budget, budgetErr := errandDuration(properties, errandBudgetKey, defaultBudget)
	if err := errors.Join(limitErr, budgetErr); err != nil {
		return err
	}
	item, set := properties[errandLimitKey]
	if set && item == nil || deferred(item) || deferred(properties[errandBudgetKey]) || limit >= budget {
		return nil
	}
	return fmt.Errorf("the errand_limit of the errands, %s, must not be below their budget, %s: "+
		"set errand_properties.errand_limit or errand_properties.budget", limit, budget)
}

// errandDuration returns the duration at a key of errand_properties. It returns standard if the value is missing, null,
// zero, or a text with a reference or expression that is resolved later. It returns 0 and an error if the value is not
// a duration in the syntax of Go, such as "90m".
func errandDuration(properties map[string]any, key string, standard time.Duration) (time.Duration, error) {
	item := properties[key]
	if item == nil || deferred(item) {
		return standard, nil
	}
	duration, err := time.ParseDuration(value.Text(item))
	if err != nil {
		return 0, fmt.Errorf("errand_properties.%s must be a duration such as 90m", key)
	}
	return cmp.Or(duration, standard), nil // zero means the default, as in the configuration
}

// UnknownErrandKeys returns a message for each key of properties, which are the errand_properties, that is not a
// property of the errands' jobs. BOSH ignores such keys. The messages suggest or list the allowed keys. Those of the
// top level come first, then those of state and those of state.encryption, each group sorted by key. The keys of
// state.config and config are not checked, and neither is a state or state.encryption that is not a mapping. The
// result is nil if all keys are allowed.
func UnknownErrandKeys(properties map[string]any) (unknown []string) {
	check := func(path string, item any, allowed ...string) {
		mapping, _ := item.(map[string]any)
		for _, name := range value.Keys(mapping) {
			if !slices.Contains(allowed, name) {
				unknown = append(unknown, strictyaml.UnknownKey(name, allowed, path))
			}
		}
	}
	state, _ := properties[errandStateKey].(map[string]any)
	check("errand_properties", properties,
		ErrandPaksKey, errandStateKey, errandConfigKey, errandLimitKey, errandBudgetKey, "log_level", "audit_log")
	check("errand_properties.state", state, "type", "config", "direct", "encryption")
	check("errand_properties.state.encryption", state["encryption"], "key", "old_keys")
	return unknown
}

// CheckErrandConfig returns an error if "config" of properties, which are the errand_properties, lacks some of the
// keys, which the errands of a service read. The error names the service and all missing keys, sorted. A dotted key is
// also looked up as a path in nested mappings. An empty text and null count as missing. If "config" is a text with a
// reference or expression that is resolved later, CheckErrandConfig returns nil. If it is missing or any other value
// than a mapping, it lacks all keys. Errands do not read the environment or configuration of the adapter, so a key that
// is only set there is missing as well.
func CheckErrandConfig(service string, properties map[string]any, keys []string) error {
	if deferred(properties[errandConfigKey]) {
		return nil
	}
	config, _ := properties[errandConfigKey].(map[string]any)
	missing := slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		item, ok := value.Lookup(config, key)
		return ok && item != ""
	})
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("errand_properties.%s lacks keys that the errands of service %q read: %s",
		errandConfigKey, service, strings.Join(slices.Compact(missing), ", "))
}

// InstanceErrandsCheck returns a function that checks the errand_properties of one instance, after their expressions
// have been evaluated, against the configuration c. The parameters of the function are the name of the service, these
// properties, and the keys that the errands of the service read from "config" in the properties; a nil list means
// none.
//
// The function returns the errors of CheckErrands and CheckErrandConfig, joined, or nil if there are none. It also
// logs a warning with the logger for each key of the properties, state or state.encryption that is not a property of
// the errands' jobs, because BOSH ignores it; see UnknownErrandKeys. Such a key is not an error. Further keys of
// "config" are allowed and cause no warning.
func (c *Config) InstanceErrandsCheck(
	logger *slog.Logger,
) func(service string, properties map[string]any, configKeys []string) error {
	return func(service string, properties map[string]any, configKeys []string) error {
		for _, unknown := range UnknownErrandKeys(properties) {
			logger.Warn("BOSH ignores a part of errand_properties", "warning", unknown)
		}
		return errors.Join(c.CheckErrands(properties), CheckErrandConfig(service, properties, configKeys))
	}
}
