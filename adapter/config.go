package adapter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
	"service-adapter/internal/tofu"
)

// Config is the operator's configuration. Every key can also be set by the environment variable SERVICE_ADAPTER_<KEY>, in upper
// case, whose value is YAML: SERVICE_ADAPTER_PAKS='[/paks/redis]', SERVICE_ADAPTER_STATE='{config: {dir: /store}}'. The
// environment wins.
type Config struct {
	// Paks are the brokerpaks: zip files or directories. At least one.
	Paks []string `yaml:"paks"`
	// Service is the service to serve where neither the request nor the plan says which.
	Service string `yaml:"service"`
	// SecureManifests says what the broker's enable_secure_manifests says; paks with secrets require it.
	SecureManifests *bool `yaml:"secure_manifests"`
	// State is where bindings are kept.
	State StateConfig `yaml:"state"`
	// PreparedDir holds initialised OpenTofu directories made ahead; it is only read.
	PreparedDir string `yaml:"prepared_dir"`
	// CacheDir is a private, writable directory; default: one under TMPDIR.
	CacheDir string `yaml:"cache_dir"`
	// Budget is how long one command may take; default 45s. Cloud Foundry gives a bind 60 seconds.
	Budget time.Duration `yaml:"budget"`
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
	// LogLevel is debug, info, warn or error; default info.
	LogLevel string `yaml:"log_level"`
}

// StateConfig is an OpenTofu state backend.
type StateConfig struct {
	// Type is the backend; default local.
	Type string `yaml:"type"`
	// Config are the backend's settings; for local only dir, a durable directory.
	Config map[string]any `yaml:"config"`
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
)

// Defaults of the configuration.
const (
	defaultBudget   = 45 * time.Second
	defaultStateDir = "/var/vcap/store/service-adapter"
	localBackend    = "local"
)

// LoadConfig finds, reads and checks the configuration: the file that SERVICE_ADAPTER_CONFIG names, else the BOSH job's, else
// service-adapter.yml in the working directory, else the environment alone. getenv looks up environment variables.
func LoadConfig(getenv func(string) (string, bool)) (Config, error) {
	path, text, err := findConfig(getenv)
	if err != nil {
		return Config{}, err
	}
	var config Config
	if err := decodeStrict(path, text, &config); err != nil {
		return Config{}, err
	}
	if err := config.applyEnvironment(getenv); err != nil {
		return Config{}, err
	}
	config.setDefaults(getenv)
	return config, config.validate(path)
}

func findConfig(getenv func(string) (string, bool)) (path, text string, err error) {
	if named, ok := getenv(ConfigVariable); ok && named != "" {
		data, err := os.ReadFile(named) //nolint:gosec // the operator names the file
		if err != nil {
			return named, "", fmt.Errorf("reading the configuration that %s names: %w", ConfigVariable, err)
		}
		return named, string(data), nil
	}
	for _, path := range []string{DefaultConfigPath, localConfigPath} {
		data, err := os.ReadFile(path) //nolint:gosec // constant paths
		if err == nil {
			return path, string(data), nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return path, "", fmt.Errorf("reading the configuration: %w", err)
		}
	}
	return "the environment", "", nil
}

