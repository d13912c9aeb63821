package test

import (
	"bytes"
	"encoding/base64"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"service-adapter/adapter/config"
	"service-adapter/adapter/session"
	"service-adapter/internal/value"
)

// configFile returns the path of the configuration file that arrange writes for the adapter: service-adapter.yml in the
// temporary directory of the case.
func (r *run) configFile() string { return filepath.Join(r.dir, "service-adapter.yml") }

// configuration returns the configuration of the adapter for the current step as a new map: the key "config" of the
// step, except that the pak, the cache directory and all settings of the state are always those of the test. Unless the
// step sets them, secure_manifests is true and log_level is "warn". If the step uses errands, errand_properties also
// contains paks, state and config, as far as the step does not set them itself.
func (r *run) configuration() map[string]any {
	config := map[string]any{"secure_manifests": true, "log_level": "warn"}
	maps.Copy(config, r.config)
	if r.step.Errands {
		properties, _ := config["errand_properties"].(map[string]any)
		config["errand_properties"] = value.Merge(map[string]any{
			"paks":  []any{"/var/vcap/packages/service-adapter-paks/" + r.Pak.Manifest.Name},
			"state": map[string]any{"type": "pg"}, "config": r.errandConfig(),
		}, properties)
	}
	maps.Copy(config, map[string]any{
		"paks": []any{r.Pak.Path}, "cache_dir": filepath.Join(r.dir, "cache"),
		"state": map[string]any{"config": map[string]any{"dir": filepath.Join(r.dir, "state")}},
	})
	return config
}

// errandConfig returns the value "test" for each key that the errand_properties of a real deployment would have to
// contain under `config`: the required environment variables of the pak, and the constant keys with which the defaults
// of inputs and the computed inputs call the function config. The adapter checks that all of them are set. The values
// are arbitrary, because the errands of a test run with the configuration and the environment of the adapter. The
// result is never nil.
func (r *run) errandConfig() map[string]any {
	keys := slices.Clone(r.Pak.Manifest.RequiredEnv)
	for _, input := range slices.Concat(r.service.Provision.UserInputs, r.service.Provision.ComputedInputs) {
		if input.DefaultExpr != nil {
			keys = append(keys, input.DefaultExpr.ConfigKeys()...)
		}
	}
	config := map[string]any{}
	for _, key := range keys {
		config[key] = "test"
	}
	return config
}

// getenv looks up an environment variable for the adapter and reports whether it is set. The variable for the path of
// the configuration file is that of the case; all other SERVICE_ADAPTER_ variables are unset, so that those of the
// author have no effect. Every other variable is that of Suite.Getenv.
func (r *run) getenv(name string) (string, bool) {
	switch {
	case name == config.Variable:
		return r.configFile(), true
	case strings.HasPrefix(name, "SERVICE_ADAPTER_"):
		return "", false
	default:
		return r.Getenv(name)
	}
}

// generatingEnv looks up an environment variable, like getenv, for the commands that generate manifests, and reports
// whether it is set. If the step uses errands, it returns a value for SERVICE_ADAPTER_STATE: JSON with the type, config
// and encryption of the state in the errand properties, because the adapter requires that its own state equals that of
// the errands. If these settings have an encryption, a constant key replaces its own. These commands do not access that
// state; the errands of a test store instances in the state directory of the test. For every other variable, and in a
// step without errands, the result is that of getenv.
func (r *run) generatingEnv(name string) (string, bool) {
	if name != "SERVICE_ADAPTER_STATE" || !r.step.Errands {
		return r.getenv(name)
	}
	properties, _ := r.configuration()["errand_properties"].(map[string]any)
	errands, _ := properties["state"].(map[string]any)
	state := map[string]any{"type": errands["type"]}
	if settings, ok := errands["config"].(map[string]any); ok {
		state["config"] = settings
	}
	if errands["encryption"] != nil {
		state["encryption"] = map[string]any{"key": base64.StdEncoding.EncodeToString(make([]byte, 32))}
	}
	return string(value.MustJSON(state)), true
}

// checkCommands returns an error that names, on one line each, the programs under requires_commands of the definition
// that the templates would not find on their PATH with the configuration of the current step, which arrange must have
// written. Each line begins with the position in the definition. If r.Pak is a temporary copy, that is the position in
// the pak from which the case was read. It returns nil if no program is missing or none is required. It returns another
// error if the configuration is invalid or the pak cannot be opened.
func (r *run) checkCommands() error {
	if len(r.testCase.commands) == 0 {
		return nil
	}
	required := *r.service
	required.RequiredCommands = r.testCase.commands
	s := session.New(session.Process{Stderr: &bytes.Buffer{}, Getenv: r.getenv}, "test")
	return s.Run(func() error { return s.CheckCommands(r.Pak, &required) })
}
