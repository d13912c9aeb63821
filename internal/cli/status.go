package cli

import (
	"context"

	"github.com/spf13/cobra"

	"service-adapter/internal/operate/states"
	"service-adapter/internal/operate/status"
)

// newStatus returns the command `status`, which prints the condition of all bindings, instances and paks on one page.
// It exits with exitFindings if one of these is unreadable.
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
