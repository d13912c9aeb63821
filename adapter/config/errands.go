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

// deferred reports whether a value is a text that is resolved later: one that contains a reference, or an expression
// that is evaluated for each instance.
func deferred(item any) bool {
	text, _ := item.(string)
	return strings.Contains(text, "((") || strings.Contains(text, "${")
}

// CheckErrands returns an error if the errands apply-instance and destroy-instance cannot work with properties, which
// are the errand_properties, or if they would keep states where bindings do not find them, according to the state
// backend of c: paks must be present and not an empty list; see checkErrandState and checkErrandLimit for the other
// rules. The error lists all faults, and is nil if there are none. Deferred values are not checked. Unknown keys are
// not an error; see UnknownErrandKeys.
func (c *Config) CheckErrands(properties map[string]any) error {
	failed := []error{c.checkErrandState(properties[errandStateKey]), c.checkErrandLimit(properties)}
	if paks, isList := properties[ErrandPaksKey].([]any); properties[ErrandPaksKey] == nil || isList && len(paks) == 0 {
		failed = append(failed, errors.New("errand_properties.paks must name the brokerpaks of the errands, "+
			"as in [/var/vcap/packages/service-adapter-paks/NAME]"))
	}
	return errors.Join(failed...)
}

// checkErrandState compares the value of the key "state" in the properties of the errands with the state of the
// adapter: the type, the settings that identify states, and whether states are encrypted. It returns an error if they
// differ, or if the type is local. A missing or null value has no type and no settings. All other settings may differ,
// because an errand may reach the same states as another user and by another host. Deferred values are not compared.
func (c *Config) checkErrandState(item any) error {
	state, _ := item.(map[string]any)
	kind := state["type"]
	if text := value.Text(kind); !deferred(kind) && (text != c.State.Type || text == Local) {
		return fmt.Errorf("errand_properties must have the state.type of the adapter, and neither may be local, "+
			"because bindings read from that state what the errands stored; "+
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
			"state.config.%[1]s, because bindings read from that state what the errands stored%s", key, hint))
	}
	return errors.Join(failed...)
}

// checkErrandEncryption returns an error if only one of the adapter and the errands encrypts states. encryption is
// state.encryption of the errands, or nil if they have none. Their jobs encrypt states if it is a mapping with a key; a
// value that is not a mapping, such as a deferred text, counts as encryption. The keys themselves are not compared.
func (c *Config) checkErrandEncryption(encryption any) error {
	if settings, ok := encryption.(map[string]any); ok {
		encryption = settings["key"]
	}
	switch encrypted := encryption != nil; {
	case encrypted == (c.State.Encryption != nil):
		return nil
	case encrypted:
		return errors.New("errand_properties.state.encryption must not be set, because the adapter's state has none: " +
			"bindings could not read what the errands stored")
	default:
		return errors.New("errand_properties.state.encryption.key must be set, because the adapter's state is " +
			"encrypted: bindings could not read what the errands stored")
	}
}

// checkErrandLimit returns an error if the errand_limit of the errands will be below their budget, or if one of them is
// not a duration. Properties that are missing have the adapter's errand_limit and the default of the jobs' property
// budget, which is the adapter's own default. An errand_limit of null is always valid: the errand then has one that is
// long enough. Deferred values are not compared.
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

// errandDuration returns the duration at a key of errand_properties, or standard if it is absent, null, zero or
// deferred. It returns an error if the value is not a duration.
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

// UnknownErrandKeys returns a message for each key that the jobs of the errands do not have as a property: keys of
// properties, which are the errand_properties, sorted, then those of state and of state.encryption. BOSH ignores such
// keys. It returns nil if all keys are allowed. The keys of state.config and config are not checked.
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

// CheckErrandConfig returns an error if "config" of the errand_properties lacks some of the keys, which the errands of
// a service read; the error names the service and all of them. An empty text and null count as missing. A deferred
// "config" is not checked. Nothing else of the adapter's environment and configuration reaches an errand.
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
	return fmt.Errorf("errand_properties.%s lacks what the errands of service %q read: %s", errandConfigKey, service,
		strings.Join(slices.Compact(missing), ", "))
}

// InstanceErrandsCheck returns a function that checks the errand_properties of one instance, after their expressions
// have been evaluated. The parameters of the function are the name of the service, these properties, and the keys of
// "config" that the errands of the service read. The function logs a warning for each unknown key, and returns the
// errors of CheckErrands and CheckErrandConfig, or nil.
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
