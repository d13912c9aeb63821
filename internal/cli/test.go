package cli

import (
	"errors"
	"fmt"
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

const testHelp = `Play the examples of a pak's definitions and the cases in its tests/ directory as the on-demand broker would: schemas,
create, generate again, update, bind, unbind and destroy, with the pak's own OpenTofu. What a case created is removed even when it fails.
The binaries of an author's directory are fetched as "pak build" does; --cache keeps them.

A case is a small YAML file:

  service: redis                 # not needed where the pak has one
  plan: small                    # default: the first
  create: {maxclients: 500}      # parameters
  update: {maxclients: 2000}
  bind: {}
  errands: true                  # the provision template is applied by the lifecycle errand apply-instance
  expect:                        # what is left out is not compared; there are manifest, outputs, binding and error
    binding:
      credentials: {host: 10.0.0.10, port: 6379, password: <secret redis_password>}

In expected texts <any> stands for what differs from run to run. --update writes what the cases gave into their files.

EXIT STATUS
  0 all cases passed, 1 a case failed or there are none, 2 wrong usage, 3 anything else`

// newTest is `pak test PATH`.
func newTest(streams Streams) *cobra.Command {
	var filter string
	var options testOptions
	var build buildFlags
	command := &cobra.Command{
		Use:     "test PATH",
		Short:   "Play a pak's examples and test cases",
		Long:    testHelp,
		Example: "  service-adapter pak test redis --run small",
		Args:    exactly("PATH"),
		RunE: func(command *cobra.Command, args []string) error {
			pattern, err := regexp.Compile(filter)
			if err != nil {
				return usageError{fmt.Errorf("--run: %w", err)}
			}
			return testPak(command, streams, args[0], pattern, options, build)
		},
	}
	command.Flags().StringVar(&filter, "run", "", "play only the cases whose name matches this regular expression")
	command.Flags().BoolVar(&options.update, "update", false, "write what the cases gave into their files")
	command.Flags().BoolVar(&options.errands, "errands", false, "apply the provision templates of examples by lifecycle errands")
	command.Flags().IntVar(&options.parallel, "parallel", 1, "how many cases to play at once")
	build.sources(command)
	return command
}

// testPak plays the cases of a pak. An author's directory without binaries is built first, in a directory that is removed.
func testPak(
	command *cobra.Command, streams Streams, path string, pattern *regexp.Regexp, options testOptions, build buildFlags,
) error {
	return withPak(streams, path, func(pak *brokerpak.Pak) (err error) {
		cases, err := paktest.Cases(pak)
		if err != nil {
			return err
		}
		if len(cases) == 0 {
			return &fault.UserError{Message: fmt.Sprintf("%s has nothing to play: its definitions have no examples, and there are no cases in %s",
				path, filepath.Join(path, "tests", "*.yml"))}
		}
		if cases, err = selected(cases, pattern); err != nil {
			return err
		}
		for i := range cases {
			cases[i].Errands = cases[i].Errands || options.errands && cases[i].File == ""
		}
		if _, missing := os.Stat(filepath.Join(path, "bin")); pak.IsZip() || missing == nil {
			return playCases(command, streams, pak, cases, options)
		}
		dir, err := os.MkdirTemp("", "pak-test-")
		if err != nil {
			return fmt.Errorf("making a directory for the binaries: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		unpacked, err := buildForTest(command, streams, path, dir, build)
		if err != nil {
			return err
		}
		return withPak(streams, unpacked, func(runnable *brokerpak.Pak) error {
			return playCases(command, streams, runnable, cases, options)
		})
	})
}

// buildForTest builds the pak for this platform and unpacks it; it returns where to.
func buildForTest(command *cobra.Command, streams Streams, path, dir string, build buildFlags) (string, error) {
	build.target, build.output = "current", filepath.Join(dir, "test.brokerpak")
	options, err := build.options(streams, path)
	if err != nil {
		return "", usageError{err}
	}
	file, err := pakbuild.Build(command.Context(), options)
	if err != nil {
		return "", err
	}
	unpacked := filepath.Join(dir, "pak")
	return unpacked, pakbuild.Unpack(command.Context(), file, unpacked, nil)
}

type testOptions struct {
	update   bool
	errands  bool // for the examples
	parallel int
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

func playCases(command *cobra.Command, streams Streams, pak *brokerpak.Pak, cases []paktest.Case, options testOptions) error {
	failed := 0
	suite := paktest.Suite{Pak: pak, Getenv: streams.Getenv, Parallel: options.parallel, Done: func(result paktest.Result) {
		if result.Err != nil && !options.update {
			failed++
		}
		_, _ = fmt.Fprint(streams.Out, resultLine(result, options.update)) // the summary tells of failures as well
	}}
	results, err := suite.Play(command.Context(), cases)
	if err != nil {
		return err
	}
	if options.update {
		if failed, err = updateCases(results); err != nil {
			return err
		}
	}
	say(streams, fmt.Sprintf("%d passed, %d failed", len(results)-failed, failed))
	if failed > 0 {
		return errFindings
	}
	return nil
}

func resultLine(result paktest.Result, update bool) string {
	took := result.Took.Round(time.Millisecond)
	switch {
	case result.Err == nil:
		return fmt.Sprintf("ok    %s (%s)\n", result.Case.Name, took)
	case update && updatable(result):
		return fmt.Sprintf("updated %s (%s)\n", result.Case.Name, took)
	}
	return fmt.Sprintf("FAIL  %s (%s)\n      %s\n", result.Case.Name, took,
		strings.ReplaceAll(result.Err.Error(), "\n", "\n      "))
}

// played tells whether a case was played until it gave something to compare.
func played(result paktest.Result) bool {
	return result.Outcome.Manifest != nil || result.Outcome.Binding != nil || result.Outcome.Error != ""
}

// updatable tells whether what a case gave can be written into its file.
func updatable(result paktest.Result) bool { return result.Case.File != "" && played(result) }

// updateCases rewrites the files of cases and counts those that could not be played to the end.
func updateCases(results []paktest.Result) (failed int, err error) {
	for _, result := range results {
		switch {
		case result.Case.File == "" && result.Err != nil, !played(result):
			failed++
		case result.Case.File != "":
			if err := paktest.Update(result.Case, result.Outcome); err != nil {
				return failed, err
			}
		}
	}
	return failed, nil
}
