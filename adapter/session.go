package adapter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/provision"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
)

// session is one command being executed, with what every command works with: configuration, paks and environment.
type session struct {
	Invocation
	command string
	secrets *redact.Secrets
	logger  *slog.Logger
	// user is who runs an operator's command, as far as the environment tells; the broker does not say on whose behalf it calls.
	user   string
	config Config
	// acceptUnencrypted reads states that are not encrypted although they should be.
	acceptUnencrypted bool
	// instanceLimit is how long work on an instance may take where no request waits for it, else 0.
	instanceLimit time.Duration
	paks          []*brokerpak.Pak
	// check looks at what a provision template made when the broker only compares manifests. It changes nothing.
	check func(context.Context, provision.Request) error
}

// newSession makes the session of a command, which is to be opened.
func newSession(invocation Invocation, command string) *session {
	if invocation.Interruptible == nil {
		invocation.Interruptible = func(ctx context.Context) context.Context { return ctx }
	}
	secrets := &redact.Secrets{}
	s := &session{Invocation: invocation, command: command, secrets: secrets, logger: newLogger(invocation.Stderr, secrets, slog.LevelInfo)}
	s.check = s.warnOfPending
	return s
}

// do opens the session for some work. A panic is an error.
func (s *session) do(work func() error) (err error) {
	defer recovered(&err)
	if err := s.open(); err != nil {
		return err
	}
	defer s.close()
	return work()
}

// open loads the configuration and opens the paks.
func (s *session) open() error {
	config, warning, err := loadConfig(s.Getenv)
	if err != nil {
		return err
	}
	s.config, s.logger = config, newLogger(s.Stderr, s.secrets, logLevel(config.LogLevel))
	config.addSecrets(s.secrets)
	if warning != "" {
		s.logger.Warn("reading the configuration", "warning", warning)
	}
	var failed []error
	for _, path := range config.Paks {
		pak, err := brokerpak.Open(path)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		s.paks = append(s.paks, pak)
	}
	if err := errors.Join(failed...); err != nil {
		s.close()
		return fmt.Errorf("loading the paks: %w", err)
	}
	s.secrets.Keep(words(s.paks)...)
	for _, name := range value.Keys(config.Services) {
		if names := s.serviceNames(); !slices.Contains(names, name) {
			s.logger.Warn("the configuration has settings for a service that no pak has", "service", name, "services", diag.Names(names))
		}
	}
	return nil
}

// logLevel is the level of a name that the configuration was checked for.
func logLevel(name string) slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(name))
	return level
}

func (s *session) close() {
	for _, pak := range s.paks {
		_ = pak.Close() // opened for reading: closing cannot lose anything
	}
}

// provisionDefaults are the operator's default variables of a service, general ones first; the environment wins over the file.
func (s *session) provisionDefaults(service *brokerpak.Service) ([]map[string]any, error) {
	general, err := s.jsonVariable("GSB_PROVISION_DEFAULTS")
	own, ownErr := s.jsonVariable("GSB_SERVICE_" + service.EnvName() + "_PROVISION_DEFAULTS")
	if err := errors.Join(err, ownErr); err != nil {
		return nil, err
	}
	return []map[string]any{
		normalised(s.config.ProvisionDefaults), general,
		normalised(s.config.Services[service.Name].ProvisionDefaults), own,
	}, nil
}

// bindDefaults are the operator's default variables of a service's bind action.
func (s *session) bindDefaults(service *brokerpak.Service) (map[string]any, error) {
	own, err := s.jsonVariable("GSB_SERVICE_" + service.EnvName() + "_BIND_DEFAULTS")
	if err != nil {
		return nil, err
	}
	return value.Merge(normalised(s.config.Services[service.Name].BindDefaults), own), nil
}

func normalised(m map[string]any) map[string]any {
	out, _ := value.Normalise(m).(map[string]any)
	return out
}

