package broker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	// This import makes the cached result of a test invalid when the source of the program changes.
	_ "service-adapter/internal/cli"
	"service-adapter/spec/kit"
)

// BinaryVariable is the environment variable with the path of a built adapter to test. If it is not set, the adapter is
// built from this source.
const BinaryVariable = "SERVICE_ADAPTER_BINARY"

// Binary returns the path of the adapter under test, which every user can execute. It fails the test if the adapter
// cannot be built. All suites build it in the same directory, so that only the first build compiles.
func Binary(t kit.T) string {
	t.Helper()
	if configured := os.Getenv(BinaryVariable); configured != "" {
		path, err := filepath.Abs(configured)
		if err != nil {
			t.Fatalf("%s: %v", BinaryVariable, err)
		}
		return path
	}
	path := filepath.Join(kit.Directory(t), "service-adapter")
	if err := build(kit.Path("build", "test"), path); err != nil {
		t.Fatalf("building the adapter: %v", err)
	}
	return path
}

// build builds the adapter in dir and copies it to target. A lock on a file in dir keeps processes from building at the
// same time.
func build(dir, target string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // every user may search the directory build
		return err
	}
	//nolint:gosec // a file of this repository
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // closing the file releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	binary := filepath.Join(dir, "service-adapter")
	//nolint:gosec // the arguments are constant
	command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", binary,
		"./cmd/service-adapter")
	command.Dir, command.Env = kit.Path(), append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(string(output)))
	}
	content, err := os.ReadFile(binary) //nolint:gosec // a file of this repository
	if err != nil {
		return err
	}
	return os.WriteFile(target, content, 0o755) //nolint:gosec // every user may execute it
}
