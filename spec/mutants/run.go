package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"service-adapter/spec/kit"
)

// A runner runs suites with mutants.
type runner struct {
	file      string // path of the file of results
	directory string // for the output of suites
	out       io.Writer
	jobs      int
	focus     string // runs only the specs that match; "" for all
	own       bool   // runs only the suite of the mutant's package
	again     bool
	all       bool
	deep      bool
	timeout   time.Duration

	code     *code
	packages map[string]goPackage // by the directory in the repository
	guard    sync.Mutex           // protects the results, which several jobs change
	results  *results
	escaped  []error // errors for mutants that survive and that an earlier run caught
}

// run runs the mutants with the ids, which are separated by commas. Without ids, it runs all mutants of the table, and
// without a table those of all tables. Mutants with a result are skipped unless the ids name them or r.again is set.
// With r.all and r.deep, mutants that survived fewer suites run again.
func (r *runner) run(ctx context.Context, table, ids string) error {
	r.again = r.again || ids != ""
	all, err := tables()
	if err != nil {
		return err
	}
	root := kit.Path()
	if r.code, err = readCode(root); err != nil {
		return err
	}
	if r.packages, err = listPackages(ctx, root); err != nil {
		return err
	}
	if r.results, err = readResults(r.file); err != nil {
		return err
	}
	if err := os.MkdirAll(r.directory, 0o755); err != nil { //nolint:gosec // servers run as other users of the machine
		return err
	}
	var chosen []mutant
	for _, m := range all {
		if m.gone == "" && r.chooses(m, table, ids) {
			chosen = append(chosen, m)
		}
	}
	slices.SortStableFunc(chosen, func(a, b mutant) int { return r.cost(a) - r.cost(b) })
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(r.jobs)
	for _, m := range chosen {
		group.Go(func() error { return r.try(ctx, m) })
	}
	return errors.Join(append(r.escaped, group.Wait())...)
}

// chooses reports whether a mutant is to run, according to the ids, the table and the earlier results.
func (r *runner) chooses(m mutant, table, ids string) bool {
	if ids != "" {
		return slices.Contains(strings.Split(ids, ","), m.id)
	}
	if table != "" && m.table != table {
		return false
	}
	former, hasResult := r.results.of(m.id)
	return !hasResult || r.again || former.survived() && (r.all && !former.all || r.deep && !former.deep)
}

// cost orders mutants by the duration of their suites: named mutants first, and those of the slowest suite last.
func (r *runner) cost(m mutant) int {
	order := []string{
		"manifestgen", "opentofu", "statestore", "provider", "shell", "lifecycle", "provision", "workspace",
	}
	if m.table == "named" {
		return -1
	}
	return slices.Index(order, path.Base(path.Dir(m.file)))
}

// A step is a run of a suite, with or without the specs that are skipped by default.
type step struct {
	suite string // the directory in the repository
	all   bool
}

// steps returns the suites to run for a mutant of a package, in order. The suite that caught the mutant before is the
// first.
func (r *runner) steps(change mutated, former result) []step {
	suites := r.suites(path.Dir(change.path))
	if r.own {
		suites = suites[:min(1, len(suites))]
	}
	var steps []step
	add := func(added step) {
		ran := slices.Contains(suites, added.suite) && (!added.all || former.all)
		alreadyPassed := !r.again && former.survived() && ran
		if !alreadyPassed && !slices.Contains(steps, added) {
			steps = append(steps, added)
		}
	}
	if former.suite != "" && !r.own {
		add(step{suite: former.suite, all: former.all})
	}
	for _, suite := range suites {
		add(step{suite: suite})
	}
	if r.all {
		for _, suite := range suites {
			add(step{suite: suite, all: true})
		}
	}
	if r.deep {
		for _, suite := range []string{"cmd/service-adapter", "spec/acceptance", "spec/backends"} {
			add(step{suite: suite, all: r.all})
		}
	}
	return steps
}

