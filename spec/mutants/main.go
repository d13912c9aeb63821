// Command mutants measures which mistakes the suites of the engine and of manifestgen detect. A mutant is the program
// with one small mistake: a condition is negated, a call is missing, a constant is changed. A suite catches a mutant if
// it fails.
//
//	go run ./spec/mutants check               whether each mutant applies to exactly one place of the code
//	go run ./spec/mutants run -table named    run the suites with the mutants of a table that have no result
//	go run ./spec/mutants run -ids 3,n2       run them again with some mutants
//	go run ./spec/mutants draw -seed 27 -prefix b -o F    draw 100 mutants from the current code, and write table F
//
// The tables are testdata/*.mutants. An edit names its declaration and shows the lines that it changes. It contains no
// line numbers, and comments and line breaks do not matter, so edits survive most changes of the code around them. If a
// declaration moves to another file or package, the edit still applies as long as only one place has its lines. If the
// code of an edit was rewritten, its lines in the table must be rewritten as well, so that the mutant has the same
// mistake.
//
// Command run compiles suites with an overlay, so it changes no file of the tree. It runs the suite of the mutant's
// package and, if it passes, the suites of the packages that import the package. With -all, they also run the specs
// that are skipped by default. With -deep, the suites that run the built program follow. A suite that does not end in
// time catches the mutant. So does a suite that fails without the mutant, so all suites must pass before.
// testdata/results.txt contains the results. Each result is stored immediately, so run can be interrupted. It ends with
// status 1 if a mutant survives that an earlier run caught.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"service-adapter/spec/kit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// command runs a command with its flags. Progress and findings are written to out.
func command(ctx context.Context, arguments []string, out io.Writer) error {
	if len(arguments) == 0 {
		return errors.New("the commands are draw, run and check")
	}
	flags := flag.NewFlagSet("mutants "+arguments[0], flag.ContinueOnError)
	switch arguments[0] {
	case "draw":
		var d drawing
		flags.Uint64Var(&d.seed, "seed", 1, "the `seed` of the random choice")
		flags.IntVar(&d.count, "n", 100, "how `many` mutants to draw")
		flags.StringVar(&d.prefix, "prefix", "", "the `prefix` of the ids, which other tables must not use")
		path := flags.String("o", "", "the `table` to write")
		if err := flags.Parse(arguments[1:]); err != nil {
			return err
		}
		return d.write(ctx, *path, out)
	case "check":
		build := flags.Bool("build", false, "compile the package of each mutant as well")
		if err := flags.Parse(arguments[1:]); err != nil {
			return err
		}
		return check(ctx, *build, out)
	case "run":
		testdata := kit.Path("spec", "mutants", "testdata")
		r := runner{directory: kit.Path("build", "mutants"), out: out}
		flags.StringVar(&r.file, "results", filepath.Join(testdata, "results.txt"), "the `file` of results")
		ids := flags.String("ids", "", "the `ids` of mutants, separated by commas")
		table := flags.String("table", "", "run only the mutants of the table with this `name`")
		flags.IntVar(&r.jobs, "jobs", 2, "how `many` mutants run at the same time")
		flags.StringVar(&r.focus, "focus", "",
			"run only the specs that match the `expression`; survivors are not recorded")
		flags.BoolVar(&r.own, "own", false, "run only the suite of the mutant's package; survivors are not recorded")
		flags.BoolVar(&r.again, "again", false, "run mutants that have a result as well")
		flags.BoolVar(&r.all, "all", false, "run survivors with SPECS=all")
		flags.BoolVar(&r.deep, "deep", false, "run survivors with the suites that drive the built program")
		flags.DurationVar(&r.timeout, "timeout", 20*time.Minute, "how `long` one suite may run")
		if err := flags.Parse(arguments[1:]); err != nil {
			return err
		}
		return r.run(ctx, *table, *ids)
	default:
		return fmt.Errorf("unknown command %q; the commands are draw, run and check", arguments[0])
	}
}

// tables returns the mutants of all tables, in the order of the names of the tables.
func tables() ([]mutant, error) {
	paths, err := filepath.Glob(kit.Path("spec", "mutants", "testdata", "*.mutants"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, path := range paths {
		text, err := os.ReadFile(path) //nolint:gosec // it is a table of the repository
		if err != nil {
			return nil, err
		}
		mutants, err := parseTable(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s:%w", path, err)
		}
		for i := range mutants {
			mutants[i].table = strings.TrimSuffix(filepath.Base(path), ".mutants")
		}
		all = append(all, mutants...)
	}
	return all, nil
}

// check applies each mutant of the tables to the code in memory, and compiles it if build is set. It returns an error
// that lists the mutants that do not apply to exactly one place or do not compile.
func check(ctx context.Context, build bool, out io.Writer) error {
	all, err := tables()
	if err != nil {
		return err
	}
	code, err := readCode(kit.Path())
	if err != nil {
		return err
	}
	var problems []error
	applied, gone := 0, 0
	ids := map[string]bool{}
	for _, m := range all {
		if ids[m.id] {
			problems = append(problems, fmt.Errorf("mutant %s is in the tables twice", m.id))
		}
		ids[m.id] = true
		if m.gone != "" {
			gone++
		} else if change, err := code.apply(m); err != nil {
			problems = append(problems, err)
		} else {
			applied++
			if build {
				if err := code.compiles(ctx, m); err != nil {
					problems = append(problems, fmt.Errorf("mutant %s: %w", m.id, err))
				}
			}
			if change.path != m.file {
				_, _ = fmt.Fprintf(out, "mutant %s has moved from %s to %s\n", m.id, m.file, change.path)
			}
		}
	}
	_, _ = fmt.Fprintf(out, "%d mutants apply, %d do not, the code of %d is gone\n", applied, len(problems), gone)
	return errors.Join(problems...)
}
