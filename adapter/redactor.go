package adapter

import (
	"io"
	"log/slog"
	"time"

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
