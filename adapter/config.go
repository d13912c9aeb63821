package adapter

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"service-adapter/internal/redact"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tofu"
	"service-adapter/internal/value"
)

// Config is the operator's configuration. Every key can also be set by the environment variable SERVICE_ADAPTER_<KEY>, in upper
// case, whose value is YAML: SERVICE_ADAPTER_PAKS='[/paks/redis]', SERVICE_ADAPTER_STATE='{config: {dir: /store}}'. It replaces
// the whole key. The key config has none, because SERVICE_ADAPTER_CONFIG names the file; its entries have GSB_<KEY>.
type Config struct {
	// Paks are the brokerpaks: zip files or directories. At least one.
	Paks []string `yaml:"paks"`
	// Service is the service to serve where neither the request nor the plan says which.
	Service string `yaml:"service"`
	// SecureManifests says what the broker's enable_secure_manifests says; paks with secrets require it.
	SecureManifests *bool `yaml:"secure_manifests"`
	// DisableBoshConfigs says what the broker's disable_bosh_configs says; requests that need a BOSH config are then refused.
	DisableBoshConfigs bool `yaml:"disable_bosh_configs"`
	// State is where bindings are kept.
	State StateConfig `yaml:"state"`
	// PreparedDir holds initialised OpenTofu directories made ahead; it is only read.
	PreparedDir string `yaml:"prepared_dir"`
	// CacheDir is a private, writable directory; default: one under TMPDIR.
	CacheDir string `yaml:"cache_dir"`
	// Budget is how long one command may take; default 45s. Cloud Foundry gives a bind 60 seconds.
	Budget time.Duration `yaml:"budget"`
	// ErrandLimit is how long the work on an instance may take that no request waits for: the lifecycle errands apply-instance and
	// destroy-instance, and what operators do with instances; default 2h. A lock of an instance's state is not taken for stale before.
	ErrandLimit time.Duration `yaml:"errand_limit"`
	// ErrandProperties are properties of the jobs apply-instance and destroy-instance in the manifests of instances: the state backend,
	// its key and what the paks need. Texts may hold expressions of the instance.
	ErrandProperties map[string]any `yaml:"errand_properties"`
	// ProvisionDefaults are default variables of every service (also GSB_PROVISION_DEFAULTS, JSON).
	ProvisionDefaults map[string]any `yaml:"provision_defaults"`
	// Services holds what concerns one service, by its name.
	Services map[string]ServiceConfig `yaml:"services"`
	// GlobalLabels are part of request.default_labels.
	GlobalLabels map[string]string `yaml:"global_labels"`
	// Config is what the expression config("key") finds.
	Config map[string]any `yaml:"config"`
	// AllowedReferences are absolute CredHub paths that manifests may refer to.
	AllowedReferences []string `yaml:"allowed_references"`
	// RecordRequests is a directory that keeps the latest requests, with secrets replaced, for service-adapter replay; default:
	// none are kept.
	RecordRequests string `yaml:"record_requests"`
	// AuditLog is a file to which each change of a binding or an instance is written, when it begins and when it ends; default: none.
	AuditLog string `yaml:"audit_log"`
	// BrokerpakUpdatesEnabled lets existing instances get the provision template of the installed pak.
	BrokerpakUpdatesEnabled bool `yaml:"brokerpak_updates_enabled"`
	// TerraformUpgradesEnabled lets existing instances be upgraded to the installed pak's OpenTofu, along its
	// terraform_upgrade_path; they then get its provision template as well.
	TerraformUpgradesEnabled bool `yaml:"terraform_upgrades_enabled"`
	// MaxRequestKB bounds the parameters and the context of a request, in KB; default 256. What OpenTofu needs of memory grows with them.
	MaxRequestKB int `yaml:"max_request_kb"`
	// LogLevel is debug, info, warn or error; default info.
	LogLevel string `yaml:"log_level"`
}

// StateConfig is an OpenTofu state backend.
type StateConfig struct {
	// Type is the backend; default local.
	Type string `yaml:"type"`
	// Config are the backend's settings; for local only dir, a durable directory.
	Config map[string]any `yaml:"config"`
	// Encryption encrypts the states; nil leaves them as they are.
	Encryption *EncryptionConfig `yaml:"encryption"`
	// Direct lets the adapter itself read and write states of local and pg; default true.
	Direct *bool `yaml:"direct"`
}

// EncryptionConfig is how states are encrypted.
type EncryptionConfig struct {
	// Key is what encrypts, base64 of 32 random bytes.
	Key string `yaml:"key"`
	// OldKeys are keys with which stored states may be encrypted.
	OldKeys []string `yaml:"old_keys"`
}

