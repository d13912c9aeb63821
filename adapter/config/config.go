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

// Config is the operator's configuration. Load returns a valid one with defaults; the zero value is not valid,
// because at least one pak is required. Every top-level key of the file can also be set by the environment variable
// SERVICE_ADAPTER_<KEY>, in upper case, whose value is YAML: SERVICE_ADAPTER_PAKS='[/paks/redis]',
// SERVICE_ADAPTER_STATE='{config: {dir: /store}}'. The variable replaces the value of the whole key; an empty
// variable counts as unset. The key config has no such variable, because SERVICE_ADAPTER_CONFIG names the file; its
// entries can be set by GSB_<KEY> for expressions, and by variables of the same name for OpenTofu.
//
// All keys except paks are optional. A Service of "" means the only service of the paks; if they have several, each
// request must determine its service. A MaxRequestKB of 0 means 256. For the other parts, their types explain the
// zero values.
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

	// MaxRequestKB bounds, in KB of 1024 bytes, the size of the body of a create-binding or generate-manifest request,
	// which consists mainly of the parameters and the context. It also bounds the size of the parameters of a
	// generate-manifest request, merged over the recorded ones of the instance. 0 means 256; see MaxRequest. The memory
	// that OpenTofu needs grows with these sizes.
	MaxRequestKB int `yaml:"max_request_kb"`
	// LogLevel is debug, info, warn or error; default info.
	LogLevel string `yaml:"log_level"`
}

// Broker contains the top-level keys secure_manifests and disable_bosh_configs, which must have the same values as
// the corresponding settings of the broker. In the zero value, secure_manifests is not set and BOSH configs are
// permitted. While secure_manifests is not set, generate-manifest fails if the service has secrets, including those
// that it creates for sensitive outputs or secret inputs of the provision template.
type Broker struct {
	// SecureManifests must have the value of the broker's enable_secure_manifests. nil means that it is not set, with
	// which generate-manifest fails if the service has secrets.
	SecureManifests *bool `yaml:"secure_manifests"`
	// DisableBoshConfigs must have the value of the broker's disable_bosh_configs. If it is true, requests that need
	// a BOSH config are rejected.
	DisableBoshConfigs bool `yaml:"disable_bosh_configs"`
}

// Directories contains the paths of two directories. PreparedDir is the one in which the command prepare stores
// initialised templates; "" means that there is none. CacheDir, which must be an absolute path, is a private
// directory for files that can be created again and for copies of states. It must not be deleted while it contains a
// state that could not be saved in the backend. Load replaces a CacheDir of "" by service-adapter-UID in the
// directory TMPDIR, or in /tmp if TMPDIR is unset or empty. Load neither creates nor inspects the two directories.
// session.Session.Manager creates CacheDir, and returns an error if another user may write to or replace one of them.
type Directories struct {
	// PreparedDir is a directory with templates that the command prepare has initialised; other commands only read it.
	// "" means none.
	PreparedDir string `yaml:"prepared_dir"`
	// CacheDir is a writable directory that no other user may access; default: a directory in TMPDIR.
	CacheDir string `yaml:"cache_dir"`
}

// Limits bounds the duration of work: Budget that of one command, and ErrandLimit that of work on an instance for which
// no request waits, such as a lifecycle errand. Load replaces a zero Budget by 45s, and a zero ErrandLimit by 2h or the
// budget if that is longer. Load rejects a budget below 1s and an errand limit below the budget.
type Limits struct {
	// Budget bounds the duration of one command; default 45s. Cloud Foundry waits 60 seconds for a bind.
	Budget time.Duration `yaml:"budget"`
	// ErrandLimit bounds the duration of work on an instance for which no request waits: the lifecycle errands
	// apply-instance and destroy-instance, and the commands of operators for instances; default 2h. Until then, the
	// lock of an instance's state is never considered stale.
	ErrandLimit time.Duration `yaml:"errand_limit"`
}

// Values are the values that the operator supplies to the definitions of paks: default variables for all services,
// defaults and plans of single services, labels, and Config, which contains the values that the expression
// config("key") returns and those of environment variables for OpenTofu. The zero value supplies none. Further values
// are read from environment variables; see session.OperatorValues.
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

