// Package config reads and validates the operator's configuration, and decides what follows from it alone: the backend
// and the keys of states, the secrets to mask, and whether the lifecycle errands of an instance can work with their
// properties.
package config

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

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/redact"
	"service-adapter/internal/strictyaml"
	"service-adapter/internal/value"
)

// Config is the operator's configuration. Every key can also be set by the environment variable
// SERVICE_ADAPTER_<KEY>, in upper case, whose value is YAML: SERVICE_ADAPTER_PAKS='[/paks/redis]',
// SERVICE_ADAPTER_STATE='{config: {dir: /store}}'. The variable replaces the value of the whole key; an empty variable
// counts as unset. The key config has no such variable, because SERVICE_ADAPTER_CONFIG names the file; its entries can
// be set by GSB_<KEY>.
type Config struct {
	// Paks are the paths of the brokerpaks, which are zip files or directories. There must be at least one.
	Paks []string `yaml:"paks"`
	// Service is the name of the service that is chosen if neither the request nor the plan determines one. "" means
	// the only service of the paks.
	Service string `yaml:"service"`

	Broker `yaml:",inline"`

	// State is the backend that stores the states of bindings and instances.
	State State `yaml:"state"`

	Directories `yaml:",inline"`
	Limits      `yaml:",inline"`

	// ErrandProperties are properties of the jobs apply-instance and destroy-instance in the manifests of instances:
	// the state backend, its key, and the configuration of the paks. Texts may contain expressions, which are
	// evaluated for each instance.
	ErrandProperties map[string]any `yaml:"errand_properties"`

	Values `yaml:",inline"`

	// AllowedReferences are absolute CredHub paths to which manifests may refer.
	AllowedReferences []string `yaml:"allowed_references"`

	Files   `yaml:",inline"`
	Updates `yaml:",inline"`

	// MaxRequestKB bounds the size of the parameters and the context of a request, in KB; default 256. The memory
	// that OpenTofu needs grows with them.
	MaxRequestKB int `yaml:"max_request_kb"`
	// LogLevel is debug, info, warn or error; default info.
	LogLevel string `yaml:"log_level"`
}

// Broker contains the settings that must have the same values as in the configuration of the broker.
type Broker struct {
	// SecureManifests must have the value of the broker's enable_secure_manifests. nil means that it is not set, which
	// is an error if a service has secrets or sensitive outputs.
	SecureManifests *bool `yaml:"secure_manifests"`
	// DisableBoshConfigs must have the value of the broker's disable_bosh_configs. If it is true, requests that need
	// a BOSH config are rejected.
	DisableBoshConfigs bool `yaml:"disable_bosh_configs"`
}

// Directories are the directories in which commands find and keep files that they can create again.
type Directories struct {
	// PreparedDir is a directory with templates that the command prepare has initialised; other commands only read it.
	// "" means none.
	PreparedDir string `yaml:"prepared_dir"`
	// CacheDir is a writable directory that no other user may access; default: a directory in TMPDIR.
	CacheDir string `yaml:"cache_dir"`
}

// Limits bound the duration of work: that of commands, and that of work on an instance for which no request waits. Load
// replaces a zero by the default.
type Limits struct {
	// Budget bounds the duration of one command; default 45s. Cloud Foundry waits 60 seconds for a bind.
	Budget time.Duration `yaml:"budget"`
	// ErrandLimit bounds the duration of work on an instance for which no request waits: the lifecycle errands
	// apply-instance and destroy-instance, and the commands of operators for instances; default 2h. Until then, the
	// lock of an instance's state is never considered stale.
	ErrandLimit time.Duration `yaml:"errand_limit"`
}

// Values are the values that the operator supplies to the definitions of paks, for their inputs and expressions.
type Values struct {
	// ProvisionDefaults are default variables for the provision action of every service. Those in the environment
	// variable GSB_PROVISION_DEFAULTS, in JSON, are added and take precedence.
	ProvisionDefaults map[string]any `yaml:"provision_defaults"`
	// Services contains the configuration of single services, by the name of the service.
	Services map[string]Service `yaml:"services"`
	// GlobalLabels are added to request.default_labels.
	GlobalLabels map[string]string `yaml:"global_labels"`
	// Config contains the values that the expression config("key") returns.
	Config map[string]any `yaml:"config"`
}

