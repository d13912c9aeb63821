// Package kit finds the programs that tests need: OpenTofu, the providers of this repository, and installed tools. Its
// subdirectories contain the servers that tests start, a broker that runs the built adapter, and the means to pause a
// run at a chosen point.
//
// If a program is missing, the test is skipped with a message that names the command which installs it. With CI=true,
// the test fails instead:
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

// The versions of OpenTofu that the tests run. `make tools` builds them.
const (
	Oldest = "1.6.2" // the oldest version that the format of paks supports
	Older  = "1.10.10"
	Newest = "1.12.6" // the version in the example paks
)

// A T is a testing.TB or ginkgo's GinkgoT().
type T interface {
	Helper()
	Cleanup(cleanup func())
	Fatalf(format string, arguments ...any)
	Skipf(format string, arguments ...any)
}

// Missing skips a test that needs a program or permission which this machine lacks. With CI=true, it fails the test.
// The text names the missing requirement and the command that provides it.
func Missing(t T, text string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("with CI=true nothing is skipped: %s", text)
	}
	t.Skipf("%s", text)
}

// Path returns the absolute path of a file of the repository. Without elements, it returns the root directory of the
// repository. Path panics if the working directory is not inside the repository.
func Path(elements ...string) string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err) // no test works without a working directory
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

// OpenTofuPath returns the path at which `make tools` stores an OpenTofu version. The file may not exist.
func OpenTofuPath(version string) string { return Path("build", "tofu", version, "tofu") }

// OpenTofu returns the path of the executable of an OpenTofu version. If it has not been built, the test ends as
// described for Missing.
func OpenTofu(t T, version string) string {
	t.Helper()
	return built(t, OpenTofuPath(version), "scripts/opentofu "+version)
}

// Provider returns the path of a provider of this repository, such as "directory". If it has not been built, the test
// ends as described for Missing.
func Provider(t T, name string) string {
	t.Helper()
	return Built(t, Path("build", "providers", "terraform-provider-"+name))
}

// Built returns the path, which is that of a program built by `make tools`. If the file does not exist, the test ends
// as described for Missing.
func Built(t T, path string) string {
	t.Helper()
	return built(t, path, "make tools")
}

// built returns the path of a built file. If it is not a regular file, the test ends as described for Missing, with run
// as the command that builds it.
func built(t T, path, run string) string {
	t.Helper()
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		Missing(t, "there is no "+path+"; run `"+run+"`")
	}
	return path
}

// Program returns the path of an installed program. If PATH does not contain it, the test ends as described for
// Missing, with run as the command that installs the program.
func Program(t T, name, run string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, "there is no "+name+"; run `"+run+"`")
	}
	return path
}

// Root skips or fails a test, as described for Missing, unless root runs it. Task describes what only root can do.
func Root(t T, task string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "only root can "+task+"; run the test as root")
	}
}

// Directory creates a temporary directory and removes it at the end of the test. Every user may search it, as servers
// that do not run as root must. Its path is short, because OpenTofu and servers create sockets below it.
func Directory(t T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "kit-")
	if err == nil {
		err = os.Chmod(dir, 0o755) //nolint:gosec // every user must be able to search it
	}
	if err != nil {
		t.Fatalf("creating a directory: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Names returns the sorted names of the entries of a directory. It returns an empty list if the directory does not
// exist. Any other error fails the test.
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
