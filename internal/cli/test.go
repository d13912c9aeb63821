package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/pakbuild"
	"service-adapter/internal/paktest"
)

// newTest is `pak test PATH`.
func newTest(streams Streams) *cobra.Command {
	var filter string
	var watched bool
	options := testOptions{streams: streams}
	command := &cobra.Command{
		Use:   "test PATH",
		Short: "Play a pak's examples and test cases",
		Long: `Play the examples of a pak's definitions and the cases in its tests/ directory as the on-demand broker would: schemas,
create, generate again, update, bind, unbind and destroy, with the pak's own OpenTofu. What a case created is removed even when it fails.
The binaries of an author's directory are fetched as "pak build" does; --cache keeps them.

A case is a small YAML file: parameters of requests, and what is expected of the manifest, the binding and more. "pak init" writes one of
each kind, docs/testing.md has all keys, "pak schema case" is for editors. --update writes what the cases gave into their files.` +
			exits("0 all cases passed", "1 a case failed or there are none"),
		Example: "  service-adapter pak test redis --run small",
		RunE: func(command *cobra.Command, args []string) (err error) {
			if options.pattern, err = regexp.Compile(filter); err != nil {
				return usageError{fmt.Errorf("--run: %w", err)}
			}
			play := func() error { return options.testPak(command.Context(), args[0]) }
			if watched {
				return watch(command.Context(), streams, args[0], play)
			}
			return play()
		},
	}
	command.Flags().StringVar(&filter, "run", "", "play only the cases whose name matches this regular expression")
	command.Flags().BoolVar(&options.update, "update", false, "write what the cases gave into their files")
	command.Flags().BoolVar(&watched, "watch", false, "play again when a file of the pak changes, until interrupted")
	command.Flags().BoolVar(&options.errands, "errands", false, "apply the provision templates of examples by lifecycle errands")
	command.Flags().IntVar(&options.parallel, "parallel", 1, "how many cases to play at once")
	options.build.sources(command)
	return command
}

type testOptions struct {
	streams  Streams
	pattern  *regexp.Regexp
	update   bool
	errands  bool // for the examples
	parallel int
	build    buildFlags
}

// watch plays, and again whenever a file below a path has changed, until the context ends. It returns what was played last.
func watch(ctx context.Context, streams Streams, path string, play func() error) error {
	for {
		seen := fileTimes(path)
		err := play()
		if ctx.Err() != nil {
			return err
		}
		if err != nil && !errors.Is(err, errFindings) {
			say(streams, err.Error())
		}
		say(streams, "waiting for a change of "+path)
		for fileTimes(path) == seen {
			select {
			case <-ctx.Done():
				return errors.Join(err, ctx.Err())
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
}

// fileTimes tells when the files below a path were written.
func fileTimes(path string) string {
	var times strings.Builder
	_ = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error { // what cannot be read has no times
		if err == nil && !entry.IsDir() {
			if info, err := entry.Info(); err == nil {
				fmt.Fprintln(&times, name, info.ModTime().UnixNano(), info.Size())
			}
		}
		return nil
	})
	return times.String()
}

// testPak plays the cases of a pak. What an author's directory lacks is put together first, in a directory that is removed.
func (o testOptions) testPak(ctx context.Context, path string) error {
	return withPak(o.streams, path, func(pak *brokerpak.Pak) (err error) {
		cases, err := paktest.Cases(pak, o.errands)
		if err != nil {
			return err
		}
		if len(cases) == 0 {
			return &fault.UserError{Message: fmt.Sprintf("%s has nothing to play: its definitions have no examples, and there are no cases in %s",
				path, filepath.Join(path, "tests", "*.yml"))}
		}
		if cases, err = selected(cases, o.pattern); err != nil {
			return err
		}
		if _, missing := os.Stat(filepath.Join(path, "bin")); pak.IsZip() || missing == nil {
			return o.playCases(ctx, pak, cases)
		}
		dir, err := os.MkdirTemp("", "pak-test-")
		if err != nil {
			return fmt.Errorf("making a directory for the binaries: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		o.build.target, o.build.output = "current", filepath.Join(dir, "pak")
		options, err := o.build.options(o.streams, path)
		if err != nil {
			return usageError{err}
		}
		options.Unpacked = true
		staged, err := pakbuild.Build(ctx, options)
		if err != nil {
			return err
		}
		return withPak(o.streams, staged, func(runnable *brokerpak.Pak) error { return o.playCases(ctx, runnable, cases) })
	})
}

// selected returns the cases whose name matches. That none does is an error.
func selected(cases []paktest.Case, pattern *regexp.Regexp) ([]paktest.Case, error) {
	var chosen []paktest.Case
	var names []string
	for _, testCase := range cases {
		names = append(names, testCase.Name)
		if pattern.MatchString(testCase.Name) {
			chosen = append(chosen, testCase)
		}
	}
	if len(chosen) == 0 {
		return nil, usageError{fmt.Errorf("--run %q matches no case; there are: %s", pattern, diag.Names(names))}
	}
	return chosen, nil
}

func (o testOptions) playCases(ctx context.Context, pak *brokerpak.Pak, cases []paktest.Case) error {
	failed := 0
	var failure error
	suite := paktest.Suite{Pak: pak, Getenv: o.streams.Getenv, Parallel: o.parallel, Done: func(result paktest.Result) {
		verdict := "ok   "
		if result.Err != nil {
			verdict = "FAIL "
		}
		if o.update && result.Updatable() {
			changed, err := paktest.Update(result)
			failure = errors.Join(failure, err)
			if changed || result.Err != nil {
				verdict, result.Err = "updated", nil
			}
		}
		line := fmt.Sprintf("%s %s (%s)\n", verdict, result.Case.Name, result.Took.Round(time.Millisecond))
		if result.Err != nil {
			failed++
			line += "      " + strings.ReplaceAll(result.Err.Error(), "\n", "\n      ") + "\n"
		}
		_, _ = fmt.Fprint(o.streams.Stdout, line) // the summary tells of failures as well
	}}
	_, err := suite.Play(ctx, cases)
	if err := errors.Join(err, failure); err != nil {
		return err
	}
	say(o.streams, fmt.Sprintf("%d passed, %d failed", len(cases)-failed, failed))
	return findings(failed > 0)
}
