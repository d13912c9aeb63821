// Command faults injects faults into runs of the built adapter at random moments and counts the resources that the
// adapter loses. It is not part of continuous integration: `make faults N=1000` runs it.
//
// Each trial creates bindings and instances with resources that are observable outside of OpenTofu, on the backend
// local, pg or s3. A fault affects one command of the trial: its workspace is removed or replaced after OpenTofu's last
// write; the adapter, OpenTofu, the provider or the whole machine is killed; its template fails; or its prepared
// directories are damaged. Afterwards, the trial does what the broker and an operator do: it repeats the unbind or the
// destruction, and runs the command that a message names. Three kinds of findings are counted by trial:
//
//   - lost: a resource exists that neither a state nor a message nor the audit log names;
//   - forgotten: an unbind or a destruction succeeded, or reported a missing binding or instance, while a resource
//     exists that no message named;
//   - stuck: neither repetitions nor the command that a message names delete a binding or an instance, or a damaged
//     directory keeps failing commands.
//
// Standard output contains one table with the counts. The exit status is 1 if any count is not 0. The transcript of
// every trial with a finding is kept below build/faults. The same seed chooses the same faults again, but moments in
// time vary.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"service-adapter/spec/kit"
)

// options contains the flags of the command.
type options struct {
	adapter string
	count   int
	workers int
	seed    uint64
	only    int    // the number of the only trial, -1 for all
	fault   string // the name of the only fault, "" for all
	backend string // the only backend, "" for all
	all     bool   // whether the transcripts of all trials are kept
}

func main() {
	var chosen options
	flag.StringVar(&chosen.adapter, "adapter", kit.Path("build", "bin", "service-adapter"), "the adapter `binary`")
	flag.IntVar(&chosen.count, "n", 1000, "how many faults must strike")
	flag.IntVar(&chosen.workers, "workers", runtime.NumCPU(), "how many trials run at the same time")
	flag.Uint64Var(&chosen.seed, "seed", 0, "the seed of an earlier run; 0 for a new one")
	flag.IntVar(&chosen.only, "trial", -1, "run only the trial of this number")
	flag.StringVar(&chosen.fault, "fault", "", "inject only this `fault`: lose, replace, kill, evaluation or damage")
	flag.StringVar(&chosen.backend, "backend", "", "use only this `backend`: local, pg or s3")
	flag.BoolVar(&chosen.all, "keep", false, "keep the transcripts of all trials")
	flag.Parse()
	if chosen.seed == 0 {
		chosen.seed = rand.Uint64N(1 << 32) //nolint:gosec // the seed needs no secrecy
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	found, err := run(ctx, chosen, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
	}
	if err != nil || found {
		os.Exit(1)
	}
}

// run runs the trials, reports findings on log as they occur, and writes the table to out. It reports whether any count
// is not 0.
func run(ctx context.Context, chosen options, out, log io.Writer) (found bool, err error) {
	gomega.RegisterFailHandler(func(message string, _ ...int) { panic(stagingError(message)) })
	ginkgo.GinkgoWriter = silence{io.Discard} // the transcripts contain the same text
	gomega.SetDefaultEventuallyTimeout(3 * time.Minute)
	gomega.SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	if chosen.adapter, err = filepath.Abs(chosen.adapter); err != nil {
		return false, err
	}
	if _, err := os.Stat(chosen.adapter); err != nil {
		return false, fmt.Errorf("finding the adapter: %w; run `make build`", err)
	}
	dir, err := os.MkdirTemp("/tmp", "faults-") // a short path, because OpenTofu creates sockets below it
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if !slices.ContainsFunc(faults(), func(f fault) bool { return chosen.fault == "" || f.name == chosen.fault }) {
		return false, fmt.Errorf("there is no fault %q", chosen.fault)
	}
	l := &laboratory{
		options: chosen, dir: dir, pak: filepath.Join(dir, "pak"), log: log, started: time.Now(),
		kept: kit.Path("build", "faults", fmt.Sprint(chosen.seed)), durations: map[string]time.Duration{},
	}
	defer l.close()
	if err := l.open(ctx); err != nil {
		return false, err
	}
	say(log, "seed %d, %d faults, %d trials at the same time\n", chosen.seed, chosen.count, chosen.workers)
	l.runAll(ctx)
	l.table(out)
	return l.total().findings() > 0, ctx.Err()
}

// runAll runs trials until the required number of faults has occurred.
func (l *laboratory) runAll(ctx context.Context) {
	if l.only >= 0 {
		l.runTrial(ctx, l.only)
		return
	}
	var group sync.WaitGroup
	next := make(chan int)
	for range l.workers {
		group.Go(func() {
			for number := range next {
				l.runTrial(ctx, number)
			}
		})
	}
	for number := 0; ctx.Err() == nil && l.total().struck < l.count && number < 10*l.count; number++ {
		next <- number
	}
	close(next)
	group.Wait()
}

// silence is a GinkgoWriter that discards everything.
type silence struct{ io.Writer }

// Print discards its arguments.
func (silence) Print(...any) {}

// Printf discards its arguments.
func (silence) Printf(string, ...any) {}

// Println discards its arguments.
func (silence) Println(...any) {}

// TeeTo ignores the other writer.
func (silence) TeeTo(io.Writer) {}

// ClearTeeWriters does nothing.
func (silence) ClearTeeWriters() {}