// decodeStrict decodes YAML; unknown keys are errors with line and suggestion.
func decodeStrict(path, text string, target any) error {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	err := decoder.Decode(target)
	if err == nil || strings.TrimSpace(text) == "" {
		return nil
	}
	var typeError *yaml.TypeError
	if !errors.As(err, &typeError) {
		return fmt.Errorf("reading the configuration %s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var failed []error
	for _, message := range typeError.Errors {
		failed = append(failed, fmt.Errorf("%s: %s", path, explainYAML(message)))
	}
	return errors.Join(failed...)
}

var (
	unknownField = regexp.MustCompile(`^line (\d+): field (\S+) not found in type adapter\.(\w+)$`)
	wrongType    = regexp.MustCompile("^line (\\d+): cannot unmarshal !!\\w+ `.*` into (\\S+)$")
)

// explainYAML turns the library's messages, which name Go types and show values, into ones for operators.
func explainYAML(message string) string {
	if found := unknownField.FindStringSubmatch(message); found != nil {
		known := configKeys(found[3])
		hint := diag.Suggest(found[2], known)
		if hint == "" {
			hint = "; allowed: " + strings.Join(known, ", ")
		}
		return fmt.Sprintf("line %s: unknown key %q%s", found[1], found[2], hint)
	}
	if found := wrongType.FindStringSubmatch(message); found != nil {
		return fmt.Sprintf("line %s: the value has the wrong type; wanted: %s", found[1], typeWords(found[2]))
	}
	return message
}

func typeWords(goType string) string {
	switch {
	case goType == "time.Duration":
		return "a duration such as 45s"
	case goType == "bool":
		return "true or false"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "map["), strings.HasPrefix(goType, "adapter."):
		return "a mapping"
	default:
		return "a " + goType
	}
}

func configKeys(typeName string) []string {
	var keys []string
	for _, sample := range []any{Config{}, StateConfig{}, ServiceConfig{}} {
		structType := reflect.TypeOf(sample)
		if structType.Name() != typeName {
			continue
		}
		for i := range structType.NumField() {
			keys = append(keys, structType.Field(i).Tag.Get("yaml"))
		}
	}
	return keys
}

// applyEnvironment overrides keys by their environment variables.
func (c *Config) applyEnvironment(getenv func(string) (string, bool)) error {
	for _, key := range configKeys("Config") {
		variable := envPrefix + strings.ToUpper(key)
		text, ok := getenv(variable)
		if !ok || text == "" || variable == ConfigVariable {
			continue
		}
		mapping := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		var item yaml.Node
		if err := yaml.Unmarshal([]byte(text), &item); err != nil || len(item.Content) == 0 {
			return fmt.Errorf("environment variable %s: the value must be YAML for the key %q", variable, key)
		}
		mapping.Content = []*yaml.Node{{Kind: yaml.ScalarNode, Value: key}, item.Content[0]}
		encoded, err := yaml.Marshal(mapping)
		if err != nil {
			return fmt.Errorf("environment variable %s: %w", variable, err)
		}
		if err := decodeStrict("environment variable "+variable, string(encoded), c); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) setDefaults(getenv func(string) (string, bool)) {
	if c.State.Type == "" {
		c.State.Type = localBackend
	}
	if c.State.Type == localBackend && c.State.Config == nil {
		c.State.Config = map[string]any{"dir": defaultStateDir}
	}
	if c.Budget == 0 {
		c.Budget = defaultBudget
	}
	if c.LogLevel == "" {
		c.LogLevel = "info"
	}
	if c.CacheDir == "" {
		temporary, ok := getenv("TMPDIR")
		if !ok || temporary == "" {
			temporary = os.TempDir()
		}
		c.CacheDir = filepath.Join(temporary, fmt.Sprintf("service-adapter-%d", os.Getuid()))
	}
}

func (c *Config) validate(path string) error {
	var failed []error
	fail := func(format string, args ...any) {
		failed = append(failed, fmt.Errorf("%s: "+format, append([]any{path}, args...)...))
	}
	if len(c.Paks) == 0 {
		fail("paks must name at least one brokerpak")
	}
	if c.Budget < time.Second {
		fail("budget must be at least 1s")
	}
	if c.State.Type != localBackend {
		fail("state.type %q is not supported; allowed: %s", c.State.Type, localBackend)
	} else if dir, ok := c.State.Config["dir"].(string); !ok || !filepath.IsAbs(dir) || len(c.State.Config) != 1 {
		fail("state.config of the local backend must have one key, dir, the absolute path of a durable directory")
	}
	switch c.LogLevel {
	case "debug", "info", "warn", "error":
	default:
		fail("log_level %q must be one of debug, info, warn and error", c.LogLevel)
	}
	return errors.Join(failed...)
}

// backend is the state backend of the configuration.
func (c *Config) backend() tofu.Backend {
	dir, _ := c.State.Config["dir"].(string)
	return tofu.Local(dir)
}