// try runs the suites of a mutant until one fails, and records the result. It returns an error if the suites cannot
// be run.
func (r *runner) try(ctx context.Context, m mutant) error {
	change, err := r.code.apply(m)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("/tmp", "m")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)                      //nolint:errcheck // it is a temporary directory
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // servers run as other users
		return err
	}
	overlay, err := writeOverlay(dir, r.code.root, change)
	if err != nil {
		return err
	}
	r.guard.Lock()
	former, _ := r.results.of(m.id)
	r.guard.Unlock()
	started := time.Now()
	outcome := result{id: m.id, all: r.all, deep: r.deep}
	for _, s := range r.steps(change, former) {
		failure, err := r.suite(ctx, m.id, dir, overlay, s)
		if err != nil {
			return fmt.Errorf("mutant %s, %s: %w", m.id, s.suite, err)
		}
		if failure != "" {
			outcome = result{id: m.id, suite: s.suite, all: s.all, failure: failure}
			break
		}
	}
	return r.record(m, former, outcome, time.Since(started))
}

// record adds the result of a mutant to the file of results, and reports it.
func (r *runner) record(m mutant, former, outcome result, duration time.Duration) error {
	r.guard.Lock()
	defer r.guard.Unlock()
	_, _ = fmt.Fprintf(r.out, "%s  (%s, %s, %s, %s)\n",
		outcome, m.file, m.declaration, m.what, duration.Round(time.Second))
	if former.suite != "" && outcome.survived() {
		r.escaped = append(r.escaped, fmt.Errorf("mutant %s survives; %s caught it", m.id, former.suite))
	}
	if (r.focus != "" || r.own) && outcome.survived() {
		return nil // other specs may catch it
	}
	return r.results.add(outcome)
}

// suite runs a suite with a mutant. It returns the first failure that the suite reports, and "" if the suite passes.
// The error means that the suite cannot be compiled or started.
func (r *runner) suite(ctx context.Context, id, dir, overlay string, s step) (failure string, err error) {
	binary := filepath.Join(dir, "suite.test")
	compile := goCommand(ctx, r.code.root, "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, "./"+s.suite)
	if output, err := compile.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling: %w: %s", err, output)
	}
	temp := filepath.Join(dir, "t")
	if err := os.Mkdir(temp, 0o755); err != nil { //nolint:gosec // servers run as other users
		return "", err
	}
	defer os.RemoveAll(temp) //nolint:errcheck // it is a temporary directory
	log, err := os.Create(filepath.Join(r.directory, id+"-"+strings.ReplaceAll(s.suite, "/", "_")+".log"))
	if err != nil {
		return "", err
	}
	defer log.Close() //nolint:errcheck // it is read again below, so an error is noticed there
	arguments := []string{"-test.failfast", "-test.timeout=0"}
	if r.packages[s.suite].ginkgo() {
		arguments = append(arguments, "-ginkgo.fail-fast", "-ginkgo.no-color")
		if r.focus != "" { // an empty expression would select the slow specs as well
			arguments = append(arguments, "-ginkgo.focus="+r.focus)
		}
	}
	command := exec.Command(binary, arguments...) //nolint:gosec // the suite was built here
	command.Dir = filepath.Join(r.code.root, s.suite)
	command.Stdout, command.Stderr = log, log
	command.Env = append(os.Environ(), "TMPDIR="+temp, "GOFLAGS=-trimpath -overlay="+overlay, "CGO_ENABLED=0", "SPECS=")
	if s.all {
		command.Env = append(command.Env, "SPECS=all")
	}
	ended, err := runSession(ctx, command, r.timeout)
	if err != nil {
		return "", err
	}
	if !ended {
		return "did not end within " + r.timeout.String(), nil
	}
	if command.ProcessState.Success() {
		return "", nil
	}
	return firstFailure(log.Name())
}

// goCommand returns a go command in the repository.
func goCommand(ctx context.Context, root string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", arguments...) //nolint:gosec // the names are constant
	command.Dir = root
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	return command
}
