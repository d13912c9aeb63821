package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"service-adapter/internal/lifecycle"
	"service-adapter/internal/value"
)

// Metrics is what monitoring reads, in the text format of OpenMetrics: how many bindings and instances there are, what is not finished, the
// locks that are held, and from the audit log the last results. No label is an id, of which there may be any number.
func (o *Operator) Metrics(ctx context.Context) (string, error) {
	all, err := o.List(ctx, "", nil)
	if err != nil {
		return "", err
	}
	counts := map[lifecycle.Kind]map[string]float64{lifecycle.Binding: {}, lifecycle.Instance: {}}
	unfinished := map[string]float64{labels("kind", string(lifecycle.Binding)): 0, labels("kind", string(lifecycle.Instance)): 0}
	for i := range all {
		stored := &all[i]
		kind := labels("kind", string(stored.Kind))
		counts[stored.Kind][labels("service", stored.Service, "plan", stored.Plan, "condition", string(stored.Condition))]++
		if at, err := time.Parse(time.RFC3339, stored.UpdatedAt); err == nil && stored.Condition != lifecycle.Complete {
			unfinished[kind] = max(unfinished[kind], time.Since(at).Seconds())
		}
	}
	var text metrics
	text.gauge("bindings", "How many bindings are stored.", counts[lifecycle.Binding])
	text.gauge("instances", "How many instances of provision templates are stored.", counts[lifecycle.Instance])
	text.gauge("oldest_unfinished_seconds", "The time since the last change of what is longest not complete; 0 without any.", unfinished)
	locks, err := o.Engine.Locked(ctx)
	if err != nil {
		return "", err
	}
	if locks >= 0 {
		text.gauge("locks_held", "How many states are locked.", map[string]float64{"": float64(locks)})
	}
	if path := o.session.config.AuditLog; path != "" {
		last, err := lastResults(path+".1", path)
		if err != nil {
			return "", fmt.Errorf("reading the audit log: %w", err)
		}
		text.gauge("last_result_timestamp_seconds", "When a command last ended with a result.", last)
	}
	return text.String() + "# EOF\n", nil
}

// metrics is a text in the format of OpenMetrics.
type metrics struct{ strings.Builder }

// gauge adds a metric with its samples: labels → value.
func (m *metrics) gauge(name, help string, samples map[string]float64) {
	name = "service_adapter_" + name
	_, _ = fmt.Fprintf(m, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
	for _, labels := range value.Keys(samples) {
		_, _ = fmt.Fprintf(m, "%s%s %s\n", name, labels, strconv.FormatFloat(samples[labels], 'f', -1, 64))
	}
}

// labels are names and their values in turn, as a sample has them.
func labels(pairs ...string) string {
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	var all []string
	for pair := range slices.Chunk(pairs, 2) {
		all = append(all, pair[0]+`="`+escape.Replace(strings.ToValidUTF8(pair[1], "\uFFFD"))+`"`)
	}
	return "{" + strings.Join(all, ",") + "}"
}

// lastResults reads audit logs, the older one first: when each command last ended with each result, in seconds of Unix time. Lines that are
// none of the audit, such as one that a full disk cut off, do not count.
func lastResults(paths ...string) (map[string]float64, error) {
	last := map[string]float64{}
	for _, path := range paths {
		text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			var event struct {
				Time                   time.Time
				Event, Command, Result string
			}
			if json.Unmarshal(line, &event) == nil && event.Event == auditEnd {
				of := labels("command", event.Command, "result", event.Result)
				last[of] = max(last[of], float64(event.Time.UnixMilli())/1000) //nolint:mnd // in seconds
			}
		}
	}
	return last, nil
}
