package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"service-adapter/internal/value"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/servers"
)

// A laboratory contains the values that all trials share.
type laboratory struct {
	options
	dir     string // contains all files of the run
	pak     string
	kept    string // the directory for transcripts
	log     io.Writer
	started time.Time
	stores  []*store

	mutex     sync.Mutex
	counts    map[string]*count        // by the names of the fault and the command
	durations map[string]time.Duration // of a command without a fault, by its name
}

// A count is a row of the table.
type count struct{ struck, missed, lost, forgotten, stuck, failed int }

// findings returns the number of trials with a finding, including those that could not be staged.
func (c count) findings() int { return c.lost + c.forgotten + c.stuck + c.failed }

// open builds the pak, starts the servers and prepares the templates for each backend. It returns an error if a program
// is missing, a server cannot be started or a template cannot be prepared.
func (l *laboratory) open(ctx context.Context) error {
	l.counts = map[string]*count{}
	//nolint:gosec // servers run as other users
	if err := errors.Join(os.Chmod(l.dir, 0o755), l.buildPak()); err != nil {
		return err
	}
	for _, kind := range []string{local, pg, s3} {
		if l.backend != "" && l.backend != kind {
			continue
		}
		s := &store{kind: kind, location: "states"}
		l.stores = append(l.stores, s)
		if err := s.open(ctx, l.dir); err != nil {
			return fmt.Errorf("opening the backend %s: %w", kind, err)
		}
	}
	if len(l.stores) == 0 {
		return fmt.Errorf("there is no backend %q", l.backend)
	}
	for _, s := range l.stores {
		if err := l.warmUp(ctx, s); err != nil {
			return fmt.Errorf("preparing the templates for the backend %s: %w", s.kind, err)
		}
	}
	return nil
}

// close stops the servers of all backends.
func (l *laboratory) close() {
	for _, s := range l.stores {
		s.close()
	}
}

// buildPak copies the pak, and adds the provider and a wrapper of OpenTofu that a trial can pause. It returns an error
// if `make tools` has not built OpenTofu and the provider.
func (l *laboratory) buildPak() error {
	if err := os.CopyFS(l.pak, os.DirFS(kit.Path("spec", "faults", "testdata", "pak"))); err != nil {
		return err
	}
	wrapper, err := os.ReadFile(kit.Path("spec", "backends", "testdata", "tofu.sh"))
	if err != nil {
		return err
	}
	provider := kit.Path("build", "providers", "terraform-provider-directory")
	for _, program := range []string{kit.OpenTofuPath(kit.Newest), provider} {
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("%w; run `make tools`", err)
		}
	}
	script := strings.ReplaceAll(string(wrapper), "tofu=TOFU", "tofu="+kit.OpenTofuPath(kit.Newest))
	bin := filepath.Join(l.pak, "bin", runtime.GOOS, runtime.GOARCH)
	return errors.Join(
		os.MkdirAll(filepath.Join(bin, kit.Newest), 0o755),                          //nolint:gosec // a pak is public
		os.WriteFile(filepath.Join(bin, kit.Newest, "tofu"), []byte(script), 0o755), //nolint:gosec // it is a program
		os.Symlink(provider, filepath.Join(bin, "terraform-provider-directory_v1.0.0")),
	)
}

// warmUp runs one command of each kind without a fault, so that trials find prepared directories. It returns an error
// with a transcript if a command fails or a resource is lost.
func (l *laboratory) warmUp(ctx context.Context, s *store) error {
	t := l.newTrial(-1, s, rand.New(rand.NewPCG(0, 0))) //nolint:gosec // the choice needs no secrecy
	defer t.remove(ctx)
	warm := filepath.Join(l.dir, "warm-"+s.kind)
	err := t.attempt(func() {
		for _, m := range t.machines() {
			m.set(object{"cache_dir": warm})
		}
		for _, a := range actions() {
			if !a.runsOn(s) {
				continue
			}
			a.prepare(ctx, t)
			t.wait(a.begin(t))
			t.settle()
			t.recover(a)
		}
	})
	if problems := t.findings(); err == nil && len(problems) > 0 {
		err = errors.New("without a fault: " + strings.Join(problems, "; "))
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, t.transcript.String())
	}
	s.warm = warm
	return nil
}

