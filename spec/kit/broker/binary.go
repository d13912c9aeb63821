package broker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	// Tests build the program: go test must not take the result of an older one from its cache.
	_ "service-adapter/internal/cli"
	"service-adapter/spec/kit"
)

// BinaryVariable names a built adapter to test instead of one that is built from this source.
const BinaryVariable = "SERVICE_ADAPTER_BINARY"

// Binary is the path of the adapter under test, which every user can run. Suites build it in one place, where go build
// finds it up to date.
func Binary(t kit.T) string {
	t.Helper()
	if given := os.Getenv(BinaryVariable); given != "" {
		path, err := filepath.Abs(given)
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

// build builds the adapter in a directory and copies it from there, one process at a time.
func build(dir, target string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as build is
		return err
	}
	//nolint:gosec // a file of this repository
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // releases it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	binary := filepath.Join(dir, "service-adapter")
	//nolint:gosec // constant
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
	return os.WriteFile(target, content, 0o755) //nolint:gosec // for every user
}
