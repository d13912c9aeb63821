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

	"service-adapter/internal/ctxio"
	"service-adapter/internal/director"
	"service-adapter/internal/odb"
	"service-adapter/internal/operate/manifestdiff"
	"service-adapter/internal/operate/preview"
	"service-adapter/internal/value"
)

// pendingFlags holds the flags of `pending-changes`. Either manifest and plan, or all and brokerConfig must be set.
type pendingFlags struct {
	// manifest and plan are the files of the deployed manifest and of the plan of a single service instance.
	manifest, plan string
	// all checks every service instance.
	all bool
	// brokerConfig is the configuration file of the broker, and manifests a directory of deployed manifests, for all.
	// If manifests is "", the manifests are read from the broker's Director.
	brokerConfig, manifests string
	asJSON                  bool
}

// newPending returns the command `pending-changes`, which previews the changes that the next update or upgrade would
// make, of one service instance or of all. It changes nothing.
func newPending(streams Streams) *cobra.Command {
	var p pendingFlags
	command := &cobra.Command{
		Use:   "pending-changes --manifest FILE --plan FILE | --all --broker-config FILE [--manifests DIR]",
		Short: "Show why the broker reports \"pending changes\", and what OpenTofu will change",
		Long: `Show why the broker rejects updates of an instance with "pending changes". The command generates the
manifest of the instance again, as the broker does before every update, and lists each difference from the deployed
manifest, with both values and the reason. It also lists the secrets to which an upgrade gives another value, and the
resources of the provision template that the next update would change. The broker does not reject updates because of
these. OpenTofu plans the changes of resources and changes nothing.

With --all the command checks every instance, with the plans, releases and stemcells of the broker's configuration. The
deployed manifests are read from the broker's Director, or with --manifests from the files of a directory. The command
counts the instances by effect and by change, and then lists the changes of each. docs/operations/preview-an-upgrade.md
describes the effects.

The command uses the adapter's configuration: run it on the broker's VM, or set SERVICE_ADAPTER_CONFIG.` +
			exitStatus("0 no instance has pending changes",
				"1 an instance has pending changes of its manifest, its secrets or its resources",
				"3 any other error, such as an instance that cannot be checked"),
		Example: "  bosh -d service-instance_GUID manifest > deployed.yml\n" +
			"  service-adapter pending-changes --manifest deployed.yml --plan plan.json\n" +
			"  service-adapter pending-changes --all --broker-config /var/vcap/jobs/broker/config/broker.yml",
		RunE: func(command *cobra.Command, _ []string) error {
			switch one, all := p.manifest != "" && p.plan != "", p.all && p.brokerConfig != ""; {
			case all && p.manifest+p.plan == "":
				return p.checkAll(command.Context(), streams)
			case one && !p.all && p.brokerConfig+p.manifests == "":
				return p.checkOne(command.Context(), streams)
			default:
				return usageError{errors.New("either --manifest and --plan or --all and --broker-config are required")}
			}
		},
	}
	command.Flags().StringVar(&p.manifest, "manifest", "", "the deployed manifest")
	command.Flags().StringVar(&p.plan, "plan", "", "the plan as JSON, as the broker sends it to adapters")
	command.Flags().BoolVar(&p.all, "all", false, "check every instance")
	command.Flags().StringVar(&p.brokerConfig, "broker-config", "",
		"with --all, the configuration of the broker, broker.yml of its job")
	command.Flags().StringVar(&p.manifests, "manifests", "",
		"with --all, a directory of deployed manifests, which is used instead of the broker's Director")
	jsonFlag(command, &p.asJSON)
	return command
}

