// Package kit finds the programs with which tests work. Below it are the servers that tests start, a broker that runs
// the built adapter, and what stops a run at a chosen point.
//
// A test whose program is not installed says what to run. With CI=true it fails, elsewhere it is skipped:
//
//	tofu := kit.OpenTofu(t, kit.Newest)
//	kit.Program(t, "strace", "apt-get install strace")
package kit

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// The versions of OpenTofu that tests run; `make tools` builds them.
const (
	Oldest = "1.6.2" // that the format of paks knows
	Older  = "1.10.10"
	Newest = "1.12.6" // that the example paks have
)

// T is a testing.TB or ginkgo's GinkgoT().
type T interface {
	Helper()
	Cleanup(cleanup func())
	Fatalf(format string, arguments ...any)
	Skipf(format string, arguments ...any)
}

// Missing ends a test that needs what this machine does not have. The text says what is missing and what to run.
func Missing(t T, text string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("with CI=true nothing is skipped: %s", text)
	}
	t.Skipf("%s", text)
}

// Path is the absolute path of a file of the repository; without elements, that of its directory.
func Path(elements ...string) string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err) // nothing can be tested without a working directory
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "scripts", "tool")); err == nil {
			return filepath.Join(append([]string{dir}, elements...)...)
		}
		if dir == filepath.Dir(dir) {
			panic(errors.New("the working directory is not in the repository"))
		}
		dir = filepath.Dir(dir)
	}
}

// OpenTofuPath is where the OpenTofu of a version is, or would be.
func OpenTofuPath(version string) string { return Path("build", "tofu", version, "tofu") }

// OpenTofu is the path of the OpenTofu of a version.
func OpenTofu(t T, version string) string {
	t.Helper()
	return built(t, OpenTofuPath(version), "scripts/opentofu "+version)
}

// Provider is the path of a provider of this repository.
func Provider(t T, name string) string {
	t.Helper()
	return Built(t, Path("build", "providers", "terraform-provider-"+name))
}

// Built is the path of a program that `make tools` builds.
func Built(t T, path string) string {
	t.Helper()
	return built(t, path, "make tools")
}

func built(t T, path, run string) string {
	t.Helper()
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		Missing(t, "there is no "+path+"; run `"+run+"`")
	}
	return path
}

// Program is the path of an installed program; run is what installs it.
func Program(t T, name, run string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, "there is no "+name+"; run `"+run+"`")
	}
	return path
}

// Root ends a test that only root can run, for another user.
func Root(t T, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "only root can "+what+"; run the test as root")
	}
}

// Directory makes a directory that every user can go through, as the servers must that do not run as root. Its path is
// short, because OpenTofu and servers make sockets below it.
func Directory(t T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "kit-")
	if err == nil {
		err = os.Chmod(dir, 0o755) //nolint:gosec // see above
	}
	if err != nil {
		t.Fatalf("making a directory: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Names are the names of what a directory holds; a directory that does not exist holds nothing.
func Names(t T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s", err)
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
