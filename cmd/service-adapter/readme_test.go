package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
)

// readmeCommands returns the commands of the README, and for each one the function that tests it.
func readmeCommands(t *testing.T) map[string]func(*testing.T) {
	t.Helper()
	commands := map[string]func(*testing.T){
		"make demo": testDemo,
		"make":      testContinuousIntegration,
		"make test": testContinuousIntegration,
		"make lint": testContinuousIntegration,
	}
	dir := authorsDir(t)
	for _, command := range []string{
		"build/bin/service-adapter pak init mail",
		"build/bin/service-adapter pak validate mail",
		"build/bin/service-adapter pak test mail",
		"build/bin/service-adapter pak build mail --binary tofu=build/tofu/1.12.6/tofu",
		"build/bin/service-adapter pak init --like redis sessions",
		"build/bin/service-adapter pak validate sessions",
		"build/bin/service-adapter pak test sessions",
	} {
		commands[command] = func(t *testing.T) {
			shell := exec.CommandContext(t.Context(), "sh", "-c", command)
			shell.Dir = dir
			if output, err := shell.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", command, err, output)
			}
		}
	}
	return commands
}

// authorsDir returns a temporary directory in which the README's paths below build/ are links to the program and to
// OpenTofu.
func authorsDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := filepath.Join(dir, "build")
	err := errors.Join(os.MkdirAll(filepath.Join(build, "bin"), 0o700),
		os.Symlink(kit.Path("build", "tofu"), filepath.Join(build, "tofu")),
		os.Symlink(broker.Binary(t), filepath.Join(build, "bin", "service-adapter")))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// shellBlock matches a block of shell commands in Markdown. Its group is the text.
var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// TestReadmeCommands tests every command in README.md, by running it or by checking that continuous integration runs
// it.
func TestReadmeCommands(t *testing.T) {
	text := readFile(t, "README.md")
	var documented []string
	for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				documented = append(documented, line)
			}
		}
	}
	fences := strings.Count(text, "```sh")
	if len(documented) == 0 || fences != len(shellBlock.FindAllString(text, -1)) {
		t.Fatalf("README.md has %d blocks of commands, some of which are not complete: %q", fences, documented)
	}
	commands := readmeCommands(t)
	for _, command := range documented {
		test, ok := commands[command]
		if !ok {
			t.Errorf("README.md has the command %q, which no test runs; add it to readmeCommands", command)
			continue
		}
		t.Run(command, test)
	}
	for command := range commands {
		if !slices.Contains(documented, command) {
			t.Errorf("README.md lacks the command %q of readmeCommands", command)
		}
	}
}

// readFile returns the content of a file of this repository, and fails the test if it cannot be read. name is relative
// to the root of the repository.
func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// testDemo runs `make demo`, which needs the OpenTofu that `make tools` builds. The demo, without the messages of make
// before it, must have at most 120 lines of at most 120 characters.
func testDemo(t *testing.T) {
	kit.SkipSlow(t)
	kit.OpenTofu(t, kit.Newest)
	demo := exec.CommandContext(t.Context(), "make", "demo")
	demo.Dir = repository(t)
	// The test may run in another make, whose flags must not affect `make demo`.
	demo.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS=")
	})
	output, err := demo.CombinedOutput()
	if err != nil {
		t.Fatalf("make demo: %v\n%s", err, output)
	}
	if !bytes.Contains(output, []byte("Done: only the Redis instance remains")) {
		t.Errorf("make demo ended without its last message:\n%s", output)
	}
	const first, limit = "== A service adapter for Redis\n", 120
	_, demonstration, ok := strings.Cut(string(output), first)
	if lines := strings.Count(first+demonstration, "\n"); !ok || lines > limit {
		t.Errorf("make demo printed %d lines, and at most %d are allowed:\n%s", lines, limit, output)
	}
	for line := range strings.Lines(demonstration) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > limit {
			t.Errorf("make demo printed a line of more than %d characters: %s", limit, line)
		}
	}
	if bytes.Contains(output, []byte("Omitted")) {
		kit.Missing(t,
			"make demo omitted a part, because PostgreSQL is not installed; run `scripts/install postgresql`")
	}
}

// testContinuousIntegration checks that .ci/run builds the targets of the README, and that `make` without a target is
// one of them.
func testContinuousIntegration(t *testing.T) {
	targets := regexp.MustCompile(`(?m)^make --jobs=2 lint tools\nexec make test$`)
	if script := readFile(t, ".ci/run"); !targets.MatchString(script) {
		t.Errorf(".ci/run must run make with lint, tools and test, and contains:\n%s", script)
	}
	makefile := readFile(t, "Makefile")
	for _, line := range []string{".DEFAULT_GOAL := build", "test: unit", "unit: build"} {
		if !strings.Contains(makefile, "\n"+line) {
			t.Errorf("the Makefile lacks the line %q, because of which .ci/run builds the targets of the README", line)
		}
	}
}
