package main

import (
	"os/exec"
	"strings"
	"testing"

	"service-adapter/spec/kit"
)

// TestSupplyChainCommands runs every command of docs/supply-chain.md, in order and in one directory.
func TestSupplyChainCommands(t *testing.T) {
	kit.OpenTofu(t, kit.Newest)
	text := readFile(t, "docs/supply-chain.md")
	blocks := shellBlock.FindAllStringSubmatch(text, -1)
	if fences := strings.Count(text, "```sh"); len(blocks) == 0 || fences != len(blocks) {
		t.Fatalf("docs/supply-chain.md has %d blocks of commands, of which %d are complete", fences, len(blocks))
	}
	dir := authorsDir(t)
	for _, block := range blocks {
		shell := exec.CommandContext(t.Context(), "sh", "-eu")
		script := failing.ReplaceAllString(block[1], "if $1; then echo 'it must fail'; exit 1; fi")
		shell.Dir, shell.Stdin = dir, strings.NewReader(script)
		if output, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", block[1], err, output)
		}
	}
}
