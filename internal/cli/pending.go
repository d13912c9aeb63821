package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/value"
)

const pendingHelp = `Tell why the broker refuses updates of an instance with "pending changes": generate the manifest of the instance again, as the
broker does before every update, and list each place where it differs from the deployed one, with both values and the reason.
What the next update changes of that which a provision template made is listed as well, resource by resource, although the broker
refuses no update for it: OpenTofu plans it and changes nothing.

It uses the adapter's configuration, so run it where the broker runs or set SERVICE_ADAPTER_CONFIG.

EXIT STATUS
  0 no pending changes, 1 there are some, of the manifest or of resources, 2 wrong usage, 3 anything else`

// newPending is `pending-changes`.
func newPending(streams Streams) *cobra.Command {
	var manifest, plan string
	var asJSON bool
	command := &cobra.Command{
		Use:     "pending-changes --manifest FILE --plan FILE",
		Short:   "Tell why the broker says \"pending changes\", and what OpenTofu will change",
		Long:    pendingHelp,
		Example: "  bosh -d service-instance_GUID manifest > deployed.yml\n  service-adapter pending-changes --manifest deployed.yml --plan plan.json",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if manifest == "" || plan == "" {
				return usageError{errors.New("--manifest and --plan are required")}
			}
			deployed, err := os.ReadFile(manifest) //nolint:gosec // the user names the file
			if err != nil {
				return fmt.Errorf("reading the deployed manifest: %w", err)
			}
			planJSON, err := os.ReadFile(plan) //nolint:gosec // the user names the file
			if err != nil {
				return fmt.Errorf("reading the plan: %w", err)
			}
			changes, err := adapter.PendingChanges(command.Context(), streams.invocation(), string(deployed), string(planJSON), nil)
			if err != nil {
				return err
			}
			return printChanges(streams, changes, asJSON)
		},
	}
	command.Flags().StringVar(&manifest, "manifest", "", "the deployed manifest")
	command.Flags().StringVar(&plan, "plan", "", "the plan as JSON, as the broker sends it to adapters")
	command.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return command
}

func printChanges(streams Streams, changes []adapter.Change, asJSON bool) error {
	if asJSON {
		if err := writeJSON(streams, append([]adapter.Change{}, changes...)); err != nil {
			return err
		}
	} else {
		var out strings.Builder
		for _, change := range changes {
			if change.OpenTofu != "" {
				fmt.Fprintf(&out, "%s\n  OpenTofu:  %s\n  reason:    %s\n", change.Path, change.OpenTofu, change.Reason)
				continue
			}
			fmt.Fprintf(&out, "%s\n  deployed:  %s\n  generated: %s\n  reason:    %s\n",
				change.Path, value.MustJSON(change.Deployed), value.MustJSON(change.Generated), change.Reason)
		}
		if _, err := io.WriteString(streams.Out, out.String()); err != nil {
			return err
		}
	}
	say(streams, counted(len(changes), "pending change"))
	if len(changes) > 0 {
		return errFindings
	}
	return nil
}
