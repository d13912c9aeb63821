package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"service-adapter/internal/author/build"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
)

// copiedExample describes the test of a copy of an example pak.
type copiedExample struct {
	// cases is a regular expression with the names of the cases that need no server of the service. "" means all cases.
	cases string
	// passed is the summary of the cases.
	passed string
	// provider is the provider that the pak bundles, without "terraform-provider-". "" means that it bundles none.
	provider string
	// environment are variables that replace the operator's configuration, NAME=value.
	environment []string
}

// copiedExamples returns the tests of the copies by the name of the example.
func copiedExamples() map[string]copiedExample {
	return map[string]copiedExample{
		"example-email": {passed: "1 passed, 0 failed", provider: "random"},
		"kafka": {
			passed:      "1 passed, 0 failed",
			environment: []string{"TOPIC_CREATOR_COMMAND=true", "TOPIC_DELETER_COMMAND=true"},
		},
		"mongodb":    {passed: "4 passed, 0 failed"},
		"mysql":      {cases: "Orders|cluster|single", passed: "3 passed, 0 failed"},
		"postgresql": {passed: "3 passed, 0 failed", provider: "pgaccess"},
		"postgresql-database": {
			cases: "foreign|limit", passed: "2 passed, 0 failed", provider: "pgaccess",
			environment: []string{
				"GSB_POSTGRESQL_DATABASE_HOST=db.example.com", "GSB_POSTGRESQL_DATABASE_PORT=5432",
				"GSB_POSTGRESQL_DATABASE_IMPORTABLE=^old$", "PGACCESS_USER=admin", "PGACCESS_PASSWORD=secret",
			},
		},
		"rabbitmq":      {cases: "Orders|cluster|policies|shared|single|tls", passed: "6 passed, 0 failed"},
		"redis":         {passed: "5 passed, 0 failed"},
		"redis-cluster": {passed: "5 passed, 0 failed"},
	}
}

// TestCopiedExamples copies each example with `pak init --like`. The copy must be valid without warnings, its cases
// must pass, it must be named after its directory, and it must not contain an id of the example.
func TestCopiedExamples(t *testing.T) {
	tofu := "tofu=" + kit.OpenTofu(t, kit.Newest)
	tests := copiedExamples()
	for _, example := range build.Examples() {
		t.Run(example, func(t *testing.T) {
			test, ok := tests[example]
			if !ok {
				t.Fatal("copiedExamples has no test of this example")
			}
			if example != "redis" && example != "postgresql" { // one without a provider, one with a provider
				kit.SkipSlow(t)
			}
			dir, name := t.TempDir(), "my-"+example
			run := func(arguments ...string) string {
				command := exec.CommandContext(t.Context(), broker.Binary(t), arguments...)
				command.Dir, command.Env = dir, append(os.Environ(), test.environment...)
				output, err := command.CombinedOutput()
				if err != nil {
					t.Fatalf("%q: %v\n%s", arguments, err, output)
				}
				return string(output)
			}
			run("pak", "init", "--like", example, name)
			expectCopy(t, filepath.Join(dir, name), kit.Path("examples", example))
			// The examples have no lock, because it would be out of date in a copy with other versions.
			for line := range strings.Lines(run("pak", "validate", name)) {
				if strings.Contains(line, ": warning: ") && !strings.HasSuffix(line, " [unpinned]\n") {
					t.Error(line)
				}
			}
			play := []string{"pak", "test", name, "--run", test.cases, "--binary", tofu}
			if test.provider != "" {
				play = append(play, "--binary",
					"terraform-provider-"+test.provider+"="+kit.Provider(t, test.provider))
			}
			if output := run(play...); !strings.HasSuffix(output, test.passed+"\n") {
				t.Errorf("the cases did not end with %q:\n%s", test.passed, output)
			}
		})
	}
}

// expectCopy checks the name, the ids and the scripts of the copy of an example.
func expectCopy(t *testing.T, dir, example string) {
	t.Helper()
	definitions, err := filepath.Glob(filepath.Join(example, "*.yml"))
	if err != nil || len(definitions) < 2 {
		t.Fatal(definitions, err)
	}
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, dir)
		original, err := os.ReadFile(filepath.Join(example, name))
		if errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(string(original), "#!") {
			return nil // not a file of the example, or not a script
		}
		if copied, err := os.ReadFile(path); err != nil || string(copied) != string(original) {
			t.Errorf("the copy of the script %s differs: %v", name, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("the copy of the script %s is not executable by all users: %v", name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	for _, definition := range definitions {
		original, err := os.ReadFile(definition)
		if err != nil {
			t.Fatal(err)
		}
		copied, err := os.ReadFile(filepath.Join(dir, filepath.Base(definition)))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(strings.Split(string(copied), "\n"), "name: "+filepath.Base(dir)) {
			t.Errorf("the copy of %s is not named after its directory", definition)
		}
		for _, old := range id.FindAllString(string(original), -1) {
			if strings.Contains(string(copied), old) {
				t.Errorf("the copy of %s has the id %s of the example", definition, old)
			}
		}
	}
}