// ServiceConfig is the operator's configuration of one service. Each key has an environment form of its own, JSON:
// GSB_SERVICE_<NAME>_PROVISION_DEFAULTS, …_BIND_DEFAULTS and …_PLANS.
type ServiceConfig struct {
	ProvisionDefaults map[string]any   `yaml:"provision_defaults"`
	BindDefaults      map[string]any   `yaml:"bind_defaults"`
	Plans             []map[string]any `yaml:"plans"`
}

// DefaultConfigPath is where the BOSH job puts the configuration; ConfigVariable names another file.
const (
	DefaultConfigPath = "/var/vcap/jobs/service-adapter/config/service-adapter.yml"
	localConfigPath   = "service-adapter.yml"
	ConfigVariable    = "SERVICE_ADAPTER_CONFIG"
	envPrefix         = "SERVICE_ADAPTER_"
	// environmentOnly stands for the path where there is no file.
	environmentOnly = "the environment"
)

// Defaults of the configuration.
const (
	defaultBudget       = 45 * time.Second
	defaultErrandLimit  = 2 * time.Hour
	defaultMaxRequestKB = 256
	defaultStateDir     = "/var/vcap/store/service-adapter"
	localBackend        = "local"
)

// LoadConfig finds, reads and checks the configuration: the file that SERVICE_ADAPTER_CONFIG names, else the BOSH job's, else
// service-adapter.yml in the working directory, else the environment alone. getenv looks up environment variables.
func LoadConfig(getenv func(string) (string, bool)) (Config, error) {
	config, _, err := loadConfig(getenv)
	return config, err
}

// loadConfig is LoadConfig; warning, which may be empty, says what is unwise about the file.
func loadConfig(getenv func(string) (string, bool)) (config Config, warning string, err error) {
	path, text, err := findConfig(getenv)
	if err != nil {
		return Config{}, "", err
	}
	fileErr := DecodeStrict(path, "", text, &config)
	if fileErr == nil {
		warning = config.exposed(path)
	}
	if err := errors.Join(fileErr, config.applyEnvironment(getenv)); err != nil {
		return Config{}, "", fmt.Errorf("reading the configuration: %w", err)
	}
	config.setDefaults(getenv)
	return config, warning, config.validate(path)
}

// exposed tells that everybody may read a configuration file that holds keys or passwords.
func (c *Config) exposed(path string) string {
	const everybody = 0o004
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&everybody == 0 {
		return ""
	}
	secrets := &redact.Secrets{}
	if c.addSecrets(secrets); !secrets.Any() {
		return ""
	}
	return fmt.Sprintf("everybody may read the keys or passwords in %s (mode %04o); take that right away: chmod o-r", path, info.Mode().Perm())
}

func findConfig(getenv func(string) (string, bool)) (path, text string, err error) {
	paths, which := []string{DefaultConfigPath, localConfigPath}, ""
	named, _ := getenv(ConfigVariable)
	if named != "" {
		paths, which = []string{named}, fmt.Sprintf(" that %s names", ConfigVariable)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path) //nolint:gosec // the operator names the file
		if err == nil {
			return path, string(data), nil
		}
		if named != "" || !errors.Is(err, os.ErrNotExist) {
			return path, "", fmt.Errorf("reading the configuration%s: %w", which, err)
		}
	}
	return environmentOnly, "", nil
}

// over is an environment with other values for some variables.
func over(getenv func(string) (string, bool), variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if text, ok := variables[name]; ok {
			return text, true
		}
		return getenv(name)
	}
}

// applyEnvironment replaces keys by what their environment variables say. An empty variable counts as unset.
func (c *Config) applyEnvironment(getenv func(string) (string, bool)) error {
	var failed []error
	fields := reflect.ValueOf(c).Elem()
	keys, _ := FieldsOf(fields.Type())
	for i, key := range keys {
		variable := envPrefix + strings.ToUpper(key)
		text, ok := getenv(variable)
		if !ok || text == "" || variable == ConfigVariable {
			continue
		}
		replacement := reflect.New(fields.Field(i).Type())
		if err := DecodeStrict("environment variable "+variable, key, text, replacement.Interface()); err != nil {
			failed = append(failed, err)
			continue
		}
		fields.Field(i).Set(replacement.Elem())
	}
	return errors.Join(failed...)
}