// checkOne checks the service instance of --manifest and --plan, and writes its pending changes to standard output, as
// text or as a JSON list, and their number to standard error. It returns errFindings if there are any, and another
// error if a file cannot be read, if the output cannot be written, or if the instance cannot be checked; see
// preview.Changes.
func (p *pendingFlags) checkOne(ctx context.Context, streams Streams) error {
	deployed, err := ctxio.ReadFile(ctx, p.manifest)
	if err != nil {
		return fmt.Errorf("reading the deployed manifest: %w", err)
	}
	plan, err := ctxio.ReadFile(ctx, p.plan)
	if err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	changes, err := preview.Changes(ctx, streams.Process(), string(deployed), string(plan), nil)
	if err != nil {
		return err
	}
	document := append([]manifestdiff.Change{}, changes...) // not nil, so that JSON has an empty list
	if err := writeEither(streams, p.asJSON, document, changesText("", deployedAndGenerated, changes)); err != nil {
		return err
	}
	say(streams, counted(len(changes), "pending change"))
	return findingsError(len(changes) > 0)
}

// valueNames are the words that a text uses for the deployed and for the generated value of a change.
type valueNames struct{ deployed, generated string }

// deployedAndGenerated are the names of the values of pending changes.
var deployedAndGenerated = valueNames{"deployed", "generated"} //nolint:gochecknoglobals // a constant

// changesText returns changes as text of several lines each, or "" if there are none. Every line starts with indent.
// names are the names of the two values. Instead of the values, a change of a secret or of OpenTofu's resources has one
// line that describes it. A change without a reason has no line for it.
func changesText(indent string, names valueNames, changes []manifestdiff.Change) string {
	width := max(len("generated"), len(names.deployed), len(names.generated)) + len(":")
	var out strings.Builder
	for _, c := range changes {
		line := func(name, text string) {
			_, _ = fmt.Fprintf(&out, "%s  %-*s %s\n", indent, width, name+":", text) // never fails
		}
		out.WriteString(indent + c.Path + "\n")
		switch {
		case c.Secret != "":
			line("secret", c.Secret)
		case c.OpenTofu != "":
			line("OpenTofu", c.OpenTofu)
		default:
			line(names.deployed, string(value.MustJSON(c.Deployed)))
			line(names.generated, string(value.MustJSON(c.Generated)))
		}
		line("effect", fmt.Sprintf("%s: %s", c.Effect, c.Consequence))
		if c.Reason != "" {
			line("reason", c.Reason)
		}
	}
	return out.String()
}

// checksAtOnce is the number of service instances that are checked at the same time.
const checksAtOnce = 8

// A pendingInstance is the result of checking one service instance, and an element of the JSON of `pending-changes
// --all`.
type pendingInstance struct {
	// Instance is the name of the deployment, or of the file that contains its manifest.
	Instance string `json:"instance"`
	Plan     string `json:"plan,omitempty"`
	// PlanGuessed reports that the manifest does not contain the plan. See preview.Instance.
	PlanGuessed bool `json:"plan_guessed,omitempty"`
	// Effect is the worst effect of the changes: manifestdiff.NoEffect without changes, and manifestdiff.Unknown if the
	// instance cannot be checked.
	Effect  manifestdiff.Effect   `json:"effect"`
	Changes []manifestdiff.Change `json:"changes,omitempty"`
	// Error is the reason why the instance cannot be checked.
	Error string `json:"error,omitempty"`
	// otherService marks an instance of another broker's service, and deleted marks an instance that was deleted during
	// the check. Neither is reported.
	otherService, deleted bool
}

// commonChange is a change, or an error of checking an instance, that one or more service instances have in common.
type commonChange struct {
	// Instances is the number of service instances that have the change. An instance counts several times if several of
	// its changes differ only in ids.
	Instances int                 `json:"instances"`
	Effect    manifestdiff.Effect `json:"effect"`
	// Change is the text of the change or error, with "GUID" in place of the ids of instances.
	Change string `json:"change"`
}

// A manifestSource reads the deployed manifests of all service instances from the directory of --manifests or from the
// broker's Director.
type manifestSource struct {
	// list returns the names of all service instances: those of the files in the directory, or those of their
	// deployments.
	list func(ctx context.Context) ([]string, error)
	// read returns the manifest of the instance with a name that list returned.
	read func(ctx context.Context, name string) (string, error)
}