// Files are the files that commands write for operators.
type Files struct {
	// RecordRequests is a directory for recordings of the latest requests, with secrets masked, which service-adapter
	// replay reads. "" means that requests are not recorded.
	RecordRequests string `yaml:"record_requests"`
	// AuditLog is a file to which an event is written when a change of a binding or an instance begins and when it
	// ends. "" means that events are written to the log only.
	AuditLog string `yaml:"audit_log"`
}

// Updates permits changes of existing instances that a new version of a pak brings.
type Updates struct {
	// BrokerpakUpdatesEnabled permits that an update of an existing instance uses the provision template of the
	// installed pak.
	BrokerpakUpdatesEnabled bool `yaml:"brokerpak_updates_enabled"`
	// TerraformUpgradesEnabled permits that existing instances are upgraded to the OpenTofu of the installed pak,
	// along its terraform_upgrade_path. The upgraded instances also use its provision template.
	TerraformUpgradesEnabled bool `yaml:"terraform_upgrades_enabled"`
}

// State configures an OpenTofu state backend.
type State struct {
	// Type is the name of the backend; default local.
	Type string `yaml:"type"`
	// Config are the settings of the backend. The backend local has one, dir, a directory that must be durable. For
	// local, nil means the directory /var/vcap/store/service-adapter.
	Config map[string]any `yaml:"config"`
	// Encryption configures the encryption of states; nil means that they are not encrypted.
	Encryption *Encryption `yaml:"encryption"`
	// Direct permits that the adapter itself reads and writes states of local and pg, without OpenTofu. nil means true.
	Direct *bool `yaml:"direct"`
}

// Encryption contains the keys for the encryption of states, each 32 random bytes in base64.
type Encryption struct {
	// Key is the key that encrypts states.
	Key string `yaml:"key"`
	// OldKeys are former keys, which can still decrypt stored states.
	OldKeys []string `yaml:"old_keys"`
}

// Service is the configuration of one service: default variables for its provision and bind actions, and plans in
// addition to those of the pak. The JSON in the environment variables GSB_SERVICE_<NAME>_PROVISION_DEFAULTS,
// …_BIND_DEFAULTS and …_PLANS adds to each key: its default variables take precedence over those with the same names,
// and its plans follow.
type Service struct {
	ProvisionDefaults map[string]any   `yaml:"provision_defaults"`
	BindDefaults      map[string]any   `yaml:"bind_defaults"`
	Plans             []map[string]any `yaml:"plans"`
}

// The sources of the configuration. The BOSH job writes the file DefaultPath. The environment variable
// Variable contains the path of another file.
const (
	DefaultPath     = "/var/vcap/jobs/service-adapter/config/service-adapter.yml"
	localConfigPath = "service-adapter.yml"
	Variable        = "SERVICE_ADAPTER_CONFIG"
	envPrefix       = "SERVICE_ADAPTER_"
	// environmentOnly replaces the path in messages if there is no configuration file.
	environmentOnly = "the environment"
)

// Defaults of the configuration.
const (
	defaultBudget       = 45 * time.Second
	defaultErrandLimit  = 2 * time.Hour
	defaultMaxRequestKB = 256
	defaultStateDir     = "/var/vcap/store/service-adapter"
)

// Local is the type of the state backend that stores states on this machine.
const Local = "local"

// MaxInput bounds the standard input of a command, and thereby max_request_kb, in bytes. The largest inputs of the
// broker contain manifests of a few megabytes.
const MaxInput = 64 << 20

// Load reads and validates the configuration. It uses the first of: the file named by SERVICE_ADAPTER_CONFIG, the file
// DefaultPath, the file service-adapter.yml in the working directory. A file that SERVICE_ADAPTER_CONFIG names must
// exist. If the variable is unset or empty and none of the two files exists, the environment alone is the
// configuration. getenv looks up environment variables. Unset keys have their defaults in the result, except
// MaxRequestKB; see Config.MaxRequest. The error lists all faults without values, which may be secrets; the
// configuration must not be used then.
//
// The warning says that all users may read the secrets in the file. It is "" otherwise.
func Load(getenv func(string) (string, bool)) (config Config, warning string, err error) {
	path, text, err := findConfig(getenv)
	if err != nil {
		return Config{}, "", err
	}
	fileErr := strictyaml.Decode(path, "", text, &config)
	if fileErr == nil {
		warning = config.publicSecrets(path)
	}
	if err := errors.Join(fileErr, config.applyEnvironment(getenv)); err != nil {
		return Config{}, "", fmt.Errorf("reading the configuration: %w", err)
	}
	config.setDefaults(getenv)
	return config, warning, config.validate(path)
}

