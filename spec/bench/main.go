// Command bench compares the duration and the memory of the adapter with minimal baselines: an empty program, the
// smallest adapter that the SDK allows, and OpenTofu alone. The programs of a comparison run alternately, so that other
// load on the machine affects both. The figures are medians and ratios of medians.
//
// The figures of each part are stored in a file, so that an interrupted run can be continued. At the end, the command
// writes the table in docs/performance.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"service-adapter/spec/bench/figures"
	"service-adapter/spec/kit/servers"
)

// A measure runs the comparisons of a part, one after the other, and returns their figures.
type measure func(ctx context.Context, b *bench) ([]figures.Figure, error)

// A part is the unit in which figures are measured and stored. A section of the table consists of one or more
// consecutive parts.
type part struct {
	section string
	name    string // the key in the file of results
	measure measure
}

// parts returns the parts of the benchmark in the order of the table.
func parts() []part {
	own, provider := figures.Goal{Ratio: 1}, figures.Goal{Ratio: 0.5}
	return []part{
		{"manifests", "manifests", manifests},
		{"bindings", "bindings, built-in, local", bindings("built-in resource", builtIn, local, own)},
		{"bindings", "bindings, provider, local", bindings("one provider", external, local, provider)},
		{"bindings", "bindings, built-in, pg", bindings("built-in resource", builtIn, pg, own)},
		{"bindings", "bindings, provider, pg", bindings("one provider", external, pg, provider)},
		{"large provider", "large provider", largeProvider},
		{"first binding", "first binding", cold},
		{"throughput", "throughput", throughput},
		{"stored bindings", "stored bindings, local", stored(local)},
		{"stored bindings", "stored bindings, pg", stored(pg)},
		{"stored bindings", "stored bindings, s3", stored(s3)},
		{"paks", "paks", paks},
	}
}

// A bench is a run of the benchmark.
type bench struct {
	root    string // the root of the repository
	dir     string // temporary, removed at the end
	quick   bool
	sites   int                        // the number of sites created so far
	servers map[string]*servers.Shared // by the name of the backend
	heavy   string                     // path of the large provider while it is measured, otherwise ""
}

// runs returns the number of runs of a comparison.
func (b *bench) runs(thorough, quick int) int {
	if b.quick {
		return quick
	}
	return thorough
}

// close stops the servers and removes all files of the run.
func (b *bench) close() error {
	for _, server := range b.servers {
		server.Close()
	}
	return os.RemoveAll(b.dir)
}

func main() {
	root := flag.String("root", ".", "the repository")
	quick := flag.Bool("quick", false, "measure less, and write no documentation")
	fresh := flag.Bool("fresh", false, "forget an interrupted run")
	only := flag.String("only", "", "measure one section, again if need be")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *root, *only, *quick, *fresh); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures all parts, or the parts of the section only, and reports the figures. With quick, it measures fewer runs
// and stores their figures separately. With fresh, it first removes the figures of earlier runs. It returns an error if
// a measured program fails.
func run(ctx context.Context, root, only string, quick, fresh bool) (err error) {
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	b := &bench{
		root: root, quick: quick,
		servers: map[string]*servers.Shared{pg: {Start: databases}, s3: {Start: servers.S3}},
	}
	checksum, err := fileChecksum(b.adapter())
	if err != nil {
		return err
	}
	if fresh {
		if err := os.RemoveAll(b.resultsFile()); err != nil {
			return err
		}
	}
	known, err := figures.Load(b.resultsFile(), checksum, only != "")
	if err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.build(ctx, "meter"); err != nil {
		return err
	}
	return b.measure(ctx, known, only)
}

// measure measures the parts without results, or the only section, and reports all figures.
func (b *bench) measure(ctx context.Context, known *figures.Results, only string) error {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	for _, p := range parts() {
		_, done := known.Parts[p.name]
		if only == "" && done || only != "" && only != p.section {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring", p.name)
		found, err := p.measure(ctx, b)
		if err != nil {
			return fmt.Errorf("measuring %s: %w", p.name, err)
		}
		for n := range found {
			found[n].Section = p.section
		}
		if err := known.Add(b.resultsFile(), p.name, found, names); err != nil {
			return err
		}
	}
	return b.report(known)
}