// manifestSource returns the source that the flags choose. It is a directory with --manifests, and otherwise the
// Director, of whose deployments only those of service instances are listed. Without --manifests, it returns an error
// if the broker's configuration lacks the address or the credentials of the Director. It reads neither the directory
// nor the Director.
func (p *pendingFlags) manifestSource(broker *odb.BrokerConfig) (*manifestSource, error) {
	if p.manifests != "" {
		return directorySource(p.manifests), nil
	}
	client, err := brokerDirector(broker)
	if err != nil {
		return nil, err
	}
	list := func(ctx context.Context) ([]string, error) {
		names, err := client.Deployments(ctx)
		isOther := func(name string) bool { return !strings.HasPrefix(name, "service-instance_") }
		return slices.DeleteFunc(names, isOther), err
	}
	return &manifestSource{list: list, read: client.Manifest}, nil
}

// brokerDirector returns a client of the broker's Director, without sending a request. It returns an error if the
// address or the credentials of the Director in the broker's configuration are missing or malformed, or if its
// certificates cannot be read.
func brokerDirector(broker *odb.BrokerConfig) (*director.Client, error) {
	user, uaa := broker.Bosh.Authentication.Basic, broker.Bosh.Authentication.UAA.Client
	client, err := director.New(&director.Config{
		URL: broker.Bosh.URL, CACert: broker.Bosh.CACert, Username: user.Username, Password: user.Password,
		ClientID: uaa.ID, ClientSecret: uaa.Secret,
	})
	if err != nil {
		return nil, fmt.Errorf("bosh of the broker's configuration: %w", err)
	}
	return client, nil
}

// directorySource returns a source for the files in a directory. The names of the instances are those of the files.
// directorySource does not read the directory; the functions of the source return the errors of reading it or a file.
func directorySource(dir string) *manifestSource {
	list := func(context.Context) (names []string, err error) {
		files, err := os.ReadDir(dir)
		for _, file := range files {
			if !file.IsDir() {
				names = append(names, file.Name())
			}
		}
		return names, err
	}
	read := func(_ context.Context, name string) (string, error) {
		text, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // the user names the directory
		return string(text), err
	}
	return &manifestSource{list: list, read: read}
}

// checkAll checks all service instances and reports the results; see report for the output and the errors. Progress is
// written to standard error. checkAll also returns an error if the configuration of the broker or that of the adapter
// cannot be used, if any pak cannot be read, if the names of the instances cannot be read, or if ctx ends; nothing is
// reported then. An instance that cannot be checked does not prevent the check of others.
func (p *pendingFlags) checkAll(ctx context.Context, streams Streams) error {
	broker, err := odb.ReadBrokerConfig(p.brokerConfig)
	if err != nil {
		return err
	}
	check, err := preview.Open(streams.Process())
	if err != nil {
		return err
	}
	defer check.Close()
	source, err := p.manifestSource(broker)
	if err != nil {
		return err
	}
	names, err := source.list(ctx)
	if err != nil {
		return err
	}
	results := make([]pendingInstance, len(names))
	runParallel(newProgress(streams, "checking"), checksAtOnce, len(names), func(i int) {
		text, err := source.read(ctx, names[i])
		results[i].Instance = names[i]
		if err == nil {
			var checked preview.Instance
			checked, err = check.Instance(ctx, text, broker)
			results[i].Plan, results[i].PlanGuessed = checked.Plan, checked.PlanGuessed
			results[i].Changes = checked.Changes
		}
		for _, change := range results[i].Changes {
			results[i].Effect = max(results[i].Effect, change.Effect)
		}
		if err != nil {
			results[i].Effect, results[i].Error = manifestdiff.Unknown, err.Error()
			results[i].otherService = errors.Is(err, preview.ErrOtherService)
		}
	}, func(int, *progress) {})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	markDeleted(ctx, source, results)
	return p.report(streams, results)
}

// markDeleted sets deleted for the results with an error whose instances the source no longer lists: they were deleted
// while the others were checked. It leaves out instances of other services. It lists the source only if there is such
// an error. If the source cannot be listed again, no result is changed, so that the errors are reported.
func markDeleted(ctx context.Context, source *manifestSource, results []pendingInstance) {
	failed := func(one pendingInstance) bool { return one.Error != "" && !one.otherService }
	if !slices.ContainsFunc(results, failed) {
		return
	}
	names, err := source.list(ctx)
	if err != nil {
		return
	}
	for i := range results {
		results[i].deleted = failed(results[i]) && !slices.Contains(names, results[i].Instance)
	}
}

