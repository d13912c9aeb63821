package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"service-adapter/adapter"
	"service-adapter/internal/cli"
)

// storedBindings is a state directory with states that cannot be read, and the environment of an adapter that uses it. To read
// them needs no OpenTofu.
func storedBindings(t *testing.T, count int) map[string]string {
	t.Helper()
	dir := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i := range count {
		write(fmt.Sprintf("state/workspaces/b-%04d/terraform.tfstate", i), "{")
	}
	write("pak/bin/"+runtime.GOOS+"/"+runtime.GOARCH+"/tofu", "#!/bin/false\n")
	write("pak/manifest.yml", fmt.Sprintf(`packversion: 1
name: none
version: 1.0.0
platforms: [{os: %s, arch: %s}]
terraform_binaries: [{name: tofu, version: 1.12.6}]
service_definitions: [service.yml]
`, runtime.GOOS, runtime.GOARCH))
	write("pak/service.yml", `version: 1
name: none
id: 00000000-0000-4000-8000-000000000001
description: A service
display_name: Service
image_url: https://example.com/x.png
documentation_url: https://example.com
support_url: https://example.com
plans: [{name: small, id: 00000000-0000-4000-8000-000000000011, description: Small, display_name: Small}]
provision: {bosh: {manifest: {stemcells: [{alias: default}], instance_groups: [{name: server, jobs: [{name: server}]}]}}}
`)
	return map[string]string{
		"SERVICE_ADAPTER_PAKS":      "[" + filepath.Join(dir, "pak") + "]",
		"SERVICE_ADAPTER_STATE":     "{config: {dir: " + filepath.Join(dir, "state") + "}}",
		"SERVICE_ADAPTER_CACHE_DIR": filepath.Join(dir, "cache"),
	}
}

// listBindings runs `bindings list`.
func listBindings(t *testing.T, environment map[string]string, terminal bool) (stdout, stderr string) {
	t.Helper()
	var out, errors bytes.Buffer
	code := cli.Run(t.Context(), cli.Streams{
		Invocation: adapter.Invocation{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errors,
			Getenv: func(name string) (string, bool) { text, ok := environment[name]; return text, ok },
		}, ErrTerminal: terminal,
	}, []string{"bindings", "list"})
	if code != 1 {
		t.Fatalf("exit code %d\n%s%s", code, out.String(), errors.String())
	}
	return out.String(), errors.String()
}

// TestProgress: a terminal sees how far the list has got, in place; a log only sees it where there is much to read.
func TestProgress(t *testing.T) {
	const reading = "reading states: "
	many := storedBindings(t, 1200)
	_, stderr := listBindings(t, many, false)
	if got := strings.Count(stderr, reading); got != 2 || !strings.HasPrefix(stderr, reading+"500 of 1200\n"+reading+"1000 of 1200\n") {
		t.Errorf("%d lines of progress:\n%s", got, stderr)
	}
	_, stderr = listBindings(t, many, true)
	if before, after, found := strings.Cut(stderr, "\r"+reading+"1200 of 1200\r\x1b[K"); !found || strings.Contains(before, "\n") || strings.Contains(after, reading) {
		t.Errorf("progress on a terminal: %q", stderr)
	}
	_, stderr = listBindings(t, storedBindings(t, 7), false)
	if strings.Contains(stderr, reading) {
		t.Errorf("progress of a few: %s", stderr)
	}
}

// TestUnreadable: the reasons of the first are told, the others are counted.
func TestUnreadable(t *testing.T) {
	stdout, stderr := listBindings(t, storedBindings(t, 7), false)
	if got := strings.Count(stdout, "unreadable\n"); got != 7 {
		t.Errorf("%d unreadable in the list:\n%s", got, stdout)
	}
	if strings.Count(stderr, "is unreadable: ") != 5 || !strings.HasSuffix(stderr, "and 2 more are unreadable\n7 bindings\n") {
		t.Error(stderr)
	}
}
