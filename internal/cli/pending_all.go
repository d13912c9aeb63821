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

	"service-adapter/adapter"
	"service-adapter/internal/director"
	"service-adapter/internal/odb"
	"service-adapter/internal/value"
)

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
		URL: broker.Bosh.URL, CACert: broker.Bosh.CACert, Username: user.Username, Password: user.Password, ClientID: client.ID, ClientSecret: client.Secret,
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
	check, err := adapter.OpenPendingCheck(streams.invocation())
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
		results[i].conclude(err)
	}, func(int, *progress) {})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return p.tell(streams, results)
}

// conclude sets the effect on an instance that was checked with this error.
func (c *checkedInstance) conclude(err error) {
	for _, change := range c.Changes {
		c.Effect = max(c.Effect, change.Effect)
	}
	if err != nil {
		c.Effect, c.Error, c.other = adapter.Unknown, err.Error(), errors.Is(err, adapter.ErrOtherService)
	}
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
