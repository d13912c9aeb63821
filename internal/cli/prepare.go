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

// newPrepare returns the command `prepare`, which checks the configuration and all paks, initialises OpenTofu in the
// directory --dir for the templates of the paks that are directories, and prints a line for each prepared template.
// --dir must be an absolute path; its default is prepared_dir of the configuration, and a missing or relative path is a
// usageError. Every other error of the check or the preparation is written to standard error and exits with
// exitFindings. A failed write to standard output is another error.
//
// Some faults are only warnings on standard error: a pak is a zip file, the state backend does not respond, damaged
// binaries were unpacked again, or requests will be rejected because of the configuration. The templates that were
// not initialised are then initialised when they are first used. If the state backend does not respond, the templates
// that remain at that point are only tried out with a temporary local state: they have a line in the output as well,
// and a template that fails is an error.
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

// checkAndPrepare checks the adapter's configuration and all its paks, and then initialises OpenTofu in the directory
// dir for the templates of the paks that are directories; see prepare.Run. dir must be an absolute path; "" means
// prepared_dir of the configuration. command supplies only the context. streams supplies the environment, and its
// standard error receives only the log.
//
// Success does not mean that every template is initialised. A pak that is a zip file is not prepared, and if the state
// backend does not respond, templates may be left to their first use. Each of these cases is a warning in the result,
// which also contains warnings about the configuration and about damaged binaries of zip files that were unpacked
// again.
//
// The error is a usageError if neither dir nor the configuration names a directory, or if its path is relative. It is
// another error if the configuration is invalid, if a pak cannot be read or `pak validate` finds an error in it, if the
// binaries of a pak differ from its lock or from those of an earlier call, if the settings of the state backend are
// rejected, if a template cannot be initialised, if dir or a directory of the cache or the local state backend cannot
// be written, or if the context ends. The result must not be used after an error.
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

// pakError returns an error if the diagnostics of the pak at path contain errors, and nil if they contain only
// warnings and notices or are empty. The message names the path, the first error and the number of the other errors,
// on one line unless the text of the first error has line breaks, because the log of a BOSH job receives it. The pak
// is not read.
func pakError(path string, diagnostics []diag.Diagnostic) error {
	failures, more := errorsOf(diagnostics), ""
	if len(failures) == 0 {
		return nil
	}
	if len(failures) > 1 {
		more = fmt.Sprintf("; and %s more, see service-adapter pak validate", counted(len(failures)-1, "error"))
	}
	return fmt.Errorf("pak %s is invalid: %s%s", path, failures[0].String(), more)
}
