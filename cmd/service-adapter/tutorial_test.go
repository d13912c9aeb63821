package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"service-adapter/internal/pakbuild"
)

// failing are commands that must fail: a shell goes on after "! command" in any case.
var failing = regexp.MustCompile(`(?m)^! (.*)$`)

// TestExamplesPage holds that docs/examples.md has every example, and that each is one that init copies.
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
			t.Errorf("docs/examples.md does not show %s", name)
		}
	}
	for _, link := range regexp.MustCompile(`\]\(\.\./examples/([^)]*)\)`).FindAllStringSubmatch(page, -1) {
		if !slices.Contains(names, link[1]) {
			t.Errorf("docs/examples.md shows %s, which is no example", link[1])
		}
	}
	if !slices.Equal(pakbuild.Examples(), names) {
		t.Errorf("init copies %v; the examples are %v", pakbuild.Examples(), names)
	}
}

// TestTutorialCommands runs every command of docs/tutorial.md, in order and in one directory. Those of make build what the test
// has built already, so they are held against the Makefile only.
func TestTutorialCommands(t *testing.T) {
	text := readFile(t, "docs/tutorial.md")
	blocks := shellBlock.FindAllStringSubmatch(text, -1)
	if fences := strings.Count(text, "```sh"); len(blocks) == 0 || fences != len(blocks) {
		t.Fatalf("found %d blocks in %d fences", len(blocks), fences)
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
		shell.Dir, shell.Stdin = dir, strings.NewReader(failing.ReplaceAllString(block[1], "if $1; then echo 'it must fail'; exit 1; fi"))
		if output, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", block[1], err, output)
		}
	}
	if built, err := filepath.Glob(filepath.Join(dir, "cache-0.1.0*.brokerpak")); err != nil || len(built) == 0 {
		t.Errorf("the tutorial built nothing (%v)", err)
	}
}
