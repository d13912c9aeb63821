package cli

import (
	"context"
	"errors"
	"fmt"
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

With --all it does so for every instance, with the plans, releases and stemcells of the broker's configuration: for those that the broker's
Director has, or for the files of a directory. It counts the instances by what becomes of them and by change, and then lists the changes
of each. docs/operations.md has the rules.

It uses the adapter's configuration, so run it where the broker runs or set SERVICE_ADAPTER_CONFIG.`

// pendingFlags say what to check.
type pendingFlags struct {
	manifest, plan          string
	all                     bool
	brokerConfig, manifests string
	asJSON                  bool
}

// newPending is `pending-changes`.
func newPending(streams Streams) *cobra.Command {
	var p pendingFlags
	command := &cobra.Command{
		Use:   "pending-changes --manifest FILE --plan FILE | --all --broker-config FILE [--manifests DIR]",
		Short: "Tell why the broker says \"pending changes\", and what OpenTofu will change",
		Long:  pendingHelp + exits("0 no pending changes", "1 there are some, of the manifest or of resources", "3 anything else, such as an instance that cannot be checked"),
		Example: "  bosh -d service-instance_GUID manifest > deployed.yml\n  service-adapter pending-changes --manifest deployed.yml --plan plan.json\n" +
			"  service-adapter pending-changes --all --broker-config /var/vcap/jobs/broker/config/broker.yml",
		RunE: func(command *cobra.Command, _ []string) error {
			switch one, all := p.manifest != "" && p.plan != "", p.all && p.brokerConfig != ""; {
			case all && p.manifest+p.plan == "":
				return p.checkAll(command.Context(), streams)
			case one && !p.all && p.brokerConfig+p.manifests == "":
				return p.one(command.Context(), streams)
			default:
				return usageError{errors.New("either --manifest and --plan or --all and --broker-config are required")}
			}
		},
	}
	command.Flags().StringVar(&p.manifest, "manifest", "", "the deployed manifest")
	command.Flags().StringVar(&p.plan, "plan", "", "the plan as JSON, as the broker sends it to adapters")
	command.Flags().BoolVar(&p.all, "all", false, "every instance")
	command.Flags().StringVar(&p.brokerConfig, "broker-config", "", "with --all, the broker's own configuration, broker.yml of its job")
	command.Flags().StringVar(&p.manifests, "manifests", "", "with --all, a directory of deployed manifests instead of the broker's Director")
	jsonFlag(command, &p.asJSON)
	return command
}

func (p *pendingFlags) one(ctx context.Context, streams Streams) error {
	deployed, err := os.ReadFile(p.manifest)
	if err != nil {
		return fmt.Errorf("reading the deployed manifest: %w", err)
	}
	plan, err := os.ReadFile(p.plan)
	if err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	changes, err := adapter.PendingChanges(ctx, streams.invocation(), string(deployed), string(plan), nil)
	if err != nil {
		return err
	}
	if err := writeEither(streams, p.asJSON, append([]adapter.Change{}, changes...), changesText("", changes)); err != nil {
		return err
	}
	say(streams, counted(len(changes), "pending change"))
	return findings(len(changes) > 0)
}

// changesText lists changes, each line after an indentation.
func changesText(indent string, changes []adapter.Change) string {
	var out strings.Builder
	for _, c := range changes {
		lines := []string{c.Path, "  OpenTofu:  " + c.OpenTofu}
		if c.OpenTofu == "" {
			lines = []string{c.Path, "  deployed:  " + string(value.MustJSON(c.Deployed)), "  generated: " + string(value.MustJSON(c.Generated))}
		}
		for _, line := range append(lines, fmt.Sprintf("  effect:    %s: %s", c.Effect, c.Consequence), "  reason:    "+c.Reason) {
			out.WriteString(indent + line + "\n")
		}
	}
	return out.String()
}
