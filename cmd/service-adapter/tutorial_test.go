package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"service-adapter/internal/author/build"
	"service-adapter/spec/kit"
)

// failing matches a command "! COMMAND", which must fail. A shell with -e does not end if such a command succeeds, so
// the test replaces it.
var failing = regexp.MustCompile(`(?m)^! (.*)$`)

// TestExamplesPage checks that docs/examples.md contains every example and nothing else, and that init can copy all
// of them.
func TestExamplesPage(t *testing.T) {
	page := readFile(t, "docs/examples.md")
	manifests, err := filepath.Glob("../../examples/*/manifest.yml")
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	var names []string
	for _, manifest := range manifests {
		name := filepath.Base(filepath.Dir(manifest))
		names = append(names, name)
		if !strings.Contains(page, "](../examples/"+name+")") {
			t.Errorf("docs/examples.md does not contain %s", name)
		}
	}
	for _, link := range regexp.MustCompile(`\]\(\.\./examples/([^)]*)\)`).FindAllStringSubmatch(page, -1) {
		if !slices.Contains(names, link[1]) {
			t.Errorf("docs/examples.md contains %s, which is not an example", link[1])
		}
	}
	if !slices.Equal(build.Examples(), names) {
		t.Errorf("pak init can copy %v, and the examples are %v", build.Examples(), names)
	}
}

// TestTutorialCommands runs every command of docs/tutorial.md, in order and in one directory. It does not run make
// commands, which build files that exist already, but checks that the Makefile has their targets.
func TestTutorialCommands(t *testing.T) {
	kit.SkipSlow(t)
	text := readFile(t, "docs/tutorial.md")
	blocks := shellBlock.FindAllStringSubmatch(text, -1)
	if fences := strings.Count(text, "```sh"); len(blocks) == 0 || fences != len(blocks) {
		t.Fatalf("docs/tutorial.md has %d blocks of commands, of which %d are complete", fences, len(blocks))
	}
	makefile := readFile(t, "Makefile")
	dir := authorsDir(t)
	for _, block := range blocks {
		if targets, ok := strings.CutPrefix(block[1], "make "); ok {
			for _, target := range strings.Fields(targets) {
				if !strings.Contains(makefile, "\n"+target+": ") {
					t.Errorf("the Makefile has no target %q", target)
				}
			}
			continue
		}
		shell := exec.CommandContext(t.Context(), "sh", "-eu")
		script := failing.ReplaceAllString(block[1], "if $1; then echo 'it must fail'; exit 1; fi")
		shell.Dir, shell.Stdin = dir, strings.NewReader(script)
		if output, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", block[1], err, output)
		}
	}
	if built, err := filepath.Glob(filepath.Join(dir, "cache-0.1.0*.brokerpak")); err != nil || len(built) == 0 {
		t.Errorf("the tutorial built nothing (%v)", err)
	}
}

// TestTestingPage runs the commands of docs/testing.md with the complete test case of the page, which starts a server.
func TestTestingPage(t *testing.T) {
	kit.Program(t, "redis-server", "scripts/install redis-server")
	page := readFile(t, "docs/testing.md")
	file := regexp.MustCompile("(?ms)^```yaml\n# (sessions/tests/\\S+)\n(.*?)^```$").FindStringSubmatch(page)
	block := shellBlock.FindStringSubmatch(page)
	if file == nil || block == nil || strings.Count(page, "```sh") != 1 {
		t.Fatal("docs/testing.md must have one complete test case and one block of commands")
	}
	dir := authorsDir(t)
	for command := range strings.Lines(block[1]) {
		shell := exec.CommandContext(t.Context(), "sh", "-euc", command)
		shell.Dir = dir
		output, err := shell.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, output)
		}
		if strings.Contains(command, " pak init ") {
			if err := os.WriteFile(filepath.Join(dir, file[1]), []byte(file[2]), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if name := strings.TrimSuffix(filepath.Base(file[1]), ".yml"); !strings.Contains(string(output), name) {
			t.Errorf("%s did not play the case %s:\n%s", command, name, output)
		}
	}
}
