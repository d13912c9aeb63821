package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// module is the prefix of the import paths of the repository.
const module = "service-adapter/"

// goPackage contains fields of the output of `go list -json`.
type goPackage struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	TestGoFiles  []string
	XTestGoFiles []string
}

// hasSuite reports whether the package has tests.
func (p goPackage) hasSuite() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// ginkgo reports whether the suite of a package accepts ginkgo's flags.
func (p goPackage) ginkgo() bool {
	imported := slices.Concat(p.TestImports, p.XTestImports)
	return slices.ContainsFunc(imported, func(name string) bool {
		return strings.HasPrefix(name, "github.com/onsi/ginkgo") || strings.HasPrefix(name, module+"spec/kit")
	})
}

// listPackages returns the packages of the repository by directory.
func listPackages(ctx context.Context, root string) (map[string]goPackage, error) {
	const fields = "-json=ImportPath,Imports,TestImports,XTestImports,TestGoFiles,XTestGoFiles"
	output, err := goCommand(ctx, root, "list", fields, "./...").Output()
	if err != nil {
		return nil, err
	}
	all := map[string]goPackage{}
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all[strings.TrimPrefix(p.ImportPath, module)] = p
	}
}

// suites returns the directories of the suites to run for mutants of a package, sorted by duration: the package's own
// suite, and those of the product's packages that import the package. The importers of a package without a suite count
// as importers of the packages that it imports.
func (r *runner) suites(name string) []string {
	suites := r.importers(name)
	slices.SortStableFunc(suites, func(a, b string) int { return suiteRank(a) - suiteRank(b) })
	if r.packages[name].hasSuite() {
		suites = slices.Insert(suites, 0, name)
	}
	return suites
}

// importers returns the directories of the suites of the packages that import a package, directly or by way of packages
// without a suite. The programs in cmd and the packages below spec are omitted.
func (r *runner) importers(name string) []string {
	var suites []string
	for _, directory := range sortedKeys(r.packages) {
		p := r.packages[directory]
		isProduct := !strings.HasPrefix(directory, "spec/") && !strings.HasPrefix(directory, "cmd/")
		if !isProduct || !slices.Contains(p.Imports, module+name) {
			continue
		}
		found := []string{directory}
		if !p.hasSuite() {
			found = r.importers(directory)
		}
		for _, suite := range found {
			if !slices.Contains(suites, suite) && suite != name {
				suites = append(suites, suite)
			}
		}
	}
	return suites
}

// suiteRank orders suites by their duration.
func suiteRank(directory string) int {
	order := []string{
		"internal/author", "internal/cli", "internal/engine/opentofu", "internal/engine/lifecycle", "manifestgen",
		"binding", "internal/engine/statestore", "internal/engine/provision", "",
		"internal/engine/workspace", "adapter",
	}
	rank := slices.IndexFunc(order, func(prefix string) bool {
		return prefix != "" && strings.HasPrefix(directory, prefix)
	})
	if rank < 0 {
		return slices.Index(order, "")
	}
	return rank
}

// runSession runs a command as the leader of a session and reports whether it ended before the timeout. Afterwards it
// kills the remaining processes of the session. It returns an error if the command cannot be started or the context
// ends.
func runSession(ctx context.Context, command *exec.Cmd, timeout time.Duration) (ended bool, err error) {
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	command.WaitDelay = time.Second
	if err := command.Start(); err != nil {
		return false, err
	}
	defer killSession(command.Process.Pid)
	exit := make(chan struct{})
	go func() {
		_ = command.Wait() // the state of the process contains its exit status
		close(exit)
	}()
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	select {
	case <-exit:
		return true, nil
	case <-limit.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	// Suites stop their servers when they receive this signal.
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		return false, err
	}
	select {
	case <-exit:
	case <-time.After(20 * time.Second):
		killSession(command.Process.Pid)
		<-exit
	}
	return false, err
}

// killSession kills the processes of a session.
func killSession(id int) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return
	}
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // it is a file of the kernel
		if err != nil {
			continue // the process has ended
		}
		// The fields are PID (COMMAND) STATE PARENT GROUP SESSION.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && len(fields) > 3 && fields[3] == strconv.Itoa(id) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

// firstFailure returns the line of a suite's output that names the first failed test.
func firstFailure(file string) (string, error) {
	text, err := os.ReadFile(file) //nolint:gosec // it was written here
	if err != nil {
		return "", err
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		line = strings.TrimSpace(line)
		for _, mark := range []string{
			"[FAIL] ", "[TIMEDOUT] ", "[PANICKED] ", "--- FAIL: ", "panic: ", "fatal error: ",
		} {
			if strings.Contains(line, mark) {
				return line, nil
			}
		}
	}
	return lastLine(string(text)), nil
}
