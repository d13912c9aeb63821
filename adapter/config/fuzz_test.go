package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"service-adapter/adapter/config"
)

// FuzzLoadConfig loads a file and one variable. LoadConfig must not panic, and an accepted configuration must be
// usable.
func FuzzLoadConfig(f *testing.F) {
	file := filepath.Join(f.TempDir(), "config.yml")
	for _, text := range []string{
		"paks: [/pak]\nservice: x\nsecure_manifests: true\nstate: {type: local, config: {dir: /s}}\nbudget: 1m\n",
		"paks: [/pak]\nservices: {x: {plans: [{id: a}], bind_defaults: {a: 2026-01-01}}}\n" +
			"config: {a.b: &x [1], c: *x}\n",
		"paks: &a [*a]\n", "a: {b: c}\n---\n", "paks: !!binary aGk=\n", "<<: {paks: [x]}\n", "? [a]\n: b\n",
	} {
		f.Add(text, "")
		f.Add("paks: [/pak]", text)
	}
	f.Fuzz(func(t *testing.T, text, services string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		loaded, _, err := config.Load(func(name string) (string, bool) {
			switch name {
			case config.Variable:
				return file, true
			case "SERVICE_ADAPTER_SERVICES":
				return services, true
			default:
				return "", false
			}
		})
		if err == nil && (len(loaded.Paks) == 0 || loaded.Budget <= 0 ||
			loaded.State.Type == "" || loaded.CacheDir == "") {
			t.Errorf("accepted %+v", loaded)
		}
	})
}
