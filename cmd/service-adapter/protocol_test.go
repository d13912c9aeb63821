package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"service-adapter/adapter"
	"service-adapter/spec/kit/broker"
)

// TestProtocolPage: docs/protocol.md has a request and a response of each command. The request is the example in the
// command's help, and the response is that of the program. The commands of the page succeed.
func TestProtocolPage(t *testing.T) {
	page := readFile(t, "docs/protocol.md")
	dir := t.TempDir()
	pak := filepath.Join(dir, "pak")
	if err := os.CopyFS(pak, os.DirFS(filepath.Join("testdata", "protocol"))); err != nil {
		t.Fatal(err)
	}
	if err := addBinaries(repository(t), pak); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(broker.Binary(t), filepath.Join(dir, "service-adapter")); err != nil {
		t.Fatal(err)
	}
	site := operatorsSite{dir: dir, environment: []string{
		"PATH=" + dir + string(filepath.ListSeparator) + os.Getenv("PATH"), "TMPDIR=" + dir,
		"SERVICE_ADAPTER_PAKS=[" + pak + "]", "SERVICE_ADAPTER_SECURE_MANIFESTS=true",
		"SERVICE_ADAPTER_STATE={config: {dir: " + filepath.Join(dir, "state") + "}}",
	}}
	requests := map[string]any{}
	for _, command := range []string{
		"generate-manifest", "create-binding", "delete-binding", "dashboard-url", "generate-plan-schemas",
	} {
		_, section, _ := strings.Cut(page, "\n## "+command+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		blocks := regexp.MustCompile("(?ms)^```json\n(.*?)^```$").FindAllStringSubmatch(section, -1)
		wanted := 2
		if command == "delete-binding" {
			wanted = 1 // it has no response
		}
		if len(blocks) != wanted {
			t.Fatalf("%s has %d blocks of JSON", command, len(blocks))
		}
		if example := helpExample(t, site, command); example != blocks[0][1] {
			t.Errorf("the example in the help of %s differs from that of docs/protocol.md:\n%s", command, example)
		}
		response := site.answer(t, command, blocks[0][1])
		if wanted == 1 {
			if len(response) > 0 {
				t.Errorf("%s writes %s", command, response)
			}
		} else if expected := decodeJSON(t, blocks[1][1]); !matches(expected, decodeJSON(t, string(response))) {
			t.Errorf("%s writes %s", command, response)
		}
		for key, value := range decodeJSON(t, blocks[0][1]).(map[string]any) {
			requests[key] = value
		}
	}
	if len(requests) != len(adapter.Commands()) {
		t.Errorf("%d of %d commands have a section", len(requests), len(adapter.Commands()))
	}
	all, err := json.Marshal(requests) // the broker also sends the keys of all commands
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "request.json"), all, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, block := range indentedShellBlock.FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			if output, err := site.run(strings.TrimSpace(line), ""); err != nil {
				t.Errorf("%s: %v\n%s", line, err, output)
			}
		}
	}
}

// helpExample returns the JSON in the help of a command of the protocol, without the indentation of the help. The help
// must say that the command reads from standard input, and list exit codes.
func helpExample(t *testing.T, site operatorsSite, command string) string {
	t.Helper()
	help := string(site.answer(t, command+" --help", ""))
	usage := "service-adapter " + command + " < request.json"
	for _, part := range []string{"from standard input", usage, "\n  0 ", "\n  1 "} {
		if !strings.Contains(help, part) {
			t.Errorf("the help of %s does not contain %q:\n%s", command, part, help)
		}
	}
	_, example, _ := strings.Cut(help, "EXAMPLE OF request.json\n")
	example, _, _ = strings.Cut(example, "\n\n")
	return strings.ReplaceAll(strings.TrimPrefix(example, "  "), "\n  ", "\n") + "\n"
}

// answer runs the program with an input and returns its standard output. The program must succeed.
func (s operatorsSite) answer(t *testing.T, arguments, input string) []byte {
	t.Helper()
	program := exec.Command(filepath.Join(s.dir, "service-adapter"), strings.Fields(arguments)...)
	program.Dir, program.Env, program.Stdin = s.dir, s.environment, strings.NewReader(input)
	output, err := program.Output()
	if err != nil {
		t.Fatalf("service-adapter %s: %v", arguments, err)
	}
	return output
}

// decodeJSON decodes a JSON text.
func decodeJSON(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// matches reports whether a JSON value is the expected value. In an expected text, "…" represents any characters.
func matches(expected, value any) bool {
	switch expected := expected.(type) {
	case map[string]any:
		object, ok := value.(map[string]any)
		if !ok || len(object) != len(expected) {
			return false
		}
		for key, item := range expected {
			if member, ok := object[key]; !ok || !matches(item, member) {
				return false
			}
		}
		return true
	case []any:
		list, ok := value.([]any)
		if !ok || len(list) != len(expected) {
			return false
		}
		for n, item := range expected {
			if !matches(item, list[n]) {
				return false
			}
		}
		return true
	case string:
		text, ok := value.(string)
		pattern := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(expected), "…", ".*") + "$"
		return ok && regexp.MustCompile(pattern).MatchString(text)
	default:
		return expected == value
	}
}
