package cli_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"service-adapter/adapter"
	"service-adapter/internal/cli"
)

// TestVersionOfRelease: the document contains the version and the commit that the linker set, and whether the sources
// had other changes.
func TestVersionOfRelease(t *testing.T) {
	for commit, want := range map[string][2]string{
		"":          {"", ""},
		"abc":       {"abc", "false"},
		"abc-dirty": {"abc", "true"},
	} {
		var out bytes.Buffer
		streams := cli.Streams{
			Invocation: adapter.Invocation{Stdout: &out, Stderr: &out, Release: "1.2.3"}, Commit: commit,
		}
		var document struct {
			Program, Commit string
			Build           map[string]string
		}
		code := cli.Run(t.Context(), streams, []string{"version", "--json"})
		if err := json.Unmarshal(out.Bytes(), &document); code != 0 || err != nil {
			t.Fatalf("%d, %v\n%s", code, err, out.String())
		}
		build := document.Build
		if document.Program != "1.2.3" || document.Commit != want[0] || build["vcs.revision"] != want[0] ||
			build["vcs.modified"] != want[1] || build["GOOS"] == "" || build["GOFIPS140"] == "" {
			t.Errorf("commit %q: %+v", commit, document)
		}
	}
}