// report writes the counts and the results of instances to standard output, and a summary to standard error. Instances
// of other services and deleted instances are left out, and in the text also instances without pending changes. report
// changes the order of results. It returns an error if an instance could not be checked or the output cannot be
// written, and otherwise errFindings if an instance has pending changes.
func (p *pendingFlags) report(streams Streams, results []pendingInstance) error {
	all := len(results)
	results = slices.DeleteFunc(results, func(one pendingInstance) bool { return one.otherService })
	otherServices := all - len(results)
	results = slices.DeleteFunc(results, func(one pendingInstance) bool { return one.deleted })
	deleted := all - otherServices - len(results)
	effects, changes := summarizeChanges(results)
	document := map[string]any{
		"format_version": documentFormat, "effects": effects, "changes": changes, "instances": results,
	}
	if err := writeEither(streams, p.asJSON, document, pendingText(results, effects, changes)); err != nil {
		return err
	}
	unknown := effects[manifestdiff.Unknown]
	summary := fmt.Sprintf("%s, %d with pending changes, %d with errors; %d of other services left out",
		counted(len(results), "instance"), len(results)-effects[manifestdiff.NoEffect]-unknown, unknown, otherServices)
	if deleted > 0 {
		summary += fmt.Sprintf(", %d deleted meanwhile", deleted)
	}
	say(streams, summary)
	if unknown > 0 {
		return errors.New(counted(unknown, "instance") + " could not be checked")
	}
	return findingsError(effects[manifestdiff.NoEffect] < len(results))
}

// guidPattern matches the ids and the deployments of service instances, by which otherwise equal changes differ.
var guidPattern = regexp.MustCompile(`service-instance_[\w-]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// summarizeChanges returns the number of instances with each effect, and all changes and errors with the number of
// instances that have them, sorted by their effects, worst first, and then by that number, largest first. In the texts
// of changes, "GUID" replaces the ids and the deployments of instances, so that changes that differ only in these are
// the same one.
func summarizeChanges(results []pendingInstance) (effects map[manifestdiff.Effect]int, changes []commonChange) {
	effects, changes = map[manifestdiff.Effect]int{}, []commonChange{}
	indexes := map[commonChange]int{} // of changes; in the keys, Instances is 0
	count := func(effect manifestdiff.Effect, text string) {
		key := commonChange{Effect: effect, Change: guidPattern.ReplaceAllString(text, "GUID")}
		if _, exists := indexes[key]; !exists {
			indexes[key], changes = len(changes), append(changes, key)
		}
		changes[indexes[key]].Instances++
	}
	for _, one := range results {
		effects[one.Effect]++
		if one.Error != "" {
			count(one.Effect, one.Error)
		}
		for _, c := range one.Changes {
			difference := fmt.Sprintf("%s → %s", value.MustJSON(c.Deployed), value.MustJSON(c.Generated))
			count(c.Effect, c.Path+": "+cmp.Or(c.OpenTofu, c.Secret, difference))
		}
	}
	slices.SortStableFunc(changes, func(a, b commonChange) int {
		return cmp.Or(int(b.Effect-a.Effect), b.Instances-a.Instances)
	})
	return effects, changes
}

// pendingText returns the counts of summarizeChanges as text, the worst effect first, followed by the changes of each
// instance that has any, and the error of each that could not be checked, in the order of results.
func pendingText(results []pendingInstance, effects map[manifestdiff.Effect]int, changes []commonChange) string {
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
		if one.Effect != manifestdiff.NoEffect {
			effect := strings.TrimSuffix(one.Effect.String()+": "+one.Error, ": ")
			fmt.Fprintf(&text, "\n%s: %s\n", one.Instance, effect)
			if one.PlanGuessed {
				fmt.Fprintf(&text, "  The manifest is of a replaced adapter and does not contain the plan. "+
					"Of the plans, %s has the fewest pending changes.\n", one.Plan)
			}
			text.WriteString(changesText("  ", deployedAndGenerated, one.Changes))
		}
	}
	return text.String()
}