// jsonVariable reads an environment variable that holds a JSON object; unset and empty are nil.
func (s *session) jsonVariable(name string) (map[string]any, error) {
	text, ok := s.Getenv(name)
	if !ok || text == "" {
		return nil, nil
	}
	decoded, err := value.DecodeObject([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("environment variable %s: %w", name, jsonError(err))
	}
	s.secrets.AddValues(decoded)
	return decoded, nil
}

// variable looks up an environment variable whose value may be a secret.
func (s *session) variable(name string) (string, bool) {
	text, ok := s.Getenv(name)
	s.secrets.AddValues(map[string]any{name: text})
	return text, ok
}

// environment is what expressions of a pak may read: environment variables, and configuration values by key. For a key the
// variable GSB_<KEY> wins, then a variable that the pak's env_config_mapping maps to it, then the configuration.
func (s *session) environment(pak *brokerpak.Pak) vars.Environment {
	return vars.Environment{
		Env: s.variable,
		Config: func(key string) (any, bool) {
			names := []string{expr.ConfigVariable(key)}
			for _, variable := range value.Keys(pak.Manifest.EnvConfigMapping) {
				if pak.Manifest.EnvConfigMapping[variable] == key {
					names = append(names, variable)
				}
			}
			for _, name := range names {
				if text, ok := s.variable(name); ok && text != "" {
					return text, true
				}
			}
			return lookup(normalised(s.config.Config), key)
		},
	}
}

// lookup finds a dotted key: as it is, or segment by segment. A null counts as unset.
func lookup(config map[string]any, key string) (any, bool) {
	if item := config[key]; item != nil {
		return item, true
	}
	head, rest, found := strings.Cut(key, ".")
	if below, ok := config[head].(map[string]any); ok && found {
		return lookup(below, rest)
	}
	return nil, false
}

// maskedWriter replaces secrets in what is logged, a whole line with each call.
type maskedWriter struct {
	out     io.Writer
	secrets *redact.Secrets
}

// Write replaces the secrets in one line. It reports the length of what it was given.
func (w maskedWriter) Write(line []byte) (int, error) {
	if _, err := io.WriteString(w.out, w.secrets.Clean(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// newLogger logs as text, with times in UTC and secrets replaced.
func newLogger(out io.Writer, secrets *redact.Secrets, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(maskedWriter{out, secrets}, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, attribute slog.Attr) slog.Attr {
			if len(groups) == 0 && attribute.Key == slog.TimeKey {
				return slog.Time(slog.TimeKey, attribute.Value.Time().In(time.UTC))
			}
			return attribute
		},
	}))
}

// words are those of the paks: the broker and users name things with them, so they are no secrets.
func words(paks []*brokerpak.Pak) []string {
	var words []string
	for _, pak := range paks {
		words = append(words, pak.Manifest.Name, pak.Manifest.Version)
		for _, service := range pak.Services {
			words = append(words, service.Name, service.ID)
			for _, plan := range service.Plans {
				words = append(words, plan.Name, plan.ID)
			}
			words = append(words, service.Provision.InputNames()...)
			words = append(words, service.Bind.InputNames()...)
		}
	}
	return words
}

// addDeclared masks the values of inputs that the service declares secret, and what else is one of them.
func (s *session) addDeclared(action *brokerpak.Action, sets ...map[string]any) {
	declared := secretInputs(action)
	for _, values := range sets {
		s.secrets.AddValues(values, declared...)
	}
}

// secretInputs are the inputs that a definition declares secret: those that are values of secrets of the manifest, and those that the
// template's variables call sensitive.
func secretInputs(action *brokerpak.Action) []string {
	var names []string
	if action.Bosh != nil {
		for _, secret := range action.Bosh.Secrets {
			names = append(names, secret.Input)
		}
	}
	module, _ := hclfile.Inspect(action.Templates) // what is wrong with the files is for validate to say
	for name, variable := range module.Variables {
		if variable.Sensitive {
			names = append(names, name)
		}
	}
	return names
}