// runTrial runs the trial with a number, counts its findings and reports them.
func (l *laboratory) runTrial(ctx context.Context, number int) {
	random := rand.New(rand.NewPCG(l.seed, uint64(number))) //nolint:gosec // the choice needs no secrecy
	t := l.newTrial(number, pick(random, l.stores), random)
	defer t.remove(ctx)
	f := pick(random, slices.DeleteFunc(faults(), func(f fault) bool { return l.fault != "" && f.name != l.fault }))
	a := pick(random, slices.DeleteFunc(actions(), func(a action) bool { return !a.runsOn(t.store) || !f.fits(a) }))
	err := t.attempt(func() { t.run(ctx, f, a) })
	if ctx.Err() != nil {
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	name := f.name + ": " + a.name
	if l.counts[name] == nil {
		l.counts[name] = &count{}
	}
	l.counts[name].add(t, err)
	problems := t.findings()
	if err != nil {
		problems = append(problems, "could not be staged: "+err.Error())
	}
	if len(problems) > 0 || l.only >= 0 {
		say(l.log, "trial %d, %s, %s: %s\n", number, t.store.kind, name, strings.Join(problems, "; "))
	}
	if len(problems) > 0 || l.only >= 0 || l.all {
		l.keep(t)
	}
}

// add counts a trial. An error means that the trial could not be staged.
func (c *count) add(t *trial, err error) {
	one := func(condition bool) int {
		if condition {
			return 1
		}
		return 0
	}
	c.struck += one(err == nil && t.struck)
	c.missed += one(err == nil && !t.struck)
	c.failed += one(err != nil)
	c.lost += one(t.lost != "")
	c.forgotten += one(t.forgotten != "")
	c.stuck += one(t.stuck != "")
}

// keep writes the transcript of a trial to a file.
func (l *laboratory) keep(t *trial) {
	path := filepath.Join(l.kept, fmt.Sprintf("%04d.log", t.number))
	err := os.MkdirAll(l.kept, 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(t.transcript.String()), 0o600)
	}
	if err != nil {
		say(l.log, "keeping a transcript: %s\n", err)
	}
}

// total returns the sums of all rows.
func (l *laboratory) total() count {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var sum count
	for _, row := range l.counts {
		sum.struck += row.struck
		sum.missed += row.missed
		sum.lost += row.lost
		sum.forgotten += row.forgotten
		sum.stuck += row.stuck
		sum.failed += row.failed
	}
	return sum
}

// table writes the table of counts.
func (l *laboratory) table(out io.Writer) {
	line := func(name string, c count) {
		say(out, "| %-44s | %5d | %6d | %4d | %9d | %5d | %8d |\n",
			name, c.struck, c.missed, c.lost, c.forgotten, c.stuck, c.failed)
	}
	say(out, "| %-44s | %5s | %6s | %4s | %9s | %5s | %8s |\n",
		"fault: command", "N", "missed", "lost", "forgotten", "stuck", "unstaged")
	say(out, "|%s|------:|-------:|-----:|----------:|------:|---------:|\n", strings.Repeat("-", 46))
	for _, name := range value.Keys(l.counts) {
		line(name, *l.counts[name])
	}
	line("all", l.total())
	say(out, "\nseed %d, %s\n", l.seed, time.Since(l.started).Round(time.Second))
}

// say writes a line to a stream of the process. A failure is ignored, because no other stream can report it.
func say(to io.Writer, format string, arguments ...any) { _, _ = fmt.Fprintf(to, format, arguments...) }

// pick returns a random item.
func pick[T any](random *rand.Rand, items []T) T { return items[random.IntN(len(items))] }

// openServer starts the server of a backend. It returns nil for the backend local. The error is a servers.ErrMissing if
// the server is not installed.
func openServer(ctx context.Context, kind, dir string) (*servers.Server, error) {
	switch kind {
	case pg:
		return servers.PostgreSQL(ctx, dir)
	case s3:
		return servers.S3(ctx, dir)
	default:
		return nil, nil //nolint:nilnil // local files need no server
	}
}