// Files contains the absolute paths of the files that commands write for operators: RecordRequests, a directory for
// recordings of requests, and AuditLog, a file. "" means that requests are not recorded, and that audit events are
// written to the log only.
type Files struct {
	// RecordRequests is a directory for recordings of the latest requests, with secrets masked, which service-adapter
	// replay reads. "" means that requests are not recorded.
	RecordRequests string `yaml:"record_requests"`
	// AuditLog is a file to which an event is written when a change of a binding or an instance begins and when it
	// ends. "" means that events are written to the log only.
	AuditLog string `yaml:"audit_log"`
}

// Updates contains two permissions for existing instances. BrokerpakUpdatesEnabled permits that an update applies the
// provision template of the pak that is installed now, instead of the template of the last complete apply.
// TerraformUpgradesEnabled permits the same for every instance, whatever the value of BrokerpakUpdatesEnabled, and also
// permits that an instance whose state an older OpenTofu wrote is upgraded to the OpenTofu of that pak. The zero value
// grants neither: after its first complete apply, an instance keeps its template, and cannot be changed if an older
// OpenTofu wrote its state.
type Updates struct {
	// BrokerpakUpdatesEnabled permits that an update of an existing instance uses the provision template of the
	// installed pak.
	BrokerpakUpdatesEnabled bool `yaml:"brokerpak_updates_enabled"`
	// TerraformUpgradesEnabled permits that existing instances are upgraded to the OpenTofu of the installed pak,
	// along its terraform_upgrade_path. It implies BrokerpakUpdatesEnabled, also for instances that need no upgrade.
	TerraformUpgradesEnabled bool `yaml:"terraform_upgrades_enabled"`
}

// State configures the OpenTofu state backend, in which the states of bindings and instances are stored, and their
// encryption. If Type is "", Load sets it to "local". For local, Load sets a nil Config to the directory
// /var/vcap/store/service-adapter; for any other backend, a nil Config has no settings. A nil Encryption means that
// states are not encrypted.
//
// Direct permits that the adapter itself reads and writes states of local and pg, without OpenTofu. A nil Direct
// permits it as well.
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

// Encryption contains the keys for the encryption of states: the current one, which encrypts, and former ones, which
// can still decrypt stored states and of which there may be none. Each key is 32 random bytes in standard base64. A nil
// *Encryption means that states are not encrypted; an Encryption without a current key is not valid.
type Encryption struct {
	// Key is the key that encrypts states.
	Key string `yaml:"key"`
	// OldKeys are former keys, which can still decrypt stored states.
	OldKeys []string `yaml:"old_keys"`
}

// Service is the configuration of one service: default variables for its provision and bind actions, and plans in
// addition to those of the pak. The zero value adds none. The JSON in the environment variables
// GSB_SERVICE_<NAME>_PROVISION_DEFAULTS, …_BIND_DEFAULTS and …_PLANS adds to each of them: its default variables take
// precedence over those with the same names, and its plans follow.
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
// exist. If the variable is unset or empty and neither of the other two files exists, the environment alone is the
// configuration. Environment variables replace the values of keys; see Config. getenv returns the value of an
// environment variable and reports whether it is set. Unset keys have their defaults in the result, except
// MaxRequestKB; see Config.MaxRequest.
//
// Load returns an error if a file cannot be read, if the file or a variable is not valid YAML or contains unknown keys
// or wrong types, or if a value is not allowed. The error lists all faults of the file and the variables or, if there
// are none of these, all values that are not allowed. It contains no values, which may be secrets. The configuration
// must not be used after an error.
//
// The warning is a sentence for the operator, which says that all users may read the secrets in the file. It is "" if
// they may not, or if the permissions of the file cannot be read. After an error it is only set if the sole faults are
// values that are not allowed.
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

// publicSecrets returns a warning, which names the path and the mode, if all users may read the configuration file at
// path and c contains keys or passwords. Otherwise it returns "", also if the file does not exist or cannot be
// inspected. c must be the content of the file, before environment variables are applied.
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
	return fmt.Sprintf("all users can read the keys or passwords in %s (mode %04o); "+
		"remove this permission with chmod o-r", path, info.Mode().Perm())
}

// findConfig returns the path and content of the configuration file: the file that SERVICE_ADAPTER_CONFIG names or,
// if that variable is unset or empty, the first of DefaultPath and service-adapter.yml in the working directory that
// exists. It returns the constant environmentOnly and "" if the variable names no file and neither of the two exists.
// getenv looks up the variable.
//
// It is an error if the file that the variable names does not exist or cannot be read, or if reading one of the other
// two fails for another reason than that it does not exist. The path is that of this file then, and the text is "".
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

