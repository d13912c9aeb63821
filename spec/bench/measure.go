package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"service-adapter/spec/bench/figures"
)

// A program is a program to measure.
type program struct {
	bench *bench
	path  string
	args  []string
	stdin string
	env   []string
	dir   string
	// starts is true if the program starts other processes whose memory is measured separately. If tree is true, their
	// memory is added to that of the program.
	starts, tree bool
}

// A sample is the measurement of one run.
type sample struct {
	took         time.Duration
	own, largest float64 // in megabytes, as in figures.Measure
	stdout       string
	parts        []sample // the programs of which the sample is the sum
}

// run runs a program, which must succeed, and returns its measurement. An interrupt of this command is passed on to the
// program.
func (p program) run(ctx context.Context) (sample, error) {
	mode := "once"
	switch {
	case p.tree:
		mode = "tree"
	case p.starts:
		mode = "watch"
	}
	var stdout, stderr bytes.Buffer
	//nolint:gosec // the program to measure
	cmd := exec.CommandContext(ctx, p.bench.built("meter"), append([]string{mode, p.path}, p.args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir = strings.NewReader(p.stdin), &stdout, &stderr, p.env, p.dir
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 10*time.Second
	report, err := metered(cmd)
	s := sample{stdout: stdout.String()}
	if err != nil {
		return s, fmt.Errorf("%s %s: %w: %.1000s%.1000s", p.path, strings.Join(p.args, " "), err, stderr.String(),
			stdout.String())
	}
	var nanoseconds, largest, own int64
	if _, err := fmt.Sscan(report, &nanoseconds, &largest, &own); err != nil {
		return s, fmt.Errorf("reading the report of the meter, %q: %w", report, err)
	}
	s.took, s.largest, s.own = time.Duration(nanoseconds), float64(largest)/1024, float64(own)/1024
	// Periodic samples of the memory are slightly lower than the kernel's maximum, which is that of the largest
	// process.
	if !p.tree && s.own > 0.9*s.largest {
		s.own = s.largest
	}
	return s, nil
}

// metered runs the meter and returns its report. The error means that the meter cannot be run or that the program
// failed.
func metered(cmd *exec.Cmd) (string, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer read.Close() //nolint:errcheck // it is only read
	cmd.ExtraFiles = []*os.File{write}
	err = errors.Join(cmd.Run(), write.Close())
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(read)
	return string(text), err
}

// all runs programs one after the other. It returns their total duration and the maximum of their memory, or the first
// error of a program.
func all(ctx context.Context, programs ...program) (sample, error) {
	var sum sample
	for _, p := range programs {
		s, err := p.run(ctx)
		if err != nil {
			return sum, err
		}
		sum.took += s.took
		sum.own, sum.largest = max(sum.own, s.own), max(sum.largest, s.largest)
		sum.parts = append(sum.parts, s)
	}
	return sum, nil
}

// A side is one of the subjects of a comparison. n is the number of the run.
type side func(ctx context.Context, n int) (sample, error)

// A series contains the runs of one side.
type series []sample

// compare runs the sides alternately and returns the runs of each side. A first run of each side is not counted, to
// fill caches. It returns the first error of a run.
func compare(ctx context.Context, runs int, sides ...side) ([]series, error) {
	took := make([]series, len(sides))
	for n := range runs + 1 {
		for i, run := range sides {
			s, err := run(ctx, n)
			if err != nil {
				return nil, err
			}
			if n > 0 {
				took[i] = append(took[i], s)
			}
		}
	}
	return took, nil
}

// part returns the runs of one of the programs whose sums are the runs of the series.
func (s series) part(n int) series {
	var parts series
	for _, whole := range s {
		parts = append(parts, whole.parts[n])
	}
	return parts
}

// measure returns the distribution of the runs.
func (s series) measure() figures.Measure {
	var took, own, largest []float64
	for _, run := range s {
		took = append(took, float64(run.took)/float64(time.Millisecond))
		own, largest = append(own, run.own), append(largest, run.largest)
	}
	m := figures.Of(took...)
	m.Memory, m.Largest = figures.Of(own...).Median, figures.Of(largest...).Median
	return m
}

// alone returns a figure without a baseline.
func alone(name string, got series) figures.Figure {
	return figures.Figure{Name: name, Measure: got.measure()}
}

// against returns a figure with a baseline. The goal may be nil.
func against(name string, got series, what string, baseline series, goal *figures.Goal) figures.Figure {
	f := alone(name, got)
	measured := baseline.measure()
	f.Against, f.Baseline, f.Goal = what, &measured, goal
	return f
}

// built returns the path of a program of this benchmark. See build.
func (b *bench) built(name string) string { return filepath.Join(b.dir, name) }

// build builds programs of this benchmark. It returns an error with the compiler's output if a program cannot be built.
func (b *bench) build(ctx context.Context, names ...string) error {
	for _, name := range names {
		//nolint:gosec // the names are constant
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w",
			"-o", b.built(name), "./spec/bench/"+name)
		build.Dir, build.Env = b.root, append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w: %s", name, err, output)
		}
	}
	return nil
}
