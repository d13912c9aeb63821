package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// program is a program that is measured.
type program struct {
	path  string
	args  []string
	stdin string
	env   []string
	dir   string
}

// sample is what one run took.
type sample struct {
	took   time.Duration
	memory float64 // megabytes
	stdout string
}

// run runs a program, which must succeed.
func (p program) run(ctx context.Context) (sample, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, p.path, p.args...) //nolint:gosec // what is measured
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir = strings.NewReader(p.stdin), &stdout, &stderr, p.env, p.dir
	begin := time.Now()
	err := cmd.Run()
	s := sample{took: time.Since(begin), stdout: stdout.String()}
	if err != nil {
		return s, fmt.Errorf("%s %s: %w: %.1000s%.1000s", p.path, strings.Join(p.args, " "), err, stderr.String(), stdout.String())
	}
	// The kernel counts what the process was before it became the program, a copy of this one: less than that tells nothing.
	var own syscall.Rusage
	err = syscall.Getrusage(syscall.RUSAGE_SELF, &own)
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && err == nil && usage.Maxrss > own.Maxrss {
		s.memory = float64(usage.Maxrss) / 1024
	}
	return s, nil
}

// all runs programs one after the other, as one thing.
func all(ctx context.Context, programs ...program) (sample, error) {
	var sum sample
	for _, p := range programs {
		s, err := p.run(ctx)
		if err != nil {
			return sum, err
		}
		sum.took += s.took
		sum.memory = max(sum.memory, s.memory)
	}
	return sum, nil
}

// side is one of the things that are compared; n counts its runs.
type side func(ctx context.Context, n int) (sample, error)

// compare runs things alternately, each once to warm up, and returns the medians of each.
func compare(ctx context.Context, runs int, sides ...side) ([]sample, error) {
	took := make([][]sample, len(sides))
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
	medians := make([]sample, len(sides))
	for i, samples := range took {
		medians[i].took = median(samples, func(s sample) time.Duration { return s.took })
		medians[i].memory = median(samples, func(s sample) float64 { return s.memory })
	}
	return medians, nil
}

func median[T time.Duration | float64](samples []sample, of func(sample) T) T {
	var values []T
	for _, s := range samples {
		values = append(values, of(s))
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return (values[middle-1] + values[middle]) / 2
}

// figure compares two medians.
func figure(name string, got sample, against string, baseline sample) Figure {
	return Figure{
		Name: name, Median: milliseconds(got.took), Baseline: milliseconds(baseline.took), Against: against,
		Memory: got.memory, BaselineMemory: baseline.memory,
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
