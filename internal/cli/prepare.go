package cli

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/adapter/config"
	"service-adapter/internal/author/lint"
	"service-adapter/internal/diag"
	"service-adapter/internal/operate/prepare"
)

// newPrepare returns the command `prepare`, which checks the configuration and all paks, initialises OpenTofu for the
// templates of the paks in a directory, and prints a line for each prepared template. A fault of the configuration or a
// pak is written to standard error and exits with exitFindings; a state backend that does not answer is a warning.
func newPrepare(streams Streams) *cobra.Command {
	var dir string
	command := &cobra.Command{
		Use:   "prepare",
		Short: "Check the configuration and initialise OpenTofu in advance",
		Long: `Check the adapter's configuration and its paks, and initialise OpenTofu for all their templates in a
directory. Commands whose configuration names the directory as prepared_dir use it, and never change it. It contains
the credentials of the state backend. Damaged parts of it are initialised again, and damaged binaries that were
unpacked from a zip are unpacked again. The binaries of a pak must have the digests in its lock, if it has one.

A mistake in the configuration or a pak is an error. If the state backend does not answer, the command prints a
warning, and templates that could not be initialised are initialised when they are first used.` +
			exitStatus("0 the templates are initialised, or the state backend does not answer",
				"1 the configuration or a pak is invalid"),
		Example: "  service-adapter prepare --dir /var/vcap/data/service-adapter/prepared",
		RunE: func(command *cobra.Command, _ []string) error {
			preparation, err := checkAndPrepare(command, streams, dir)
			if errors.As(err, new(usageError)) {
				return err
			}
			if err != nil {
				say(streams, "service-adapter: "+err.Error())
				return errFindings
			}
			for _, warning := range preparation.Warnings {
				say(streams, "warning: "+warning)
			}
			var lines strings.Builder
			for _, action := range preparation.Actions {
				fmt.Fprintf(&lines, "prepared %s in %s\n", action, preparation.Dir)
			}
			return write(streams.Stdout, lines.String())
		},
	}
	command.Flags().StringVar(&dir, "dir", "", "the directory (default: prepared_dir of the configuration)")
	return command
}

// checkAndPrepare checks the configuration and all its paks, and prepares the templates of the paks in the directory
// dir. "" means prepared_dir of the configuration. It returns a usageError if there is no directory or its path is
// relative, and another error if the configuration is invalid, if `pak validate` finds an error in a pak, or if a
// template cannot be prepared. A state backend that does not answer is a warning in the result, which must not be used
// after an error. See prepare.Run.
func checkAndPrepare(command *cobra.Command, streams Streams, dir string) (*prepare.Result, error) {
	settings, _, err := config.Load(streams.Getenv)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(cmp.Or(dir, settings.PreparedDir)) {
		return nil, usageError{prepare.ErrNoDirectory}
	}
	for _, path := range settings.Paks {
		report, err := lint.Lint(command.Context(), path)
		if err != nil {
			return nil, err
		}
		if err := pakError(path, report.Diagnostics); err != nil {
			return nil, err
		}
	}
	return prepare.Run(command.Context(), streams.Process(), dir)
}

// pakError returns an error if the diagnostics of the pak at path contain errors, and nil otherwise. Its message is one
// line with the first error and the number of the others, because it is written to the log of a BOSH job.
func pakError(path string, diagnostics []diag.Diagnostic) error {
	failures, more := errorsOf(diagnostics), ""
	if len(failures) == 0 {
		return nil
	}
	if len(failures) > 1 {
		more = fmt.Sprintf("; and %s more, see service-adapter pak validate", counted(len(failures)-1, "error"))
	}
	return fmt.Errorf("pak %s is wrong: %s%s", path, failures[0].String(), more)
}
