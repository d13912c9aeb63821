package config_test

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter/config"
)

// load loads a configuration from a file with this text, and from environment variables.
func load(text string, variables map[string]string) (config.Config, error) {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "config.yml")
	Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
	loaded, _, err := config.Load(func(name string) (string, bool) {
		if name == config.Variable {
			return file, true
		}
		text, ok := variables[name]
		return text, ok
	})
	return loaded, err
}

var _ = Describe("the configuration", func() {
	It("has defaults", func() {
		loaded, err := load("paks: [/pak]", map[string]string{"TMPDIR": "/var/tmp"})
		Expect(err).NotTo(HaveOccurred())
		Expect(loaded.Paks).To(Equal([]string{"/pak"}))
		Expect(loaded.State).To(Equal(config.State{
			Type:   "local",
			Config: object{"dir": "/var/vcap/store/service-adapter"},
		}))
		Expect(loaded.Budget).To(Equal(45 * time.Second))
		Expect(loaded.LogLevel).To(Equal("info"))
		Expect(loaded.CacheDir).To(HavePrefix("/var/tmp/service-adapter-"))
		Expect(loaded.SecureManifests).To(BeNil(), "the key is not set")
	})

	It("reads every key from the file", func() {
		loaded, err := load(`
paks: [/pak, /old-pak]
service: redis
secure_manifests: false
state: {type: local, config: {dir: /store}}
prepared_dir: /prepared
cache_dir: /cache
budget: 1m30s
errand_limit: 4h
errand_properties: {state: {type: pg}}
provision_defaults: {region: eu, at: 2026-01-02}
services: {redis: {provision_defaults: {a: 1}, bind_defaults: {b: [true]}, plans: [{id: x, name: y}]}}
global_labels: {team: data}
config: {redis.port: 6379, nested: {key: value}}
allowed_references: [/global/root_ca]
disable_bosh_configs: true
max_request_kb: 64
log_level: debug
`, nil)
		Expect(err).NotTo(HaveOccurred())
		no := false
		Expect(loaded).To(Equal(config.Config{
			Paks: []string{"/pak", "/old-pak"}, Service: "redis",
			Broker:           config.Broker{SecureManifests: &no, DisableBoshConfigs: true},
			State:            config.State{Type: "local", Config: object{"dir": "/store"}},
			Directories:      config.Directories{PreparedDir: "/prepared", CacheDir: "/cache"},
			Limits:           config.Limits{Budget: 90 * time.Second, ErrandLimit: 4 * time.Hour},
			ErrandProperties: object{"state": object{"type": "pg"}},
			Values: config.Values{
				ProvisionDefaults: object{"region": "eu", "at": "2026-01-02"},
				Services: map[string]config.Service{"redis": {
					ProvisionDefaults: object{"a": 1}, BindDefaults: object{"b": []any{true}},
					Plans: []map[string]any{{"id": "x", "name": "y"}},
				}},
				GlobalLabels: map[string]string{"team": "data"},
				Config:       object{"redis.port": 6379, "nested": object{"key": "value"}},
			},
			AllowedReferences: []string{"/global/root_ca"}, MaxRequestKB: 64, LogLevel: "debug",
		}))
	})

	It("reads every key but config from the environment, which takes precedence and replaces the whole key", func() {
		file := "paks: [/from-file]\nservice: from-file\nstate: {config: {dir: /from-file}}\n" +
			"global_labels: {from: file}\nbudget: 5s\n"
		loaded, err := load(file, map[string]string{
			"SERVICE_ADAPTER_PAKS":               "[/a, /b]",
			"SERVICE_ADAPTER_SERVICE":            "yes",
			"SERVICE_ADAPTER_SECURE_MANIFESTS":   "true",
			"SERVICE_ADAPTER_STATE":              "{config: {dir: /store}}",
			"SERVICE_ADAPTER_PREPARED_DIR":       "/prepared",
			"SERVICE_ADAPTER_CACHE_DIR":          "/cache",
			"SERVICE_ADAPTER_BUDGET":             "10s",
			"SERVICE_ADAPTER_ERRAND_LIMIT":       "3h",
			"SERVICE_ADAPTER_ERRAND_PROPERTIES":  "{paks: [/a]}",
			"SERVICE_ADAPTER_PROVISION_DEFAULTS": `{"region": "eu"}`,
			"SERVICE_ADAPTER_SERVICES":           "redis:\n  bind_defaults: {b: 1}\n",
			"SERVICE_ADAPTER_GLOBAL_LABELS":      "{team: data}",
			"SERVICE_ADAPTER_ALLOWED_REFERENCES": "[/ca]",
			"SERVICE_ADAPTER_LOG_LEVEL":          "warn",
		})
		Expect(err).NotTo(HaveOccurred())
		yes := true
		Expect(loaded).To(Equal(config.Config{
			Paks: []string{"/a", "/b"}, Service: "yes", Broker: config.Broker{SecureManifests: &yes},
			State:            config.State{Type: "local", Config: object{"dir": "/store"}},
			Directories:      config.Directories{PreparedDir: "/prepared", CacheDir: "/cache"},
			Limits:           config.Limits{Budget: 10 * time.Second, ErrandLimit: 3 * time.Hour},
			ErrandProperties: object{"paks": []any{"/a"}},
			Values: config.Values{
				ProvisionDefaults: object{"region": "eu"},
				Services:          map[string]config.Service{"redis": {BindDefaults: object{"b": 1}}},
				GlobalLabels:      map[string]string{"team": "data"},
			},
			AllowedReferences: []string{"/ca"}, LogLevel: "warn",
		}))
	})

	It("counts an empty variable as unset", func() {
		loaded, err := load("paks: [/pak]\nbudget: 5s", map[string]string{"SERVICE_ADAPTER_BUDGET": ""})
		Expect(err).NotTo(HaveOccurred())
		Expect(loaded.Budget).To(Equal(5 * time.Second))
	})

	DescribeTable("rejects a file with the line of the fault, and without values",
		func(text string, messages ...string) {
			_, err := load(text, nil)
			for _, message := range messages {
				Expect(err).To(MatchError(ContainSubstring(message)))
			}
			Expect(err).NotTo(MatchError(ContainSubstring("s3cret")))
			Expect(err).NotTo(MatchError(ContainSubstring("unmarshal")), "the text of the library")
		},
		Entry("unknown key", "paks: [/p]\nsecure_manifest: true",
			`config.yml:2: unknown key "secure_manifest"; did you mean "secure_manifests"?`),
		Entry("unknown key without a similar one", "paks: [/p]\nzzz: s3cret",
			`config.yml:2: unknown key "zzz"; allowed: paks, service, secure_manifests,`),
		Entry("unknown key of the state", "paks: [/p]\nstate:\n  typ: local",
			`config.yml:3: unknown key "typ" in state; did you mean "type"?`),
		Entry("unknown key of a service", "services:\n  redis:\n    bind_default: {}",
			`config.yml:3: unknown key "bind_default" in services.redis; did you mean "bind_defaults"?`),
		Entry("several faults at once", "pak: [/p]\nbudget: fast", `config.yml:1: unknown key "pak"`,
			"config.yml:2: budget must be a duration such as 45s"),
		Entry("text for a list", "paks: s3cret", "config.yml:1: paks must be a list"),
		Entry("list for a text", "paks: [[s3cret]]", "config.yml:1: an entry of paks must be a text"),
		Entry("mapping for a text", "service: {s3cret: 1}", "config.yml:1: service must be a text"),
		Entry("text for a boolean", "secure_manifests: s3cret-and-more",
			"config.yml:1: secure_manifests must be true or false"),
		Entry("number for a duration", "budget: 45", "config.yml:1: budget must be a duration such as 45s"),
		Entry("list for a mapping", "config: [s3cret]", "config.yml:1: config must be a mapping"),
		Entry("text for a mapping", "state: s3cret", "config.yml:1: state must be a mapping"),
		Entry("text of several lines", "budget: |\n  s3cret\n  s3cret\n", "config.yml:1: budget must be a duration"),
		Entry("value with a tag", "budget: !s3cret s3cret", "config.yml:1: budget must be"),
		Entry("wrong plans", "services: {redis: {plans: {s3cret: 1}}}",
			"config.yml:1: services.redis.plans must be a list"),
		Entry("not a mapping", "- s3cret", "config.yml:1: the configuration must be a mapping"),
		Entry("key twice", "paks: [/p]\npaks: [/q]", `config.yml:2: key "paks" is set twice`),
		Entry("key twice in a free value", "config:\n  a: 1\n  a: 2", `config.yml:3: key "a" is set twice`),
		Entry("not YAML", "paks: [/p\nservice: \"s3cret", "config.yml: not valid YAML near line"),
		Entry("unquoted asterisk", "service: *s3cret",
			"config.yml: not valid YAML: a text that begins with * must be quoted"),
		Entry("value that contains itself", "config: &a {s3cret: *a}",
			"config.yml:1: nested more than 200 levels deep, or an alias or merge that contains itself"),
		Entry("two documents", "paks: [/p]\n---\nservice: x", "config.yml: only one YAML document is allowed"),
		Entry("empty file", "", "paks must name at least one brokerpak"),
		Entry("comment only", "# nothing\n", "paks must name at least one brokerpak"),
		Entry("empty pak", "paks: [\"\"]", "an entry of paks is empty"),
		Entry("too small a budget", "paks: [/p]\nbudget: 5ms", "budget must be at least 1s"),
		Entry("text for a number", "paks: [/p]\nmax_request_kb: s3cret",
			"config.yml:2: max_request_kb must be a whole number"),
		Entry("negative number", "paks: [/p]\nmax_request_kb: -1", "max_request_kb must be a number from 1 to 65536"),
		Entry("too large a number", "paks: [/p]\nmax_request_kb: 65537",
			"max_request_kb must be a number from 1 to 65536"),
		Entry("unknown log level", "paks: [/p]\nlog_level: s3cret",
			"log_level must be one of debug, info, warn and error"),
		Entry("relative state", "paks: [/p]\nstate: {config: {dir: s3cret}}",
			"state.config of the local backend must have one key, dir, the absolute path"),
		Entry("more state", "paks: [/p]\nstate: {config: {dir: /s, path: s3cret}}",
			"state.config of the local backend must have one key"),
		Entry("relative reference", "paks: [/p]\nallowed_references: [s3cret]",
			"an entry of allowed_references must be an absolute CredHub path"),
	)

	DescribeTable("rejects a variable with its name, and without its value",
		func(variable, text, message string) {
			_, err := load("paks: [/p]", map[string]string{variable: text})
			Expect(err).To(MatchError(ContainSubstring("environment variable " + variable + ": " + message)))
			Expect(err).NotTo(MatchError(ContainSubstring("s3cret")))
		},
		Entry("wrong type", "SERVICE_ADAPTER_PAKS", "s3cret", "paks must be a list"),
		Entry("unknown key", "SERVICE_ADAPTER_STATE", "{dir: s3cret}", `unknown key "dir" in state`),
		Entry("not YAML", "SERVICE_ADAPTER_STATE", "{s3cret", "not valid YAML"),
		Entry("no document", "SERVICE_ADAPTER_SERVICE", "# s3cret", "it must be YAML"),
		Entry("duration", "SERVICE_ADAPTER_BUDGET", "s3cret", "budget must be a duration such as 45s"),
	)

	It("reports faults of file and environment together", func() {
		_, err := load("pakz: [/p]", map[string]string{"SERVICE_ADAPTER_BUDGET": "[]"})
		Expect(err).To(MatchError(And(ContainSubstring(`unknown key "pakz"`),
			ContainSubstring("SERVICE_ADAPTER_BUDGET"))))
	})

	It("is not read from another file if the named one is missing", func() {
		GinkgoT().Chdir(GinkgoT().TempDir())
		Expect(os.WriteFile("service-adapter.yml", []byte("paks: [/pak]"), 0o600)).To(Succeed())
		_, _, err := config.Load(func(name string) (string, bool) {
			return "/nowhere/x.yml", name == config.Variable
		})
		Expect(err).To(MatchError(ContainSubstring(
			"reading the configuration that SERVICE_ADAPTER_CONFIG names: open /nowhere/x.yml")))
	})

	It("is read from the working directory if neither the variable nor the file of the job exists", func() {
		if _, err := os.Stat(config.DefaultPath); err == nil {
			Skip("this machine has " + config.DefaultPath)
		}
		GinkgoT().Chdir(GinkgoT().TempDir())
		nothing := func(string) (string, bool) { return "", false }
		_, _, err := config.Load(nothing)
		Expect(err).To(MatchError(ContainSubstring("checking the configuration: the environment: paks must name")))
		Expect(os.WriteFile("service-adapter.yml", []byte("paks: [/pak]"), 0o600)).To(Succeed())
		loaded, _, err := config.Load(nothing)
		Expect(err).NotTo(HaveOccurred())
		Expect(loaded.Paks).To(Equal([]string{"/pak"}))
	})
})
