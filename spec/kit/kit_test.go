package kit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"service-adapter/spec/kit"
)

// A recorder is a test that records whether it was skipped or failed.
type recorder struct {
	testing.TB

	failed, skipped string
}

// Helper does nothing.
func (r *recorder) Helper() {}

// Fatalf records the message of a failure and ends the test.
func (r *recorder) Fatalf(format string, arguments ...any) {
	r.failed = fmt.Sprintf(format, arguments...)
	runtime.Goexit()
}

// Skipf records the reason for skipping and ends the test.
func (r *recorder) Skipf(format string, arguments ...any) {
	r.skipped = fmt.Sprintf(format, arguments...)
	runtime.Goexit()
}

// run executes a test function to its end, in a goroutine of its own because skipping ends the goroutine.
func run(test func(t kit.T)) *recorder {
	r, ended := &recorder{}, make(chan struct{})
	go func() {
		defer close(ended)
		test(r)
	}()
	<-ended
	return r
}

func TestWhatIsMissingFailsOnlyInContinuousIntegration(t *testing.T) {
	missing := map[string]func(kit.T){
		"there is no " + kit.Path("build", "tofu", "0.0.1", "tofu") + "; run `scripts/opentofu 0.0.1`": func(t kit.T) {
			kit.OpenTofu(t, "0.0.1")
		},
		"there is no no-such-program; run `scripts/nothing`": func(t kit.T) {
			kit.Program(t, "no-such-program", "scripts/nothing")
		},
	}
	for text, test := range missing {
		t.Setenv("CI", "true")
		if got := run(test); got.failed != "with CI=true nothing is skipped: "+text || got.skipped != "" {
			t.Errorf("with CI=true: failed %q, skipped %q", got.failed, got.skipped)
		}
		t.Setenv("CI", "")
		if got := run(test); got.skipped != text || got.failed != "" {
			t.Errorf("without CI: failed %q, skipped %q", got.failed, got.skipped)
		}
	}
}

func TestPathFindsTheRepositoryFromBelow(t *testing.T) {
	t.Chdir("servers")
	if _, err := os.Stat(kit.Path("go.mod")); err != nil {
		t.Error(err)
	}
	if got := filepath.Join(kit.Path(), "spec", "kit", "servers"); got != mustGetwd(t) {
		t.Errorf("%s is not the working directory", got)
	}
}

// mustGetwd returns the working directory.
func mustGetwd(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
