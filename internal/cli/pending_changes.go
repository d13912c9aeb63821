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

// A pendingFlags holds the flags of `pending-changes`. Either manifest and plan must be set, to check one service
// instance, or all and brokerConfig, and optionally manifests, to check all instances of a broker. The zero value and
// every other combination of these five is a usage error of the command; asJSON is independent of them.
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

// newPending returns the command `pending-changes`, which prints the changes that the next update or upgrade would make
// to one service instance (--manifest and --plan) or to all instances of a broker (--all and --broker-config,
// optionally with --manifests), as text or with --json as JSON. It generates manifests and lets OpenTofu plan. It
// deploys and applies nothing, but reading a state of OpenTofu stores one that an earlier run could not store, and
// deletes an empty workspace.
//
// With --all, an instance that cannot be checked does not prevent the checks of the others, and the results of all
// are reported.
//
// Any other combination of these flags is a usageError. The command returns another error if the configuration, a pak
// or a file cannot be read, if an instance cannot be checked, even if others have pending changes, if the context
// ends, or if the output cannot be written. Otherwise it returns errFindings if an instance has pending changes, and
// nil if none has.
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

// checkOne checks the service instance whose deployed manifest is in the file of --manifest and whose plan is, as JSON,
// in the file of --plan. It writes the pending changes to standard output, as text or as a JSON list, which may be
// empty, and their number to standard error. Secrets are masked. It deploys and applies nothing, but reading a state of
// OpenTofu stores one that an earlier run could not store, and deletes an empty workspace; see preview.Changes.
//
// checkOne returns errFindings if there are pending changes, and nil if there are none. It returns another error if a
// file cannot be read, if the adapter's configuration is invalid, if any of its paks cannot be read, if the manifest or
// the plan is invalid, if the manifest cannot be generated again, if the state of OpenTofu cannot be read or OpenTofu
// cannot plan, if ctx ends, or if the output cannot be written.
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

// A valueNames holds the labels of the two values of a change in a text, such as "deployed" and "generated", or the
// names of two plans that are compared. The zero value has no labels.
type valueNames struct{ deployed, generated string }

// deployedAndGenerated are the names of the values of pending changes.
var deployedAndGenerated = valueNames{"deployed", "generated"} //nolint:gochecknoglobals // a constant

// changesText returns the text for a list of changes, or "" if it is empty. Each change has a line with its path,
// followed by lines with its two values as JSON, its effect, and its reason unless that is empty. names are the labels
// of the two values. A change of a secret or of OpenTofu's resources has one descriptive line instead of the values.
// Every line begins with indent, which is usually spaces or "", and ends with a line break. Secrets in changes must
// already be masked.
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

// A pendingInstance is the result of checking one service instance for pending changes, and an element of the list
// "instances" in the JSON of `pending-changes --all`. It contains the name of the instance and its plan, and either the
// pending changes with their worst effect or the reason why the instance cannot be checked. The zero value is an
// instance without a name that has no changes.
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

// A commonChange is a pending change, or an error of checking an instance, with the number of its occurrences in all
// service instances. It is an element of the list "changes" in the JSON of `pending-changes --all`. Ids of instances
// are replaced in its text, so that changes that differ only in ids are the same one. The zero value is not used.
type commonChange struct {
	// Instances is the number of service instances that have the change. An instance counts several times if several of
	// its changes differ only in ids.
	Instances int                 `json:"instances"`
	Effect    manifestdiff.Effect `json:"effect"`
	// Change is the text of the change or error, with "GUID" in place of the ids of instances.
	Change string `json:"change"`
}

// A manifestSource lists service instances and reads their deployed manifests. The manifests are the files in the
// directory of --manifests, or those of the service instances on the broker's Director. Both may include instances of
// other brokers. The zero value is not usable.
type manifestSource struct {
	// list returns the names of all service instances: those of the files in the directory, or those of their
	// deployments.
	list func(ctx context.Context) ([]string, error)
	// read returns the manifest of the instance with a name that list returned.
	read func(ctx context.Context, name string) (string, error)
}