func (c *Config) setDefaults(getenv func(string) (string, bool)) {
	temporary, _ := getenv("TMPDIR")
	c.State.Type = cmp.Or(c.State.Type, localBackend)
	if c.State.Type == localBackend && c.State.Config == nil {
		c.State.Config = map[string]any{"dir": defaultStateDir}
	}
	c.Budget = cmp.Or(c.Budget, defaultBudget)
	c.ErrandLimit = cmp.Or(c.ErrandLimit, max(defaultErrandLimit, c.Budget))
	c.LogLevel = cmp.Or(c.LogLevel, "info")
	c.CacheDir = cmp.Or(c.CacheDir, filepath.Join(cmp.Or(temporary, "/tmp"), fmt.Sprintf("service-adapter-%d", os.Getuid())))
}

// noFile tells where a configuration was looked for when none was found.
func noFile(path string) string {
	if path != environmentOnly {
		return ""
	}
	return fmt.Sprintf("; %s names no file, and there is neither %s nor %s in the working directory", ConfigVariable, DefaultConfigPath, localConfigPath)
}

// validate checks the values and reports all faults. Values are not shown: one in the wrong place may be a secret.
func (c *Config) validate(path string) error {
	var failed []error
	check := func(holds bool, message string) {
		if !holds {
			failed = append(failed, fmt.Errorf("checking the configuration: %s: %s", path, message))
		}
	}
	check(len(c.Paks) > 0, "paks must name at least one brokerpak"+noFile(path))
	check(!slices.Contains(c.Paks, ""), "an entry of paks is empty")
	check(c.Budget >= time.Second, "budget must be at least 1s")
	check(c.ErrandLimit >= c.Budget, "errand_limit must not be below budget")
	check(c.MaxRequestKB >= 0 && c.MaxRequestKB <= maxInput>>10, fmt.Sprintf("max_request_kb must be a number from 1 to %d", maxInput>>10))
	check(slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel), "log_level must be one of debug, info, warn and error")
	check(c.RecordRequests == "" || filepath.IsAbs(c.RecordRequests), "record_requests must be an absolute path")
	check(c.AuditLog == "" || filepath.IsAbs(c.AuditLog), "audit_log must be an absolute path")
	check(filepath.IsAbs(c.CacheDir), "cache_dir must be an absolute path")
	dir, _ := c.State.Config["dir"].(string)
	check(c.State.Type != localBackend || len(c.State.Config) == 1 && filepath.IsAbs(dir),
		"state.config of the local backend must have one key, dir, the absolute path of a durable directory")
	if _, err := c.State.Encryption.decode(); err != nil {
		check(false, err.Error())
	}
	for _, reference := range c.AllowedReferences {
		check(strings.HasPrefix(reference, "/"), "an entry of allowed_references must be an absolute CredHub path, such as /global/root_ca")
	}
	return errors.Join(failed...)
}

// maxRequest bounds the parameters and the context of a request in bytes.
func (c *Config) maxRequest() int { return cmp.Or(c.MaxRequestKB, defaultMaxRequestKB) << 10 }

// addSecrets adds the keys of states, and the credentials among the settings of the backend and what operators set for services.
func (c *Config) addSecrets(secrets *redact.Secrets) {
	if keys := c.State.Encryption; keys != nil {
		secrets.Add(keys.Key, value.Texts(keys.OldKeys))
	}
	values := []map[string]any{c.State.Config, c.Config, c.ProvisionDefaults, c.ErrandProperties}
	for _, service := range c.Services {
		values = append(values, service.ProvisionDefaults, service.BindDefaults)
	}
	for _, set := range values {
		secrets.AddValues(normalised(set))
	}
}

// backend is the state backend of the configuration.
func (c *Config) backend() tofu.Backend {
	if c.State.Type != localBackend {
		return tofu.Backend{Type: c.State.Type, Config: normalised(c.State.Config)}
	}
	dir, _ := c.State.Config["dir"].(string)
	return tofu.Local(dir)
}

// keySize is the length of a key in bytes.
const keySize = 32

// decode returns the keys, nil without a configuration. The error reports all faults.
func (e *EncryptionConfig) decode() (*statestore.Encryption, error) {
	if e == nil {
		return nil, nil //nolint:nilnil // no encryption is no fault
	}
	var failed []error
	key := func(where, text string) []byte {
		key, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || len(key) != keySize {
			failed = append(failed, fmt.Errorf("%s must be 32 random bytes in base64, as openssl rand -base64 32 prints them", where))
		}
		return key
	}
	encryption := &statestore.Encryption{Key: key("state.encryption.key", e.Key)}
	for _, old := range e.OldKeys {
		encryption.OldKeys = append(encryption.OldKeys, key("an entry of state.encryption.old_keys", old))
	}
	return encryption, errors.Join(failed...)
}
