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
	"service-adapter/internal/author/build"
	"service-adapter/internal/author/test"
	"service-adapter/internal/diag"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/fault"
)

// newTest returns the command `pak test PATH`, which runs the examples and the test cases of the pak at PATH with real
// OpenTofu, and prints a line for each to standard output. --run selects them by their names. With --update the command
// writes the actual results into the files of the cases, and with --errands the provision templates of examples are
// applied by lifecycle errands. With --watch it runs the cases again after each change of a file, until it is
// interrupted.
//
// The command exits with exitFindings if a case fails, if the pak has no cases, or if the pak or a file of cases is
// invalid. It returns a usageError if --run is not a regular expression or matches no case, or if the pak must be
// built first and --binary is malformed. It returns another error if the pak cannot be read or built, if a plan of
// the environment variables GSB_SERVICE_<NAME>_PLANS is invalid, or if a file cannot be updated. Failed writes to the
// streams are ignored. With --watch, these errors, except that of an invalid regular expression, are only written to
// standard error, and the command waits for the next change; see watch for its error after the interruption.
func newTest(streams Streams) *cobra.Command {
	var filter string
	var watchFiles bool
	options := testOptions{streams: streams}
	command := &cobra.Command{
		Use:   "test PATH",
		Short: "Run a pak's examples and test cases",
		Long: `Run the examples of a pak's definitions and the test cases in its directory tests/ with the requests of
the on-demand broker: schemas, create, generate again, update, bind, unbind and destroy. They use the OpenTofu of the
pak. The resources of a case are removed even if it fails. For a pak that is a source directory, the OpenTofu is that
of PATH or of build/tofu if it has the version that the manifest names, unless its entry has a url_template. All other
binaries are fetched as "pak build" does; --cache keeps them, and --binary NAME=FILE names a file instead.

A case is a small YAML file with the parameters of requests and the expected manifest, binding and other results. "pak
init" writes one case of each kind, docs/testing.md lists all keys, and "pak schema case" prints a schema for editors.
--update writes the actual results into the files of the cases.

An example of a plan that only the operator declares cannot be run unless GSB_SERVICE_<NAME>_PLANS is set, as the
operator does. Without it, a warning names the example, which is not played and does not count as failed.` +
			exitStatus("0 no case failed", "1 a case failed or there are no cases"),
		Example: "  service-adapter pak test redis --run small",
		RunE: func(command *cobra.Command, args []string) (err error) {
			if options.pattern, err = regexp.Compile(filter); err != nil {
				return usageError{fmt.Errorf("--run: %w", err)}
			}
			play := func() error { return options.testPak(command.Context(), args[0]) }
			if watchFiles {
				return watch(command.Context(), streams, args[0], play)
			}
			return play()
		},
	}
	command.Flags().StringVar(&filter, "run", "", "run only the cases whose name matches this regular expression")
	command.Flags().BoolVar(&options.update, "update", false, "write the actual results into the files of the cases")
	command.Flags().BoolVar(&watchFiles, "watch", false, "run again when a file of the pak changes, until interrupted")
	command.Flags().BoolVar(&options.errands, "errands", false,
		"apply the provision templates of examples by lifecycle errands")
	command.Flags().IntVar(&options.parallel, "parallel", 1, "the number of cases to run at the same time")
	options.build.addSourceFlags(command)
	return command
}

// A testOptions holds the flags of `pak test` and the streams to which the results are written. streams and pattern
// must be set, so the zero value is not usable. The zero values of the other fields are valid and mean that the cases
// run one after the other and that no file is changed.
type testOptions struct {
	streams Streams
	// pattern matches the names of the cases to run.
	pattern *regexp.Regexp
	// update writes the actual results into the files of the cases.
	update bool
	// errands applies the provision templates of examples by lifecycle errands.
	errands bool
	// parallel is the number of cases that run at the same time.
	parallel int
	// build holds the sources of the binaries for a pak that is a source directory.
	build buildFlags
}

