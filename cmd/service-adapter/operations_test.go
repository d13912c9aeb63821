package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/servers"
)

// indentedShellBlock matches a block of shell commands in Markdown, which may be part of a list. Its group is the text.
var indentedShellBlock = regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$")

// TestOperationsCommands runs every command of each page in docs/operations, in the order of the page, with an existing
// binding and instance.
func TestOperationsCommands(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(repository(t), "docs", "operations", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages in docs/operations: %v", len(pages), err)
	}
	commands := 0
	for _, page := range pages {
		name := filepath.Base(page)
		text := readFile(t, "docs/operations/"+name)
		blocks := indentedShellBlock.FindAllStringSubmatch(text, -1)
		if strings.Count(text, "```sh\n") != len(blocks) {
			t.Errorf("%s has %d blocks of commands that are complete", name, len(blocks))
		}
		if commands += len(blocks); len(blocks) == 0 {
			continue // a page that explains a decision
		}
		t.Run(name, func(t *testing.T) {
			if name != "a-binding-is-stuck.md" {
				kit.SkipSlow(t)
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
		})
	}
	if commands < 50 {
		t.Errorf("only %d blocks of commands in %d pages", commands, len(pages))
	}
}

// An operatorsSite contains the configuration, the pak and the names that the commands of a page use.
type operatorsSite struct {
	dir         string
	environment []string
}

// newOperatorsSite creates a directory with a pak, the files and the environment that the commands of
// the pages in docs/operations use. It contains no binding and no instance; see exist.
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
	addNewPak(t, filepath.Join(dir, "new-pak"))
	if err := os.Symlink(broker.Binary(t), filepath.Join(dir, "service-adapter")); err != nil {
		t.Fatal(err)
	}
	deployments := []byte("bosh\nservice-instance_i1\n")
	if err := os.WriteFile(filepath.Join(dir, "deployments"), deployments, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"existing", "existing-instances"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("b1\ni1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "manifests"), 0o700); err != nil {
		t.Fatal(err)
	}
	startDirector(t, dir)
	auditLog := filepath.Join(dir, "audit.log")
	state, newState := filepath.Join(dir, "state"), filepath.Join(dir, "new-state")
	stateIn := func(dir string) string {
		return "{config: {dir: " + dir + "}, encryption: {key: " + strings.Repeat("A", 43) + "=}}"
	}
	return operatorsSite{dir: dir, environment: []string{
		"PATH=" + dir + string(filepath.ListSeparator) + os.Getenv("PATH"), "TMPDIR=" + dir,
		"STATE_DIR=" + state, "BINDING=b1", "INSTANCE=i1",
		"TEXTFILES=" + dir, "AUDIT_LOG=" + auditLog, "SERVICE_ADAPTER_AUDIT_LOG=" + auditLog,
		"SERVICE_ADAPTER_PREPARED_DIR=" + filepath.Join(dir, "prepared"),
		"SERVICE_ADAPTER_RECORD_REQUESTS=" + filepath.Join(dir, "requests"),
		"SERVICE_ADAPTER_PAKS=[" + pak + "]",
		"SERVICE_ADAPTER_STATE=" + stateIn(state), "NEW_STATE=" + stateIn(newState),
	}}
}

// startDirector starts a Director with the files in a directory, and writes the configuration of a broker with that
// Director to broker.yml. The deployments of the instances have a certificate that is valid for a year.
func startDirector(t *testing.T, dir string) {
	t.Helper()
	director := servers.NewDirector(dir)
	t.Cleanup(director.Close)
	config, err := os.ReadFile(filepath.Join("testdata", "operations", "broker.yml"))
	bosh, encodeErr := json.Marshal(director.BrokerConfig())
	text := fmt.Sprintf("%s\nbosh: %s\n", config, bosh)
	err = errors.Join(err, encodeErr, os.WriteFile(filepath.Join(dir, "broker.yml"), []byte(text), 0o600))
	const year = 365 * 24 * time.Hour
	certificate := []byte(servers.NewCredHub(t, year, "db.internal").Leaf().Certificate)
	for _, deployment := range []string{"service-instance_i1", "service-instance_other"} {
		variables := filepath.Join(dir, "certificates", deployment)
		err = errors.Join(err, os.MkdirAll(variables, 0o700),
			os.WriteFile(filepath.Join(variables, "tls.pem"), certificate, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// addNewPak creates a directory with a new version of the site's pak, which changes manifests.
func addNewPak(t *testing.T, dir string) {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "operations"))); err != nil {
		t.Fatal(err)
	}
	for file, change := range map[string][2]string{
		"manifest.yml": {"version: 1.0.0", "version: 1.1.0"},
		"one.yml":      {"jobs: [{name: server}]", "jobs: [{name: server, properties: {new: 1}}]"},
	} {
		path := filepath.Join(dir, file)
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), change[0]) {
			t.Fatalf("%s does not contain %q (%v)", path, change[0], err)
		}
		changed := strings.Replace(string(text), change[0], change[1], 1)
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := addBinaries(repository(t), dir); err != nil {
		t.Fatal(err)
	}
}

// exist creates the binding b1 and the instance i1 unless they exist, and writes the manifest of the instance to the
// directory manifests.
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
		if command == "generate-manifest" {
			_, product, _ := strings.Cut(string(output), "\n{") // the output also contains the lines of the log
			var generated struct{ Manifest string }
			if err := json.NewDecoder(strings.NewReader("{" + product)).Decode(&generated); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(s.dir, "manifests", "service-instance_i1.yml")
			if err := os.WriteFile(path, []byte(generated.Manifest), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// run executes a command line of a shell in the directory of the site, with an input, and returns standard output and
// standard error together. The error is not nil if the command line fails.
func (s operatorsSite) run(command, input string) ([]byte, error) {
	shell := exec.Command("sh", "-c", command)
	shell.Dir, shell.Env, shell.Stdin = s.dir, s.environment, strings.NewReader(input)
	return shell.CombinedOutput()
}
