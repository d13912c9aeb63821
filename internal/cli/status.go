package cli

import (
	"context"

	"github.com/spf13/cobra"

	"service-adapter/internal/operate/states"
	"service-adapter/internal/operate/status"
)

// newStatus returns the command `status`, which prints the condition of all bindings, service instances and paks on one
// page to standard output, as text or with --json as JSON. It reads all states, writes progress and, if the state
// backend is empty, a warning to standard error, and changes no binding and no instance; only empty workspaces may be
// deleted, and incomplete state files of the backend local may be restored.
//
// The command exits with exitFindings if a binding, an instance or a pak is unreadable. It fails if the adapter cannot
// be opened with its configuration, which requires a readable pak, if no pak has a usable OpenTofu, if the states or
// the locks cannot be listed, if the audit log cannot be read, if the context ends, or if the output cannot be written.
func newStatus(streams Streams) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "status",
		Short: "Show all bindings, instances and paks on one page",
		Long: `Show the condition of all bindings, of the instances of provision templates and of the installed paks on
one page:

  - the numbers of bindings and instances, and how many were created with an older version than the installed pak
  - the binding or the instance that is not complete for the longest time
  - the locks that are held, since when and by whom, for the backends local and pg
  - the certificates in credentials and outputs that expire within 60 days
  - the last failures in the audit log, if audit_log is configured
  - the bindings and instances by service, plan, pak, OpenTofu, template and condition
  - whether an installed pak is still needed while all others stay installed, and for what

The command reads all states, as "bindings list" does, and changes nothing. docs/operations/status.md describes the page
and the JSON.` + exitStatus("0 the page was written", "1 a binding, an instance or a pak is unreadable"),
		Example:           "  service-adapter status --json",
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	jsonFlag(command, &asJSON)
	work := func(ctx context.Context, operator *states.Operator, _ []string) error {
		progress := newProgress(streams, "reading states")
		report, err := status.New(ctx, operator, progress.report)
		progress.end()
		if err == nil && len(report.Groups) == 0 {
			err = warnIfEmpty(ctx, streams, operator)
		}
		if err != nil {
			return err
		}
		document := struct {
			FormatVersion string `json:"format_version"`
			*status.Report
		}{documentFormat, report}
		if err := writeEither(streams, asJSON, document, report.Text()); err != nil {
			return err
		}
		return findingsError(report.Unreadable())
	}
	return withOperator(command, streams, &states.Options{}, work)
}