// publicSecrets returns a warning if all users may read the configuration file at path and it contains keys or
// passwords, else "". It also returns "" if the file cannot be inspected, as without any file.
func (c *Config) publicSecrets(path string) string {
	const everybody = 0o004
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&everybody == 0 {
		return ""
	}
	secrets := &redact.Secrets{}
	if c.AddSecrets(secrets); !secrets.Any() {
		return ""
	}
	return fmt.Sprintf("everybody may read the keys or passwords in %s (mode %04o); take that right away: chmod o-r",
		path, info.Mode().Perm())
}

// findConfig returns the path and content of the configuration file, or environmentOnly and "" if there is none. It
// returns an error if the file that SERVICE_ADAPTER_CONFIG names does not exist, or if the first file that exists
// cannot be read. See Load for the order of the files.
func findConfig(getenv func(string) (string, bool)) (path, text string, err error) {
	paths, which := []string{DefaultPath, localConfigPath}, ""
	named, _ := getenv(Variable)
	if named != "" {
		paths, which = []string{named}, fmt.Sprintf(" that %s names", Variable)
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

// VariableOf returns the name of the environment variable that sets a key of the configuration, such as "paks".
func VariableOf(key string) string { return "SERVICE_ADAPTER_" + strings.ToUpper(key) }

// Override returns a lookup function like getenv in which the variables have precedence. A variable with the value ""
// is set.
func Override(getenv func(string) (string, bool), variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if text, ok := variables[name]; ok {
			return text, true
		}
		return getenv(name)
	}
}

// applyEnvironment replaces the values of keys whose environment variables are set and not empty; see VariableOf. The
// error lists all variables that cannot be decoded, without their values. Their keys keep their values.
// SERVICE_ADAPTER_CONFIG is not such a variable.
func (c *Config) applyEnvironment(getenv func(string) (string, bool)) error {
	var failed []error
	target := reflect.ValueOf(c).Elem()
	keys, fields := strictyaml.Fields(target.Type())
	for i, key := range keys {
		variable := VariableOf(key)
		text, ok := getenv(variable)
		if !ok || text == "" || variable == Variable {
			continue
		}
		replacement := reflect.New(fields[i].Type)
		if err := strictyaml.Decode("environment variable "+variable, key, text, replacement.Interface()); err != nil {
			failed = append(failed, err)
			continue
		}
		target.FieldByIndex(fields[i].Index).Set(replacement.Elem())
	}
	return errors.Join(failed...)
}

// setDefaults sets the keys that are unset, or zero, to their defaults, as far as they have one. The default of
// errand_limit is never below the budget. Only MaxRequestKB stays 0; see MaxRequest. getenv looks up TMPDIR, in which
// the cache directory is by default.
func (c *Config) setDefaults(getenv func(string) (string, bool)) {
	temporary, _ := getenv("TMPDIR")
	c.State.Type = cmp.Or(c.State.Type, Local)
	if c.State.Type == Local && c.State.Config == nil {
		c.State.Config = map[string]any{"dir": defaultStateDir}
	}
	c.Budget = cmp.Or(c.Budget, defaultBudget)
	c.ErrandLimit = cmp.Or(c.ErrandLimit, max(defaultErrandLimit, c.Budget))
	c.LogLevel = cmp.Or(c.LogLevel, "info")
	c.CacheDir = cmp.Or(c.CacheDir, filepath.Join(cmp.Or(temporary, "/tmp"),
		fmt.Sprintf("service-adapter-%d", os.Getuid())))
}

// missingFileHint returns a hint on the paths of the configuration file if path is environmentOnly, because no file was
// found, else "".
func missingFileHint(path string) string {
	if path != environmentOnly {
		return ""
	}
	return fmt.Sprintf("; %s names no file, and there is neither %s nor %s in the working directory", Variable,
		DefaultPath, localConfigPath)
}

// validate returns an error that lists all faults of the configuration, in which defaults have been set. It does not
// contain values, because a value at the wrong key may be a secret. It is nil if there are none. path is the file that
// the messages name. Files and directories are not accessed.
func (c *Config) validate(path string) error {
	var failed []error
	check := func(holds bool, message string) {
		if !holds {
			failed = append(failed, fmt.Errorf("checking the configuration: %s: %s", path, message))
		}
	}
	check(len(c.Paks) > 0, "paks must name at least one brokerpak"+missingFileHint(path))
	check(!slices.Contains(c.Paks, ""), "an entry of paks is empty")
	check(c.Budget >= time.Second, "budget must be at least 1s")
	check(c.ErrandLimit >= c.Budget, "errand_limit must not be below budget")
	check(c.MaxRequestKB >= 0 && c.MaxRequestKB <= MaxInput>>10,
		fmt.Sprintf("max_request_kb must be a number from 1 to %d", MaxInput>>10))
	check(slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel),
		"log_level must be one of debug, info, warn and error")
	check(c.RecordRequests == "" || filepath.IsAbs(c.RecordRequests), "record_requests must be an absolute path")
	check(c.AuditLog == "" || filepath.IsAbs(c.AuditLog), "audit_log must be an absolute path")
	check(filepath.IsAbs(c.CacheDir), "cache_dir must be an absolute path")
	dir, _ := c.State.Config["dir"].(string)
	check(c.State.Type != Local || len(c.State.Config) == 1 && filepath.IsAbs(dir),
		"state.config of the local backend must have one key, dir, the absolute path of a durable directory")
	if _, err := c.State.Encryption.Decode(); err != nil {
		check(false, err.Error())
	}
	for _, reference := range c.AllowedReferences {
		check(strings.HasPrefix(reference, "/"),
			"an entry of allowed_references must be an absolute CredHub path, such as /global/root_ca")
	}
	return errors.Join(failed...)
}

