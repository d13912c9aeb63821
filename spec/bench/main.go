// Command bench measures what an adapter costs beside the least that is possible: an empty program, the least adapter that the SDK
// allows, and OpenTofu alone. What is compared runs alternately in one run, so a busy machine hurts both; the figures are medians
// and ratios of medians.
//
// Each section's figures are kept in a file, so that a run that was interrupted goes on where it was. At the end the table and the
// chart of docs/performance.md are written.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
)

// Figure is one measured thing.
type Figure struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	// Median is in milliseconds, or in Unit where that is set. Baseline is what it is compared with, 0 when that is nothing.
	Median   float64 `json:"median"`
	Baseline float64 `json:"baseline,omitempty"`
	Against  string  `json:"against,omitempty"`
	Unit     string  `json:"unit,omitempty"`
	// Memory and its baseline are the most that was resident, in megabytes; 0 where it was not measured.
	Memory         float64 `json:"memory,omitempty"`
	BaselineMemory float64 `json:"baseline_memory,omitempty"`
}

// Ratio is Median / Baseline, 0 without a baseline.
func (f Figure) Ratio() float64 {
	if f.Baseline == 0 {
		return 0
	}
	return f.Median / f.Baseline
}

// section measures one thing after the other.
type section struct {
	name    string
	measure func(ctx context.Context, b *bench) ([]Figure, error)
}

func sections() []section {
	return []section{
		{"manifests", manifests},
		{"bindings", bindings},
		{"first binding", cold},
		{"throughput", throughput},
		{"stored bindings", stored},
		{"paks", paks},
	}
}

// bench is the run.
type bench struct {
	root  string // of the repository
	dir   string // removed at the end
	quick bool
}

// runs returns how often a thing is measured.
func (b *bench) runs(thorough, quick int) int {
	if b.quick {
		return quick
	}
	return thorough
}

func main() {
	root := flag.String("root", ".", "the repository")
	quick := flag.Bool("quick", false, "measure less, and write no documentation")
	fresh := flag.Bool("fresh", false, "forget an earlier run")
	only := flag.String("only", "", "measure one section")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *root, *only, *quick, *fresh); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, only string, quick, fresh bool) (err error) {
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	results := filepath.Join(root, "build", "bench", "results.json")
	if quick {
		results = filepath.Join(root, "build", "bench", "quick.json")
	}
	if fresh {
		if err := os.Remove(results); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	known, err := load(results)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{root: root, dir: dir, quick: quick}
	for _, s := range sections() {
		if _, done := known[s.name]; done && only != s.name || only != "" && only != s.name {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring", s.name)
		figures, err := s.measure(ctx, b)
		if err != nil {
			return fmt.Errorf("measuring %s: %w", s.name, err)
		}
		for n := range figures {
			figures[n].Section = s.name
		}
		known[s.name] = figures
		if err := save(results, known); err != nil {
			return err
		}
	}
	return report(root, results, known, quick)
}

func load(path string) (map[string][]Figure, error) {
	known := map[string][]Figure{}
	text, err := os.ReadFile(path) //nolint:gosec // the benchmark's own file
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	return known, json.Unmarshal(text, &known)
}

func save(path string, known map[string][]Figure) error {
	text, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, append(text, '\n'), 0o644)) //nolint:gosec // no secrets
}