// VariableOf returns the name of the environment variable that sets a top-level key of the configuration:
// "SERVICE_ADAPTER_PAKS" for "paks". It does not check that the key exists.
func VariableOf(key string) string { return "SERVICE_ADAPTER_" + strings.ToUpper(key) }

// Override returns a function that looks up environment variables as getenv does, except that the entries of variables,
// a map from names to values, take precedence. An entry with the value "" is reported as set. A nil map overrides none.
// The map is not copied.
func Override(getenv func(string) (string, bool), variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if text, ok := variables[name]; ok {
			return text, true
		}
		return getenv(name)
	}
}

// applyEnvironment replaces the values of top-level keys whose environment variables, such as SERVICE_ADAPTER_PAKS, are
// set and not empty. Each variable contains the whole value of its key, in YAML; null resets the key to its zero value.
// getenv looks up the variables. The error lists all variables that cannot be decoded, without their values; the keys
// of these variables keep their values. SERVICE_ADAPTER_CONFIG is not considered, because it names the configuration
// file.
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

// setDefaults replaces zero values by their defaults: state.type, budget, errand_limit, log_level, cache_dir and, for
// the local backend, a nil state.config. Other keys, including max_request_kb, stay as they are; see MaxRequest for its
// default. The default of errand_limit is 2h, or the budget if that is longer. The default of cache_dir is
// service-adapter-UID in the directory TMPDIR, which getenv looks up, or in /tmp. setDefaults creates no directory.
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

// missingFileHint returns the end of a message, which begins with "; " and names the paths where a configuration file
// is expected, if path is environmentOnly, because no file was found. For any other path, it returns "".
func missingFileHint(path string) string {
	if path != environmentOnly {
		return ""
	}
	return fmt.Sprintf("; %s is not set, and neither %s nor %s in the working directory exists", Variable,
		DefaultPath, localConfigPath)
}

// validate returns an error that lists all faults of the configuration, or nil if it has none. The defaults must have
// been set. A valid configuration meets these conditions:
//
//   - There is at least one pak, and no path of a pak is empty.
//   - The budget is at least 1s, and the errand_limit is not below the budget.
//   - max_request_kb is from 0 to MaxInput in KB, and log_level is debug, info, warn or error.
//   - cache_dir is an absolute path, and so are record_requests and audit_log unless they are "". Each of the
//     allowed_references begins with "/".
//   - The state.config of the backend local has only the key dir, an absolute path. The state.config of any other
//     state.type is not checked, nor whether the type exists.
//   - The encryption keys are valid; see Encryption.Decode.
//
// Files and directories are not accessed. The error contains no values, because a value at the wrong key may be a
// secret. path is the name of the file in the messages.
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

// MaxRequest returns the maximum size of the body of a request, which consists mainly of the parameters and the
// context, in bytes: MaxRequestKB times 1024. If MaxRequestKB is 0, MaxRequest returns the default, 256 KB. The
// parameters of a request, merged over the recorded ones of the instance, have the same limit; see input.CheckSize.
func (c *Config) MaxRequest() int { return cmp.Or(c.MaxRequestKB, defaultMaxRequestKB) << 10 }

// AddSecrets adds the secrets of the configuration to a set for masking, which must not be nil. These are the
// encryption keys of states, the credentials in the settings of the state backend, in config and errand_properties, in
// the default variables for all services and for single ones, and in the plans of single services. Package redact
// recognises the credentials by their names and contents; other values in these parts of the configuration are not
// added.
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

// Backend returns the OpenTofu state backend that the configuration names, with a copy of its settings. For the type
// local, the settings are the paths of the states below state.config.dir. c must have been returned by Load. Backend
// neither creates nor checks a directory.
func (c *Config) Backend() backend.Backend {
	if c.State.Type != Local {
		return backend.Backend{Type: c.State.Type, Config: value.NormaliseMap(c.State.Config)}
	}
	dir, _ := c.State.Config["dir"].(string)
	return backend.Local(dir)
}

// keySize is the length of an encryption key in bytes.
const keySize = 32

// Decode returns the encryption keys, decoded from base64. It returns nil and no error if e is nil, which means that
// states are not encrypted. It returns an error if a key, including the current one, is missing or is not 32 bytes in
// standard base64. For each such key, the error names state.encryption.key or an entry of state.encryption.old_keys,
// without the text of the key; the result must not be used then.
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
