package cli

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/diag"
	"service-adapter/internal/paklint"
)

// newPrepare is `prepare`.
func newPrepare(streams Streams) *cobra.Command {
	var dir string
	command := &cobra.Command{
		Use:   "prepare",
		Short: "Check the configuration and initialise OpenTofu ahead",
		Long: `Check the adapter's configuration and its paks, and initialise OpenTofu for all their templates in a directory, which the configuration
of later commands names as prepared_dir and which they only read. It holds the credentials of the state backend.

What is wrong in the configuration or a pak is an error. A state backend that does not answer is a warning: what is missing is then
initialised when it is first used.` + exits("0 prepared, or the state backend does not answer", "1 the configuration or a pak is wrong"),
		Example: "  service-adapter prepare --dir /var/vcap/data/service-adapter/prepared",
		RunE: func(command *cobra.Command, _ []string) error {
			done, err := prepare(command, streams, dir)
			if errors.As(err, new(usageError)) {
				return err
			}
			if err != nil {
				say(streams, "service-adapter: "+err.Error())
				return errFindings
			}
			for _, warning := range done.Warnings {
				say(streams, "warning: "+warning)
			}
			var product strings.Builder
			for _, action := range done.Actions {
				fmt.Fprintf(&product, "prepared %s in %s\n", action, done.Dir)
			}
			return write(streams, product.String())
		},
	}
	command.Flags().StringVar(&dir, "dir", "", "the directory (default: prepared_dir of the configuration)")
	return command
}

func prepare(command *cobra.Command, streams Streams, dir string) (*adapter.Preparation, error) {
	config, err := adapter.LoadConfig(streams.Getenv)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(cmp.Or(dir, config.PreparedDir)) {
		return nil, usageError{adapter.ErrNoDirectory}
	}
	for _, path := range config.Paks {
		report, err := paklint.Lint(command.Context(), path)
		if err != nil {
			return nil, err
		}
		if err := firstError(path, report.Diagnostics); err != nil {
			return nil, err
		}
	}
	return adapter.Prepare(command.Context(), streams.invocation(), dir)
}

// firstError makes one line of the errors of a pak, as the log of a job's start has them.
func firstError(path string, found []diag.Diagnostic) error {
	found, more := errorsOf(found), ""
	if len(found) == 0 {
		return nil
	}
	if len(found) > 1 {
		more = fmt.Sprintf("; and %s more, see service-adapter pak validate", counted(len(found)-1, "error"))
	}
	return fmt.Errorf("pak %s is wrong: %s%s", path, found[0].String(), more)
}
