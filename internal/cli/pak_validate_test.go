package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"service-adapter/adapter"
	"service-adapter/internal/cli"
)

// TestValidateColours: findings are coloured on a terminal, unless NO_COLOR is set.
func TestValidateColours(t *testing.T) {
	pak := t.TempDir()
	if err := os.WriteFile(filepath.Join(pak, "manifest.yml"), []byte("packversion: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		terminal bool
		noColor  string
		colours  bool
	}{
		{"a terminal", true, "", true},
		{"a terminal with NO_COLOR", true, "1", false},
		{"a pipe", false, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out, errors bytes.Buffer
			code := cli.Run(t.Context(), cli.Streams{
				Invocation: adapter.Invocation{
					Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errors,
					Getenv: func(name string) (string, bool) {
						return test.noColor, name == "NO_COLOR" && test.noColor != ""
					},
				}, Terminal: test.terminal,
			}, []string{"pak", "validate", pak})
			if code != 1 || !strings.Contains(out.String(), "packversion must be 1 [packversion]") {
				t.Fatalf("exit code %d\n%s%s", code, out.String(), errors.String())
			}
			if got := strings.Contains(out.String(), "\x1b["); got != test.colours {
				t.Errorf("colours: %t\n%q", got, out.String())
			}
		})
	}
}
