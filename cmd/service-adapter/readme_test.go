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

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
)

// readmeCommands are the commands of the README and how a test of this package sees that they work.
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
		"build/bin/service-adapter pak test mail --binary tofu=build/tofu/1.12.6/tofu",
		"build/bin/service-adapter pak build mail --binary tofu=build/tofu/1.12.6/tofu",
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

// authorsDir is a directory from which the README's paths below build/ lead to what was built here.
func authorsDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := filepath.Join(dir, "build")
	err := errors.Join(os.MkdirAll(filepath.Join(build, "bin"), 0o700), os.Symlink(kit.Path("build", "tofu"), filepath.Join(build, "tofu")),
		os.Symlink(broker.Binary(t), filepath.Join(build, "bin", "service-adapter")))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// TestReadmeCommands finds every command of README.md, and runs it or sees that continuous integration does.
func TestReadmeCommands(t *testing.T) {
	text := readFile(t, "README.md")
	var found []string
	for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				found = append(found, line)
			}
		}
	}
	if fences := strings.Count(text, "```sh"); len(found) == 0 || fences != len(shellBlock.FindAllString(text, -1)) {
		t.Fatalf("found the commands %q in %d fences", found, fences)
	}
	commands := readmeCommands(t)
	for _, command := range found {
		test, known := commands[command]
		if !known {
			t.Errorf("README.md has the command %q, which no test runs; add it to readmeCommands", command)
			continue
		}
		t.Run(command, test)
	}
	for command := range commands {
		if !slices.Contains(found, command) {
			t.Errorf("README.md has no command %q any more", command)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// testDemo plays the demo, which needs OpenTofu: `make tools` builds it.
func testDemo(t *testing.T) {
	kit.OpenTofu(t, kit.Newest)
	demo := exec.CommandContext(t.Context(), "make", "demo")
	demo.Dir = repository(t)
	// The test may run below another make, whose flags are not for this one.
	demo.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS=")
	})
	output, err := demo.CombinedOutput()
	if err != nil {
		t.Fatalf("make demo: %v\n%s", err, output)
	}
	if !bytes.Contains(output, []byte("Done: nothing is left but the redis instance")) {
		t.Errorf("make demo did not come to its end:\n%s", output)
	}
	if bytes.Contains(output, []byte("Left out")) {
		kit.Missing(t, "make demo left a part out, because there is no PostgreSQL; run `scripts/install postgresql`")
	}
}

// testContinuousIntegration sees that .ci/run makes the targets, and that `make` alone is a part of them.
func testContinuousIntegration(t *testing.T) {
	if script := readFile(t, ".ci/run"); !regexp.MustCompile(`(?m)^make --jobs=2 lint tools\nexec make test$`).MatchString(script) {
		t.Errorf(".ci/run must make lint, tools and test, it is:\n%s", script)
	}
	makefile := readFile(t, "Makefile")
	for _, line := range []string{".DEFAULT_GOAL := build", "test: unit", "unit: build"} {
		if !strings.Contains(makefile, "\n"+line) {
			t.Errorf("the Makefile must have the line %q, by which .ci/run makes what the README names", line)
		}
	}
}
