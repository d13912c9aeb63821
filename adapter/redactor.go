package adapter

import (
	"io"
	"log/slog"
	"time"

	"service-adapter/brokerpak"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/redact"
)

// maskedWriter replaces secrets in what is written to standard error. The log and the SDK's messages go through it, a whole
// line with each call.
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

// newLogger logs as text, with times in UTC.
func newLogger(out io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{
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
