package session

import (
	"cmp"
	"errors"
	"fmt"

	"service-adapter/adapter/config"
	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// OperatorValues looks up the values that the operator supplies to paks, in the environment and the configuration:
// default variables, the values that expressions read, and the environment variables of OpenTofu. In general, the
// environment takes precedence over the configuration file. The methods register the secrets in environment variables
// for masking; Session.Open has registered those in the configuration file. Session.Values creates an OperatorValues;
// the zero value cannot be used.
type OperatorValues struct {
	configured config.Values
	getenv     func(string) (string, bool)
	secrets    *redact.Secrets
}

// ProvisionDefaults returns the default variables that the operator has set for the provision action of a service, as
// four layers in ascending precedence: the configuration file for all services, the environment variable
// GSB_PROVISION_DEFAULTS, the configuration file for this service, and the variable
// GSB_SERVICE_<NAME>_PROVISION_DEFAULTS. A layer that is not set is empty or nil. ProvisionDefaults registers secrets
// in the variables for masking. It returns nil and an error, without the text, if a variable is neither empty nor a
// JSON object or null.
func (v OperatorValues) ProvisionDefaults(service *brokerpak.Service) ([]map[string]any, error) {
	general, err := v.jsonVariable("GSB_PROVISION_DEFAULTS")
	own, ownErr := v.jsonVariable("GSB_SERVICE_" + service.EnvName() + "_PROVISION_DEFAULTS")
	if err := errors.Join(err, ownErr); err != nil {
		return nil, err
	}
	return []map[string]any{
		value.NormaliseMap(v.configured.ProvisionDefaults), general,
		value.NormaliseMap(v.configured.Services[service.Name].ProvisionDefaults), own,
	}, nil
}

// BindDefaults returns the default variables that the operator has set for the bind action of a service: those in the
// configuration file for this service, and those in the environment variable GSB_SERVICE_<NAME>_BIND_DEFAULTS, which
// take precedence. There are none for all services. The map is new, and empty if no variables are set. BindDefaults
// registers secrets in the environment variable for masking. It returns nil and an error, without the text, if the
// environment variable is neither empty nor a JSON object or null.
func (v OperatorValues) BindDefaults(service *brokerpak.Service) (map[string]any, error) {
	own, err := v.jsonVariable("GSB_SERVICE_" + service.EnvName() + "_BIND_DEFAULTS")
	if err != nil {
		return nil, err
	}
	return value.Merge(value.NormaliseMap(v.configured.Services[service.Name].BindDefaults), own), nil
}

// jsonVariable decodes an environment variable that contains a JSON object and registers its secrets for masking. It
// returns nil and no error if the variable is unset, empty or null, and nil and an error, without the value, if it
// contains anything else.
func (v OperatorValues) jsonVariable(name string) (map[string]any, error) {
	text, ok := v.getenv(name)
	if !ok || text == "" {
		return nil, nil
	}
	decoded, err := value.DecodeObject([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("environment variable %s: %w", name, value.WithoutContent(err))
	}
	v.secrets.AddValues(decoded)
	return decoded, nil
}

// variable returns the value of an environment variable and reports whether it is set; the value is "" if not. It
// registers the value for masking if package redact recognises it as a secret, by the name of the variable or by its
// content.
func (v OperatorValues) variable(name string) (string, bool) {
	text, ok := v.getenv(name)
	v.secrets.AddValues(map[string]any{name: text})
	return text, ok
}

// Environment returns the two lookup functions for expressions of a pak, which must not be nil. Env looks up an
// environment variable by its name, and also finds one that is set and empty.
//
// Config looks up a configuration value by its key, the argument of config("key"): first in the variable GSB_<KEY>,
// whose name expr.ConfigVariable returns, then in the variables that env_config_mapping of the pak maps to the key,
// then in the key config of the configuration file. In the file, a dotted key is first tried as a whole and then as a
// path in nested mappings. An environment variable that is empty, and null in the file, count as unset; an empty text
// in the file is a value.
//
// Both functions report false if no value is found. They register secrets in environment variables for masking.
func (v OperatorValues) Environment(pak *brokerpak.Pak) vars.Environment {
	return vars.Environment{
		Env: v.variable,
		Config: func(key string) (any, bool) {
			names := []string{expr.ConfigVariable(key)}
			for _, variable := range value.Keys(pak.Manifest.EnvConfigMapping) {
				if pak.Manifest.EnvConfigMapping[variable] == key {
					names = append(names, variable)
				}
			}
			for _, name := range names {
				if text, ok := v.variable(name); ok && text != "" {
					return text, true
				}
			}
			return value.Lookup(value.NormaliseMap(v.configured.Config), key)
		},
	}
}

// inheritedVariables are the environment variables of the adapter that OpenTofu inherits, besides those that the paks
// name. Providers receive no other variable of the broker's environment.
var inheritedVariables = []string{ //nolint:gochecknoglobals // a constant table
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

// pathVariable is the environment variable with the directories in which the processes of OpenTofu find programs.
const pathVariable = "PATH"

// tofuEnvironment returns the environment variables for OpenTofu, by name: the proxy and certificate variables of the
// adapter's environment (see inheritedVariables), and the parameters and required variables of the paks. The value of a
// parameter or required variable is that of the environment or, if it is unset or empty there, that of the key config
// of the configuration; for PATH the configuration takes precedence. PATH is also included if no pak names it and the
// configuration sets it. Parameters and required variables that are unset or empty in both are left out, and inherited
// variables only if they are unset. Secrets in the environment are registered for masking.
//
// own is the pak among paks that the command uses. tofuEnvironment returns an error that names each variable that own
// requires and that is unset or empty; it returns the map as well, without these variables. The required variables of
// other paks may be missing; a nil own requires none.
func (v OperatorValues) tofuEnvironment(paks []*brokerpak.Pak, own *brokerpak.Pak) (map[string]string, error) {
	environment := map[string]string{}
	for _, name := range inheritedVariables {
		if text, ok := v.variable(name); ok {
			environment[name] = text
		}
	}
	if path := v.configVariable(pathVariable); path != "" {
		environment[pathVariable] = path
	}
	var failed []error
	for _, pak := range paks {
		for _, parameter := range pak.Manifest.Parameters {
			if text, ok := v.pakVariable(parameter.Name); ok {
				environment[parameter.Name] = text
			}
		}
		for _, name := range pak.Manifest.RequiredEnv {
			text, ok := v.pakVariable(name)
			if ok {
				environment[name] = text
			} else if pak == own {
				failed = append(failed, fmt.Errorf("pak %s requires %s, which is neither an environment variable "+
					"nor a key of `config`", pak.Manifest.Name, name))
			}
		}
	}
	return environment, errors.Join(failed...)
}

// pakVariable returns the value of a variable that a pak names for OpenTofu, and reports whether it is set. It is
// looked up in the environment, then in the key config of the configuration file, because an operator cannot set the
// environment of the broker's job. For PATH the order is reversed, because bpm always sets it in the environment. An
// empty value counts as unset; the result is "" and false if the variable is unset in both.
func (v OperatorValues) pakVariable(name string) (string, bool) {
	inherited, _ := v.variable(name)
	configured := v.configVariable(name)
	if name == pathVariable {
		inherited, configured = configured, inherited
	}
	text := cmp.Or(inherited, configured)
	return text, text != ""
}

// configVariable returns the value of a variable for OpenTofu in the key config of the configuration file, as text. A
// list or mapping becomes JSON. A dotted name is also looked up as a path in nested mappings. configVariable returns ""
// if the value is missing or null.
func (v OperatorValues) configVariable(name string) string {
	item, ok := value.Lookup(value.NormaliseMap(v.configured.Config), name)
	if !ok {
		return ""
	}
	return value.Text(item)
}
