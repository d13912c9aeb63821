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

// configFile returns the path of the configuration file that arrange writes for the adapter.
func (r *run) configFile() string { return filepath.Join(r.dir, "service-adapter.yml") }

// configuration returns the configuration of the adapter for the current step: that of the step, with the pak and the
// directories of the test, which replace those of the step. Unless the step sets them, secure_manifests is true and
// log_level is "warn". With errands, it also contains the errand properties that the case does not set itself.
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

// errandConfig returns a value for each key of `config` that the errands of a real deployment would read, because the
// adapter checks that all of them are set. The values are arbitrary: in a test, errands run with the configuration
// and the environment of the adapter.
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

// getenv looks up environment variables for the adapter: those of Suite.Getenv, except that all SERVICE_ADAPTER_
// variables of the author are hidden and the configuration file is that of the case.
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

// generatingEnv looks up environment variables for the commands that generate manifests. With errands, the adapter
// requires that its own state equals the state in the errand properties, so SERVICE_ADAPTER_STATE is derived from them.
// These commands do not access that state. The errands of a test store instances in the state directory of the test.
// For every other variable, and in a step without errands, generatingEnv is getenv.
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

// checkCommands returns an error that names the programs which the service requires and which its templates would not
// find with the configuration of the current step. It returns nil if there are none. The positions are those in the pak
// that the author wrote. Other errors are those of opening a session with the configuration.
func (r *run) checkCommands() error {
	if len(r.testCase.commands) == 0 {
		return nil
	}
	required := *r.service
	required.RequiredCommands = r.testCase.commands
	s := session.New(session.Process{Stderr: &bytes.Buffer{}, Getenv: r.getenv}, "test")
	return s.Run(func() error { return s.CheckCommands(r.Pak, &required) })
}
