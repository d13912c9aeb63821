package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"service-adapter/spec/kit/broker"
)

var indentedShellBlock = regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$")

// TestOperationsCommands runs every command of docs/operations.md in the order of the page, with a binding and an instance that exist.
func TestOperationsCommands(t *testing.T) {
	text := readFile(t, "docs/operations.md")
	blocks := indentedShellBlock.FindAllStringSubmatch(text, -1)
	if len(blocks) == 0 || strings.Count(text, "```sh\n") != len(blocks) {
		t.Fatalf("found %d blocks", len(blocks))
	}
	site := newOperatorsSite(t)
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			command := strings.TrimSpace(line)
			site.exist(t)
			if output, err := site.run(command, ""); err != nil {
				t.Errorf("%s: %v\n%s", command, err, output)
			}
		}
	}
}

// operatorsSite is where an operator works: a configuration, a pak, and the names that the page uses.
type operatorsSite struct {
	dir         string
	environment []string
}

func newOperatorsSite(t *testing.T) operatorsSite {
	t.Helper()
	dir := t.TempDir()
	pak := filepath.Join(dir, "pak")
	if err := os.CopyFS(pak, os.DirFS(filepath.Join("testdata", "operations"))); err != nil {
		t.Fatal(err)
	}
	if err := addBinaries(repository(t), pak); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(broker.Binary(t), filepath.Join(dir, "service-adapter")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "deployments"), []byte("bosh\nservice-instance_i1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "existing"), []byte("b1\ni1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join("testdata", "operations", "broker.yml"))
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "broker.yml"), config, 0o600), os.Mkdir(filepath.Join(dir, "manifests"), 0o700)); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "state")
	return operatorsSite{dir: dir, environment: []string{
		"PATH=" + dir + string(filepath.ListSeparator) + os.Getenv("PATH"), "TMPDIR=" + dir, "STATE_DIR=" + state, "BINDING=b1", "INSTANCE=i1",
		"TEXTFILES=" + dir, "AUDIT_LOG=" + filepath.Join(dir, "audit.log"), "SERVICE_ADAPTER_AUDIT_LOG=" + filepath.Join(dir, "audit.log"),
		"SERVICE_ADAPTER_PAKS=[" + pak + "]",
		"SERVICE_ADAPTER_STATE={config: {dir: " + state + "}, encryption: {key: " + strings.Repeat("A", 43) + "=}}",
	}}
}

// exist makes the binding and the instance where they are not there.
func (s operatorsSite) exist(t *testing.T) {
	t.Helper()
	for workspace, command := range map[string]string{"b-b1": "create-binding", "i-i1": "generate-manifest"} {
		if _, err := os.Stat(filepath.Join(s.dir, "state", "workspaces", workspace)); err == nil {
			continue
		}
		request, err := os.ReadFile(filepath.Join("testdata", "operations", command+".json"))
		if err != nil {
			t.Fatal(err)
		}
		output, err := s.run("service-adapter "+command, string(request))
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, output)
		}
		if _, product, _ := strings.Cut(string(output), "\n{"); command == "generate-manifest" { // among the lines of the log
			var made struct{ Manifest string }
			if err := json.NewDecoder(strings.NewReader("{" + product)).Decode(&made); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(s.dir, "manifests", "service-instance_i1.yml"), []byte(made.Manifest), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (s operatorsSite) run(command, input string) ([]byte, error) {
	shell := exec.Command("sh", "-c", command)
	shell.Dir, shell.Env, shell.Stdin = s.dir, s.environment, strings.NewReader(input)
	return shell.CombinedOutput()
}
