package main

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
)

// recipeFile matches a file of a recipe of docs/cookbook.md. The groups are its name and its text.
var recipeFile = regexp.MustCompile("(?ms)^```[a-z]+ good (\\S+)\n(.*?)^```$")

// writeRecipe writes the pak of a recipe of docs/cookbook.md into a new directory, with its binaries, and returns the
// directory. The port replaces 8080 in the recipe.
func writeRecipe(t *testing.T, title, port string) string {
	t.Helper()
	_, section, found := strings.Cut(readFile(t, "docs/cookbook.md"), "\n## "+title+"\n")
	if !found {
		t.Fatalf("docs/cookbook.md has no recipe %q", title)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(kit.Path("internal", "author", "lint", "testdata", "base"))); err != nil {
		t.Fatal(err)
	}
	for _, match := range recipeFile.FindAllStringSubmatch(section, -1) {
		name, text := filepath.Join(dir, match[1]), strings.ReplaceAll(match[2], ":8080", ":"+port)
		if match[1] == "manifest.yml" || match[1] == "service.yml" {
			text = mergeKeys(t, name, text)
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil { //nolint:gosec // some are executables
			t.Fatal(err)
		}
	}
	return dir
}

// mergeKeys returns the YAML text of a file whose top-level keys are replaced by those of a text.
func mergeKeys(t *testing.T, file, text string) string {
	t.Helper()
	base, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	merged, changed := map[string]any{}, map[string]any{}
	if err := yaml.Unmarshal(base, &merged); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(text), &changed); err != nil {
		t.Fatal(err)
	}
	maps.Copy(merged, changed)
	result, err := yaml.Marshal(merged)
	if err != nil {
		t.Fatal(err)
	}
	return string(result)
}

// accounts is the server of the recipe: it keeps accounts by name, with their passwords.
type accounts struct {
	mu    sync.Mutex
	names map[string]string
}

func (a *accounts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	user, password, _ := r.BasicAuth()
	name := strings.TrimPrefix(r.URL.Path, "/accounts/")
	_, exists := a.names[name]
	switch {
	case user != "admin" || password != "s3cret":
		w.WriteHeader(http.StatusUnauthorized)
	case r.Method == http.MethodPut:
		body, _ := io.ReadAll(r.Body)
		a.names[name] = string(body)
	case r.Method == http.MethodDelete && !exists:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodDelete:
		delete(a.names, name)
	}
}

// TestCookbookCommand creates and deletes a binding with the script of the cookbook.
func TestCookbookCommand(t *testing.T) {
	service := &accounts{names: map[string]string{}}
	server := httptest.NewServer(service)
	defer server.Close()
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	pak := writeRecipe(t, "A binding that a script creates", address.Port())
	bin := filepath.Join(pak, "bin", runtime.GOOS, runtime.GOARCH)
	for from, to := range map[string]string{
		kit.OpenTofu(t, kit.Newest):            filepath.Join(bin, kit.Newest, "tofu"),
		filepath.Join(pak, "commands/account"): filepath.Join(bin, "account"),
	} {
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	text, err := json.Marshal(map[string]any{
		"paks": []string{pak}, "cache_dir": filepath.Join(dir, "cache"),
		"state": map[string]any{"config": map[string]any{"dir": filepath.Join(dir, "state")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	adapter := broker.Adapter{Path: broker.Binary(t), Dir: dir, Env: []string{"SERVICE_ADAPTER_CONFIG=" + config}}
	call := func(command string, status int) broker.Answer {
		t.Helper()
		input, err := odb.Input(command, map[string]any{
			"binding_id": "b1", "bosh_vms": `{"server": ["127.0.0.1"]}`, "request_parameters": "{}",
			"manifest": "name: service-instance_i1\ninstance_groups: " +
				"[{name: server, jobs: [{name: server, properties: {admin_password: s3cret}}]}]\n",
		})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := adapter.Run(t.Context(), input, command)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Exit != status {
			t.Fatalf("%s ended with %d, expected %d: %s%s", command, answer.Exit, status, answer.Stdout, answer.Stderr)
		}
		return answer
	}

	var created struct {
		Credentials struct{ Username, Password string }
	}
	if err := json.Unmarshal([]byte(call("create-binding", 0).Stdout), &created); err != nil {
		t.Fatal(err)
	}
	if password := created.Credentials.Password; password == "" || service.names["b-b1"] != password {
		t.Errorf("the accounts are %v, expected b-b1 with the password %q", service.names, password)
	}
	call("delete-binding", 0)
	call("delete-binding", 41)
	if len(service.names) > 0 {
		t.Errorf("the accounts %v are left", service.names)
	}

	server.Close()
	const message = "The server cannot be reached at the moment; try again later"
	if answer := call("create-binding", 1); answer.Stdout != message {
		t.Errorf("the user reads %q, expected %q", answer.Stdout, message)
	}
	expectInputs(t, filepath.Join(pak, "commands", "account"))
}

// TestCookbookCases plays the test cases of the recipes of docs/cookbook.md that have some with the command pak test.
func TestCookbookCases(t *testing.T) {
	for _, title := range []string{
		"Parameters that plans cap or set, and one that cannot be changed",
		"A password and a certificate for the bind template",
	} {
		t.Run(title, func(t *testing.T) {
			pak := writeRecipe(t, title, "8080")
			cases, err := filepath.Glob(filepath.Join(pak, "tests", "*.yml"))
			if err != nil || len(cases) == 0 {
				t.Fatalf("the recipe has the cases %v (%v)", cases, err)
			}
			if err := addBinaries(repository(t), pak); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), broker.Binary(t), "pak", "test", pak)
			if output, err := command.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}

// TestExampleCommands checks that the commands of the example paks do nothing without their inputs.
func TestExampleCommands(t *testing.T) {
	expectInputs(t, kit.Path("examples", "rabbitmq", "commands", "rabbitmq-binding"))
	expectInputs(t, kit.Path("examples", "mongodb", "commands", "mongodb-binding"))
	expectInputs(t, kit.Path("examples", "mysql", "commands", "mysql-binding"))
}

// expectInputs checks that an executable fails, without calling another program that could reach a service, if its
// inputs are missing or invalid.
func expectInputs(t *testing.T, executable string) {
	t.Helper()
	dir := t.TempDir()
	called := filepath.Join(dir, "called")
	for _, name := range []string{"curl", "mongosh", "mysql"} {
		script := "#!/bin/sh\ntouch " + called + "\n"
		err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700) //nolint:gosec // an executable
		if err != nil {
			t.Fatal(err)
		}
	}
	empty := filepath.Join(dir, "inputs")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, input := range []string{"", "\n", "null", "[]", "{}", `{"hosts": `} {
		for _, inputs := range []string{"", "BIND_INPUTS=" + empty, "BIND_INPUTS=" + filepath.Join(dir, "none")} {
			for _, action := range []string{"create", "delete"} {
				command := exec.CommandContext(t.Context(), executable, action)
				command.Dir, command.Stdin = empty, strings.NewReader(input)
				command.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), inputs}
				if output, err := command.CombinedOutput(); err == nil {
					t.Errorf("%s %s succeeds with the input %q and %q: %s", executable, action, input, inputs, output)
				}
			}
		}
	}
	if _, err := os.Stat(called); err == nil {
		t.Errorf("%s calls another program without its inputs", executable)
	}
}
