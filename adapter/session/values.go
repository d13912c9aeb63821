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
// default variables, and what expressions and OpenTofu read. The methods register the secrets among these values for
// masking. The environment takes precedence over the configuration file.
type OperatorValues struct {
	configured config.Values
	getenv     func(string) (string, bool)
	secrets    *redact.Secrets
}

// ProvisionDefaults returns the default variables that the operator has set for the provision action of a service, as
// layers in ascending precedence: general values come before those of the service, and at each level the environment
// takes precedence over the configuration file. A layer that is not set is empty or nil. ProvisionDefaults returns an
// error, without the text, if an environment variable is not a JSON object.
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

// BindDefaults returns the default variables that the operator has set for the bind action of a service. The
// environment takes precedence over the configuration file. The map is empty if there are none. BindDefaults returns an
// error, without the text, if the environment variable is not a JSON object.
func (v OperatorValues) BindDefaults(service *brokerpak.Service) (map[string]any, error) {
	own, err := v.jsonVariable("GSB_SERVICE_" + service.EnvName() + "_BIND_DEFAULTS")
	if err != nil {
		return nil, err
	}
	return value.Merge(value.NormaliseMap(v.configured.Services[service.Name].BindDefaults), own), nil
}

// jsonVariable decodes an environment variable that contains a JSON object and registers its secrets for masking. It
// returns nil if the variable is unset or empty, and an error without the value if it contains anything else.
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

// variable looks up an environment variable and reports whether it is set. It registers the value for masking if redact
// recognises it as a secret, by its name or content.
func (v OperatorValues) variable(name string) (string, bool) {
	text, ok := v.getenv(name)
	v.secrets.AddValues(map[string]any{name: text})
	return text, ok
}

// Environment returns the lookup functions for expressions of a pak: for environment variables, and for configuration
// values by key. A key is looked up in the variable GSB_<KEY>, whose name expr.ConfigVariable returns, then in the
// variables that env_config_mapping of the pak maps to it, then in the configuration file. In the file, a dotted key is
// first tried as a whole and then as a path in nested mappings. For a key, empty variables count as unset.
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

// tofuEnvironment returns the environment variables for OpenTofu: inheritedVariables, and the parameters and required
// variables of the paks, from the environment or the configuration. PATH is also contained if only the configuration
// has it. Variables that are not set are left out. It returns an error that names each variable that own requires and
// that is not set. The required variables of other paks may be missing; a nil own requires none.
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

// pakVariable looks up a variable that a pak names: in the environment, then in Config.Config, because an operator
// cannot set the environment of the broker's job. PATH is looked up in Config.Config first, because bpm always sets it
// in the environment. It reports false if the variable is unset or empty in both.
func (v OperatorValues) pakVariable(name string) (string, bool) {
	inherited, _ := v.variable(name)
	configured := v.configVariable(name)
	if name == pathVariable {
		inherited, configured = configured, inherited
	}
	text := cmp.Or(inherited, configured)
	return text, text != ""
}

// configVariable looks up a variable for OpenTofu in Config.Config. It returns "" if the key is not set or null, and
// the text of any other value. A dotted name is also looked up as a path.
func (v OperatorValues) configVariable(name string) string {
	item, ok := value.Lookup(value.NormaliseMap(v.configured.Config), name)
	if !ok {
		return ""
	}
	return value.Text(item)
}
