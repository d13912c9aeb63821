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

// storedBindings creates a pak and a state directory with count bindings whose states cannot be read, and returns the
// environment of an adapter that uses them. Unreadable states are listed without running OpenTofu, which the pak does
// not have.
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
provision:
  bosh: {manifest: {stemcells: [{alias: default}], instance_groups: [{name: server, jobs: [{name: server}]}]}}
`)
	return map[string]string{
		"SERVICE_ADAPTER_PAKS":      "[" + filepath.Join(dir, "pak") + "]",
		"SERVICE_ADAPTER_STATE":     "{config: {dir: " + filepath.Join(dir, "state") + "}}",
		"SERVICE_ADAPTER_CACHE_DIR": filepath.Join(dir, "cache"),
	}
}

// listBindings runs `bindings list`, which must exit with 1 because states are unreadable, and returns its output.
// terminal sets whether standard error is a terminal.
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

// TestProgress: progress is shown in one line of a terminal, which is erased at the end. Elsewhere lines are written,
// but only for long lists.
func TestProgress(t *testing.T) {
	const reading = "reading states: "
	many := storedBindings(t, 1200)
	_, stderr := listBindings(t, many, false)
	want := reading + "500 of 1200\n" + reading + "1000 of 1200\n"
	if got := strings.Count(stderr, reading); got != 2 || !strings.HasPrefix(stderr, want) {
		t.Errorf("%d lines of progress:\n%s", got, stderr)
	}
	_, stderr = listBindings(t, many, true)
	before, after, ok := strings.Cut(stderr, "\r"+reading+"1200 of 1200\r\x1b[K")
	if !ok || strings.Contains(before, "\n") || strings.Contains(after, reading) {
		t.Errorf("progress on a terminal: %q", stderr)
	}
	_, stderr = listBindings(t, storedBindings(t, 7), false)
	if strings.Contains(stderr, reading) {
		t.Errorf("progress of a short list: %s", stderr)
	}
}

// TestUnreadable: the reasons why states are unreadable are reported for the first few, and the others are counted.
func TestUnreadable(t *testing.T) {
	stdout, stderr := listBindings(t, storedBindings(t, 7), false)
	if got := strings.Count(stdout, "unreadable\n"); got != 7 {
		t.Errorf("%d unreadable in the list:\n%s", got, stdout)
	}
	reasons, summary := strings.Count(stderr, "is unreadable: "), "and 2 more are unreadable\n7 bindings\n"
	if reasons != 5 || !strings.HasSuffix(stderr, summary) {
		t.Error(stderr)
	}
}