// watch calls play, waits until a file at or below path has changed since before that call, and repeats this until
// ctx is done. A change by play itself counts, so that watch calls play again at once. play must end when ctx ends.
// watch writes each error of play to standard error, except errFindings, and a line whenever it begins to wait. If
// ctx ends during a call of play, watch returns the error of that call, which may be nil. If ctx ends while it waits,
// watch returns the error of ctx, joined with that of the last call.
func watch(ctx context.Context, streams Streams, path string, play func() error) error {
	for {
		seen := fileStamps(path)
		err := play()
		if ctx.Err() != nil {
			return err
		}
		if err != nil && !errors.Is(err, errFindings) {
			say(streams, err.Error())
		}
		say(streams, "waiting for a change of "+path)
		for fileStamps(path) == seen {
			select {
			case <-ctx.Done():
				return errors.Join(err, ctx.Err())
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
}

// fileStamps returns a text that changes when a file at or below a path is written, created or removed: one line for
// each file, in lexical order, with its path, its modification time in nanoseconds and its size in bytes. A symbolic
// link, also at the path itself, has a line of its own and is not followed, so that changes of its target are not
// noticed. Directories have no lines, and files that cannot be inspected are left out. The text is "" if no file
// exists.
func fileStamps(path string) string {
	var times strings.Builder
	_ = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error { // the function returns no errors
		if err == nil && !entry.IsDir() {
			if info, err := entry.Info(); err == nil {
				fmt.Fprintln(&times, name, info.ModTime().UnixNano(), info.Size())
			}
		}
		return nil
	})
	return times.String()
}

// testPak runs the examples and the test cases of the pak at path whose names match o.pattern, writes the results to
// the streams, and with o.update changes the files of the cases; see playCases. If the pak is a directory without the
// subdirectory bin, testPak first builds it for the current platform in a temporary directory, which it removes
// afterwards; this fetches binaries, except an OpenTofu that is installed (see installedTofu), and writes progress to
// standard error. Only then are --cache and --binary used and checked.
//
// testPak returns errFindings if a case fails, also because ctx ends, an error that is or wraps a *fault.UserError if
// the pak has no cases or a file of cases is invalid, and a usageError if no case matches the pattern or --binary has
// an invalid form. It returns another error if the pak is invalid or cannot be opened or built, if the plans of the
// environment variables GSB_SERVICE_<NAME>_PLANS are invalid, if a temporary directory cannot be created or removed, or
// if the file of a case cannot be updated.
func (o testOptions) testPak(ctx context.Context, path string) error {
	return withPak(o.streams, path, func(pak *brokerpak.Pak) (err error) {
		cases, err := test.Cases(pak, o.errands)
		if err != nil {
			return err
		}
		if len(cases) == 0 {
			return &fault.UserError{Message: fmt.Sprintf(
				"%s has nothing to run: its definitions have no examples, and there are no cases in %s",
				path, filepath.Join(path, "tests", "*.yml"))}
		}
		if cases, err = matchingCases(cases, o.pattern); err != nil {
			return err
		}
		if _, missing := os.Stat(filepath.Join(path, "bin")); pak.IsZip() || missing == nil {
			return o.playCases(ctx, test.Suite{Pak: pak}, cases)
		}
		dir, err := os.MkdirTemp("", "pak-test-")
		if err != nil {
			return fmt.Errorf("creating a directory for the binaries: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		o.build.target, o.build.output = "current", filepath.Join(dir, "pak")
		options, err := o.build.options(o.streams, path)
		if err != nil {
			return usageError{err}
		}
		options.Unpacked, options.Installed = true, o.installedTofu
		staged, err := build.Build(ctx, options)
		if err != nil {
			return err
		}
		return withPak(o.streams, staged, func(runnable *brokerpak.Pak) error {
			return o.playCases(ctx, test.Suite{Pak: runnable, Source: filepath.Clean(path)}, cases)
		})
	})
}

// installedTofu returns the path of an installed OpenTofu with the version of entry, an entry of terraform_binaries in
// the manifest of a pak. The candidates are, in this order, the file tofu in each directory of the environment variable
// PATH, build/tofu/VERSION/tofu below the working directory, and ../tofu/VERSION/tofu relative to the directory of this
// program. It runs candidates with "version -json" until one reports the version. The path may be relative to the
// working directory. It returns "" if no candidate has the version, if entry is not OpenTofu, or if ctx ends.
func (o testOptions) installedTofu(ctx context.Context, entry brokerpak.Binary) string {
	if entry.Kind() != brokerpak.Tofu {
		return ""
	}
	var candidates []string
	path, _ := o.streams.Getenv("PATH")
	for _, dir := range filepath.SplitList(path) {
		candidates = append(candidates, filepath.Join(dir, "tofu"))
	}
	versionPath := filepath.Join("tofu", entry.FileVersion(), "tofu")
	candidates = append(candidates, filepath.Join("build", versionPath))
	if program, err := os.Executable(); err == nil { // build/bin/service-adapter
		candidates = append(candidates, filepath.Join(filepath.Dir(program), "..", versionPath))
	}
	return opentofu.FindVersion(ctx, entry.Version, candidates)
}

// matchingCases returns the cases whose names contain a match of the pattern, in the same order. If no case matches,
// also because cases is empty, it returns nil and a usageError that lists the first nine names of the cases.
func matchingCases(cases []test.Case, pattern *regexp.Regexp) ([]test.Case, error) {
	var matching []test.Case
	var names []string
	for _, testCase := range cases {
		names = append(names, testCase.Name)
		if pattern.MatchString(testCase.Name) {
			matching = append(matching, testCase)
		}
	}
	if len(matching) == 0 {
		return nil, usageError{fmt.Errorf("--run %q matches no case; there are: %s", pattern, diag.Names(names))}
	}
	return matching, nil
}

// playCases runs cases with a suite whose pak has binaries. The suite's Pak and Source are used as they are; playCases
// sets Getenv, Parallel and Done. It writes a line for each case to standard output: the verdict with the reason of a
// failure, or the reason why an unplayable case was not played, which is not a failure. It writes warnings, each text
// once, and a final summary to standard error. With o.update it writes the actual results into the files of the cases
// where that is possible; such a case does not count as failed. When ctx ends, the cases that have not ended fail.
//
// playCases returns errFindings if a case failed. It returns another error, without a summary, if the temporary
// directory of the cases cannot be created or removed, or if a file cannot be updated. Failed writes to the streams are
// ignored.
func (o testOptions) playCases(ctx context.Context, suite test.Suite, cases []test.Case) error {
	failed, unplayable := 0, 0
	var failure error
	warned := map[string]bool{}
	suite.Getenv, suite.Parallel = o.streams.Getenv, o.parallel
	suite.Done = func(result test.Result) {
		verdict := "ok   "
		if result.Warning != nil && !warned[result.Warning.Error()] {
			warned[result.Warning.Error()] = true
			say(o.streams, "warning: "+strings.ReplaceAll(result.Warning.Error(), "\n", "\nwarning: "))
		}
		switch {
		case result.Err != nil:
			verdict = "FAIL "
		case result.Case.Unplayable != "":
			unplayable++
			// The summary counts the case even if the line is lost.
			line := fmt.Sprintf("warning %s was not played: %s\n", result.Case.Name, result.Case.Unplayable)
			_, _ = fmt.Fprint(o.streams.Stdout, line)
			return
		}
		if o.update && result.Updatable() {
			changed, err := test.Update(ctx, result)
			failure = errors.Join(failure, err)
			if err == nil && (changed || result.Err != nil) {
				verdict, result.Err = "updated", nil
			}
		}
		line := fmt.Sprintf("%s %s (%s)\n", verdict, result.Case.Name, result.Took.Round(time.Millisecond))
		if result.Err != nil {
			failed++
			line += "      " + strings.ReplaceAll(result.Err.Error(), "\n", "\n      ") + "\n"
		}
		_, _ = fmt.Fprint(o.streams.Stdout, line) // the exit code reports failures even if the line is lost
	}
	_, err := suite.Play(ctx, cases)
	if err := errors.Join(err, failure); err != nil {
		return err
	}
	summary := fmt.Sprintf("%d passed, %d failed", len(cases)-failed-unplayable, failed)
	if unplayable > 0 {
		summary += fmt.Sprintf(", %d not played", unplayable)
	}
	say(o.streams, summary)
	return findingsError(failed > 0)
}
