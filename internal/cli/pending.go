package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/director"
	"service-adapter/internal/odb"
	"service-adapter/internal/value"
)

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
		Long: `Tell why the broker refuses updates of an instance with "pending changes": generate the manifest of the instance again, as the
broker does before every update, and list each place where it differs from the deployed one, with both values and the reason.
What the next update changes of that which a provision template made is listed as well, resource by resource, although the broker
refuses no update for it: OpenTofu plans it and changes nothing.

With --all it does so for every instance, with the plans, releases and stemcells of the broker's configuration: for those that the broker's
Director has, or for the files of a directory. It counts the instances by what becomes of them and by change, and then lists the changes
of each. docs/operations.md has the rules.

It uses the adapter's configuration, so run it where the broker runs or set SERVICE_ADAPTER_CONFIG.` +
			exits("0 no pending changes", "1 there are some, of the manifest or of resources",
				"3 anything else, such as an instance that cannot be checked"),
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
	changes, err := adapter.PendingChanges(ctx, streams.Invocation, string(deployed), string(plan), nil)
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

// checksAtOnce is how many instances are checked at the same time.
const checksAtOnce = 8

// checkedInstance is what would become of an instance.
type checkedInstance struct {
	// Instance is the deployment, or the file that its manifest is in.
	Instance string           `json:"instance"`
	Plan     string           `json:"plan,omitempty"`
	Effect   adapter.Effect   `json:"effect"`
	Changes  []adapter.Change `json:"changes,omitempty"`
	Error    string           `json:"error,omitempty"`
	other    bool             // of another service
}

// commonChange is a change, or an error, of all instances that have it, as a line of text.
type commonChange struct {
	Instances int            `json:"instances"`
	Effect    adapter.Effect `json:"effect"`
	Change    string         `json:"change"`
}

// instances are the files of a directory or, without one, the deployments that the broker's Director has. read gives the manifest of one.
func (p *pendingFlags) instances(ctx context.Context, broker *odb.BrokerConfig) (
	names []string, read func(context.Context, string) (string, error), err error,
) {
	if p.manifests != "" {
		files, err := os.ReadDir(p.manifests)
		for _, file := range files {
			if !file.IsDir() {
				names = append(names, file.Name())
			}
		}
		return names, func(_ context.Context, name string) (string, error) {
			text, err := os.ReadFile(filepath.Join(p.manifests, name)) //nolint:gosec // the user names the directory
			return string(text), err
		}, err
	}
	user, client := broker.Bosh.Authentication.Basic, broker.Bosh.Authentication.UAA.Client
	asked, err := director.New(&director.Config{
		URL: broker.Bosh.URL, CACert: broker.Bosh.CACert, Username: user.Username, Password: user.Password,
		ClientID: client.ID, ClientSecret: client.Secret,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("bosh of the broker's configuration: %w", err)
	}
	names, err = asked.Deployments(ctx)
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "service-instance_") }), asked.Manifest, err
}

// checkAll is `pending-changes --all`.
func (p *pendingFlags) checkAll(ctx context.Context, streams Streams) error {
	broker, err := odb.ReadBrokerConfig(p.brokerConfig)
	if err != nil {
		return err
	}
	check, err := adapter.OpenPendingCheck(streams.Invocation)
	if err != nil {
		return err
	}
	defer check.Close()
	names, read, err := p.instances(ctx, broker)
	if err != nil {
		return err
	}
	results := make([]checkedInstance, len(names))
	sideBySide(newProgress(streams, "checking"), checksAtOnce, len(names), func(i int) {
		text, err := read(ctx, names[i])
		results[i].Instance = names[i]
		if err == nil {
			results[i].Plan, results[i].Changes, err = check.Instance(ctx, text, broker)
		}
		for _, change := range results[i].Changes {
			results[i].Effect = max(results[i].Effect, change.Effect)
		}
		if err != nil {
			results[i].Effect, results[i].Error, results[i].other = adapter.Unknown, err.Error(), errors.Is(err, adapter.ErrOtherService)
		}
	}, func(int, *progress) {})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return p.tell(streams, results)
}

// tell prints the summaries, and the instances that there is something to say of.
func (p *pendingFlags) tell(streams Streams, results []checkedInstance) error {
	all := len(results)
	results = slices.DeleteFunc(results, func(one checkedInstance) bool { return one.other })
	effects, changes := summed(results)
	document := map[string]any{"format_version": documentFormat, "effects": effects, "changes": changes, "instances": results}
	if err := writeEither(streams, p.asJSON, document, checkedText(results, effects, changes)); err != nil {
		return err
	}
	unknown := effects[adapter.Unknown]
	say(streams, fmt.Sprintf("%s, %d with pending changes, %d with errors; %d of other services left out",
		counted(len(results), "instance"), len(results)-effects[adapter.NoEffect]-unknown, unknown, all-len(results)))
	if unknown > 0 {
		return errors.New(counted(unknown, "instance") + " could not be checked")
	}
	return findings(effects[adapter.NoEffect] < len(results))
}

// guid is what differs in a change that many instances have.
var guid = regexp.MustCompile(`service-instance_[\w-]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// summed counts instances by effect, and by change, the worst and then the most frequent first.
func summed(results []checkedInstance) (effects map[adapter.Effect]int, changes []commonChange) {
	effects, changes = map[adapter.Effect]int{}, []commonChange{}
	at := map[commonChange]int{} // without instances → where in changes
	count := func(effect adapter.Effect, text string) {
		key := commonChange{Effect: effect, Change: guid.ReplaceAllString(text, "GUID")}
		if _, known := at[key]; !known {
			at[key], changes = len(changes), append(changes, key)
		}
		changes[at[key]].Instances++
	}
	for _, one := range results {
		effects[one.Effect]++
		if one.Error != "" {
			count(one.Effect, one.Error)
		}
		for _, c := range one.Changes {
			count(c.Effect, c.Path+": "+cmp.Or(c.OpenTofu, fmt.Sprintf("%s → %s", value.MustJSON(c.Deployed), value.MustJSON(c.Generated))))
		}
	}
	slices.SortStableFunc(changes, func(a, b commonChange) int { return cmp.Or(int(b.Effect-a.Effect), b.Instances-a.Instances) })
	return effects, changes
}

func checkedText(results []checkedInstance, effects map[adapter.Effect]int, changes []commonChange) string {
	var text strings.Builder
	for _, effect := range slices.Backward(slices.Sorted(maps.Keys(effects))) {
		fmt.Fprintf(&text, "%7d  %s\n", effects[effect], effect)
	}
	for i, change := range changes {
		if i == 0 {
			text.WriteString("\n")
		}
		fmt.Fprintf(&text, "%7d  %-12s  %s\n", change.Instances, change.Effect, change.Change)
	}
	for _, one := range results {
		if one.Effect != adapter.NoEffect {
			what := strings.TrimSuffix(one.Effect.String()+": "+one.Error, ": ")
			fmt.Fprintf(&text, "\n%s: %s\n%s", one.Instance, what, changesText("  ", one.Changes))
		}
	}
	return text.String()
}