// MaxRequest returns the maximum size of the parameters and the context of a request, in bytes. If MaxRequestKB is 0,
// it is the default.
func (c *Config) MaxRequest() int { return cmp.Or(c.MaxRequestKB, defaultMaxRequestKB) << 10 }

// AddSecrets adds the secrets of the configuration to a set for masking, which must not be nil: the encryption keys of
// states, and the credentials in State.Config, Config, ErrandProperties, and the default variables and plans of all
// services, which package redact recognises by their names and contents.
func (c *Config) AddSecrets(secrets *redact.Secrets) {
	if keys := c.State.Encryption; keys != nil {
		secrets.Add(keys.Key, value.Texts(keys.OldKeys))
	}
	values := []map[string]any{c.State.Config, c.Config, c.ProvisionDefaults, c.ErrandProperties}
	for _, service := range c.Services {
		values = append(values, service.ProvisionDefaults, service.BindDefaults)
		values = append(values, service.Plans...)
	}
	for _, set := range values {
		secrets.AddValues(value.NormaliseMap(set))
	}
}

// Backend returns the state backend of a configuration that Load returned. It does not create or check a directory.
func (c *Config) Backend() backend.Backend {
	if c.State.Type != Local {
		return backend.Backend{Type: c.State.Type, Config: value.NormaliseMap(c.State.Config)}
	}
	dir, _ := c.State.Config["dir"].(string)
	return backend.Local(dir)
}

// keySize is the length of an encryption key in bytes.
const keySize = 32

// Decode returns the keys, decoded from base64, or nil if e is nil, which means that states are not encrypted. The
// error lists all keys that are not valid, without their text; the result must not be used then.
func (e *Encryption) Decode() (*statestore.Encryption, error) {
	if e == nil {
		return nil, nil //nolint:nilnil // encryption is optional
	}
	var failed []error
	key := func(where, text string) []byte {
		key, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || len(key) != keySize {
			failed = append(failed,
				fmt.Errorf("%s must be 32 random bytes in base64, as openssl rand -base64 32 prints them", where))
		}
		return key
	}
	encryption := &statestore.Encryption{Key: key("state.encryption.key", e.Key)}
	for _, old := range e.OldKeys {
		encryption.OldKeys = append(encryption.OldKeys, key("an entry of state.encryption.old_keys", old))
	}
	return encryption, errors.Join(failed...)
}