// manifestSource returns the source of the deployed manifests: the directory of --manifests, or without this flag the
// Director in broker, the broker's configuration. Of the Director's deployments, only those whose names begin with
// "service-instance_" are listed. With --manifests it never fails. Without, it returns nil and an error if the address,
// the credentials or the CA certificate of the Director are missing or malformed; a CA certificate is optional. It
// reads neither the directory nor the Director.
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

// brokerDirector returns a client for the BOSH Director in the configuration of the on-demand broker, which must not
// be nil. It sends no request. It returns nil and an error if the URL is missing or malformed, if the credentials are
// incomplete or are set both for a UAA client and for a user, or if the CA certificate is set and contains no
// certificate.
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

// directorySource returns a source whose service instances are the files in a directory, except subdirectories. The
// name of an instance is the name of its file, such as "redis.yml", and its manifest is the content. directorySource
// does not access the directory, and so never fails. The functions of the source return an error if the directory or
// the file cannot be read.
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

// checkAll checks all service instances of the broker in the file of --broker-config, eight at a time, and writes the
// results to standard output, as text or JSON, and the progress and a summary to standard error. It deploys and applies
// nothing, but reading a state of OpenTofu stores one that an earlier run could not store, and deletes an empty
// workspace. An instance that cannot be checked does not prevent the checks of the others. Instances of other services,
// and those that were deleted during the check, are only counted in the summary.
//
// checkAll returns an error without results if the configuration of the broker or the adapter cannot be used, if any
// pak cannot be read, if the instances cannot be listed, or if ctx ends. Otherwise it returns an error if an instance
// could not be checked or the output cannot be written, errFindings if an instance has pending changes, and nil if none
// has.
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

// markDeleted sets the field deleted of each result that has an error if source no longer lists its instance, because
// the instance was deleted while the others were checked. A result whose field otherService is set keeps deleted false,
// because its error only means that the instance belongs to the service of another broker. The caller must have set
// otherService. markDeleted lists the source only if a result without otherService has an error. If the source cannot
// be listed, it changes no result, so that the errors are reported.
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

// report writes the results of checking instances to standard output, as text or with --json as JSON, and a summary to
// standard error. Instances of other services and deleted instances are only counted in the summary; report removes
// them from results in place, so the caller must not use results afterwards. The text lists only instances with pending
// changes or errors, and has the number of the others; the JSON lists all remaining instances. report returns an error
// if the output cannot be written or an instance could not be checked, otherwise errFindings if an instance has pending
// changes, and otherwise nil.
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
		summary += fmt.Sprintf(", %d deleted in the meantime", deleted)
	}
	say(streams, summary)
	if unknown > 0 {
		return errors.New(counted(unknown, "instance") + " could not be checked")
	}
	return findingsError(effects[manifestdiff.NoEffect] < len(results))
}

// guidPattern matches the ids and the deployments of service instances, by which otherwise equal changes differ.
var guidPattern = regexp.MustCompile(`service-instance_[\w-]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// summarizeChanges counts the results of checking instances. effects is the number of instances by their field
// Effect, which is manifestdiff.NoEffect for an instance without changes and manifestdiff.Unknown for one that could
// not be checked; effects that no instance has are missing. changes are the distinct changes and errors, each with
// the number of its occurrences, which counts an instance several times if its changes differ only in ids. They are
// sorted by effect, worst first (an error is the worst), then by that number, largest first, and then by their first
// occurrence. In their texts, "GUID" replaces ids and the names of deployments. Neither result is nil.
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

// pendingText returns the text of `pending-changes --all`. It begins with a line for each effect with the number of
// instances, worst effect first, and a line for each change in the order of changes; see summarizeChanges for both. A
// paragraph for each instance that has changes or could not be checked follows, in the order of results, with its
// error, a note if its plan was guessed, and its changes. The text is "" if results is empty.
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
