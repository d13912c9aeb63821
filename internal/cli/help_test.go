package cli_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"service-adapter/adapter"
	"service-adapter/internal/cli"
)

// run runs a command, which must exit with 0, and returns its standard output. args do not contain the program's name.
func run(t *testing.T, environment map[string]string, args ...string) string {
	t.Helper()
	var out, errors bytes.Buffer
	code := cli.Run(t.Context(), cli.Streams{
		Invocation: adapter.Invocation{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errors,
			Getenv: func(name string) (string, bool) { text, ok := environment[name]; return text, ok },
		},
	}, args)
	if code != 0 {
		t.Fatalf("%q: exit code %d\n%s%s", args, code, out.String(), errors.String())
	}
	return out.String()
}

// TestHelp: the help of every command lists its exit statuses and contains an example with the full name of the
// command.
func TestHelp(t *testing.T) {
	row := regexp.MustCompile(`(?m)^  (\S+) +\S.*$`)
	seen := 0
	var walk func(path ...string)
	walk = func(path ...string) {
		help := run(t, nil, append(path, "--help")...)
		seen++
		name := strings.Join(append([]string{"service-adapter"}, path...), " ")
		if !regexp.MustCompile(`(?m)^EXIT STATUS\n  0 `).MatchString(help) {
			t.Errorf("%s --help has no exit statuses", name)
		}
		_, examples, _ := strings.Cut(help, "\nExamples:\n")
		if examples, _, _ = strings.Cut(examples, "\n\n"); !strings.Contains(examples, name) {
			t.Errorf("%s --help has no example: %q", name, examples)
		}
		_, below, found := strings.Cut(help, "\nAvailable Commands:\n")
		if below, _, _ = strings.Cut(below, "\n\n"); !found {
			return
		}
		for _, match := range row.FindAllStringSubmatch(below, -1) {
			if match[1] != "help" { // cobra adds this command
				walk(append(slices.Clone(path), match[1])...)
			}
		}
	}
	walk()
	if seen < 30 {
		t.Errorf("only %d commands were seen", seen)
	}
}

// TestCompletion: ids are completed from the state backend, and services and plans from the configured paks or the pak
// in the command line. If any of these cannot be read, there are no completions and no error.
func TestCompletion(t *testing.T) {
	environment := storedBindings(t, 2)
	const none = ":4\n"
	pak := strings.Trim(environment["SERVICE_ADAPTER_PAKS"], "[]")
	for _, test := range []struct {
		line, want string
	}{
		{"bindings show", "0000\n0001\n" + none},
		{"bindings show 0000", none},
		{"bindings delete 0000", "0001\n" + none},
		{"bindings list", none},
		{"bindings list --service", "none\n" + none},
		{"instance show", none},
		{"bindings list --instance", none},
		{"pak evaluate " + pak + " --service", "none\n" + none},
		{"pak evaluate " + pak + " --plan", "small\n" + none},
		{"pak manifest " + pak + " --plan small --diff", "small\n" + none},
		{"pak evaluate --plan", none},
		{"pak evaluate missing --plan", none},
	} {
		args := append([]string{"__complete"}, append(strings.Fields(test.line), "")...)
		if got := run(t, environment, args...); got != test.want {
			t.Errorf("%s: %q, wanted %q", test.line, got, test.want)
		}
	}
	for name := range environment {
		broken := map[string]string{name: "{"}
		if got := run(t, broken, "__complete", "bindings", "show", ""); got != none {
			t.Errorf("with a broken configuration: %q", got)
		}
	}
}
