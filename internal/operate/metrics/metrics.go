// Package metrics computes the metrics by which operators monitor bindings, service instances and the results of
// commands, in the text format of OpenMetrics.
package metrics

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"service-adapter/adapter/input"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/audit"
	"service-adapter/internal/operate/certificates"
	"service-adapter/internal/value"
)

// Sources are the inputs of the metrics besides the states.
type Sources struct {
	// UnreadablePaks is the number of paks of the configuration that cannot be read.
	UnreadablePaks int
	// AuditLog is the path of the audit log. If it is "", the metrics do not contain results.
	AuditLog string
	// Fleet is asked for the certificates of instances. If it is nil, the metrics contain only the certificates in
	// states.
	Fleet *certificates.Fleet
}

// Text returns the metrics for monitoring in the text format of OpenMetrics: the number of bindings and instances, the
// age of the oldest unfinished one, the number of unreadable paks, the number of held locks if the backend can report
// it, the earliest expiry of certificates, the time of the last results in the audit log, and the counts of results. If
// the manager has no readable pak, Text leaves out the metrics of states and certificates. No label contains an id, so
// that the number of time series is bounded. Text returns an error if the states, the audit log or the counts cannot be
// read. A single state that cannot be read is counted with the condition of an unreadable one, and instances about
// which the Director cannot be asked are counted.
func Text(ctx context.Context, manager *lifecycle.Manager, sources Sources) (string, error) {
	var text metrics
	text.gauge("unreadable_paks", "How many paks of the configuration cannot be read.",
		map[string]float64{"": float64(sources.UnreadablePaks)})
	if len(manager.Paks) > 0 { // reading states requires the OpenTofu of a pak
		survey := certificates.New(certificates.Options{Now: time.Now()})
		if err := addStates(ctx, manager, &text, survey.Add); err != nil {
			return "", err
		}
		if sources.Fleet != nil {
			if err := survey.Ask(ctx, *sources.Fleet, nil); err != nil {
				return "", err
			}
		}
		addCertificates(survey, &text)
	}
	auditLog := sources.AuditLog
	if auditLog != "" {
		last, err := audit.LastResults(ctx, auditLog+".1", auditLog)
		if err != nil {
			return "", fmt.Errorf("reading the audit log: %w", err)
		}
		samples := map[string]float64{}
		for result, at := range last {
			seconds := float64(at.UnixMilli()) / 1000 //nolint:mnd // in seconds
			samples[labels("command", result.Command, "result", result.Result)] = seconds
		}
		text.gauge("last_result_timestamp_seconds", "When a command last ended with a result.", samples)
		if err := addCounts(auditLog, &text); err != nil {
			return "", err
		}
	}
	return text.String() + "# EOF\n", nil
}

// addStates adds the metrics of the stored bindings and instances, and of the locks if the backend can report them. It
// also calls visit with each binding and instance. It returns an error if the workspaces cannot be listed, if the locks
// cannot be counted, or if ctx ends.
func addStates(
	ctx context.Context, manager *lifecycle.Manager, text *metrics, visit func(stored *lifecycle.Stored),
) error {
	counts := map[lifecycle.Kind]map[string]float64{lifecycle.Binding: {}, lifecycle.Instance: {}}
	unfinished := map[string]float64{
		labels("kind", string(lifecycle.Binding)): 0, labels("kind", string(lifecycle.Instance)): 0,
	}
	err := manager.Walk(ctx, "", nil, func(stored *lifecycle.Stored) error {
		visit(stored)
		kind := labels("kind", string(stored.Kind))
		condition := string(stored.Condition)
		counts[stored.Kind][labels("service", stored.Service, "plan", stored.Plan, "condition", condition)]++
		if at, err := time.Parse(time.RFC3339, stored.UpdatedAt); err == nil && stored.Condition != lifecycle.Complete {
			unfinished[kind] = max(unfinished[kind], time.Since(at).Seconds())
		}
		return nil
	})
	if err != nil {
		return err
	}
	text.gauge("bindings", "How many bindings are stored.", counts[lifecycle.Binding])
	text.gauge("instances", "How many instances of provision templates are stored.", counts[lifecycle.Instance])
	text.gauge("oldest_unfinished_seconds",
		"The time since the last change of what is longest not complete; 0 without any.", unfinished)
	locks, known, err := manager.Engine.Locks(ctx)
	if err != nil {
		return err
	}
	if known {
		text.gauge("locks_held", "How many states are locked.", map[string]float64{"": float64(len(locks))})
	}
	return nil
}

// addCertificates adds the metrics of a survey: the earliest expiry of the certificates that are not superseded, for
// each service, plan and source, and the number of instances whose certificates, or those of a binding, are unknown.
// Such an instance counts once, however many of its bindings are concerned. Each entry of survey.Unreadable and of
// survey.Errors counts as one more. addCertificates calls survey.Instances, so the survey must be complete.
func addCertificates(survey *certificates.Survey, text *metrics) {
	expiries := map[string]float64{}
	unknown := len(survey.Unreadable) + len(survey.Errors)
	for _, instance := range survey.Instances() {
		for source, expiry := range instance.Expiries() {
			sample := labels("service", instance.Service, "plan", instance.Plan, "source", source)
			seconds := float64(expiry.Unix())
			if earliest, exists := expiries[sample]; !exists || seconds < earliest {
				expiries[sample] = seconds
			}
		}
		if instance.Failed() {
			unknown++
		}
	}
	text.gauge("certificate_expiry_timestamp_seconds", "When the first of the certificates expires.", expiries)
	text.gauge("certificates_unknown",
		"How many instances have certificates, of their own or of a binding, that cannot be read.",
		map[string]float64{"": float64(unknown)})
}

// addCounts adds the counts of the results of commands. The counts of the broker's commands begin with 0: if a counter
// began with the first failure, Prometheus would not see an increase. A missing file of counts contains none. addCounts
// returns an error if the file cannot be read.
func addCounts(auditLog string, text *metrics) error {
	counts, err := audit.Counts(auditLog)
	if err != nil {
		return fmt.Errorf("reading the counts of results: %w", err)
	}
	samples := map[string]float64{}
	add := func(command string) {
		for _, result := range audit.Results() {
			samples[labels("command", command, "result", result)] = 0
		}
	}
	for _, command := range []string{input.CreateBinding, input.DeleteBinding, input.GenerateManifest} {
		add(command)
	}
	for counted := range counts {
		add(counted.Command)
	}
	for counted, count := range counts {
		samples[labels("command", counted.Command, "result", counted.Result)] = float64(count)
	}
	text.counter("results_total", "How many commands have ended with a result.", samples)
	return nil
}

// namePrefix begins the names of all metrics.
const namePrefix = "service_adapter_"

// A metrics builds a text in the format of OpenMetrics, without the end marker. Its zero value is an empty text.
type metrics struct{ strings.Builder }

// gauge adds a metric of the type gauge, whose name gets the prefix "service_adapter_". help is its description.
// samples maps the labels of each sample, as the function labels returns them, to its value; the labels "" are for a
// metric without labels. Without samples, only the description of the metric is added.
func (m *metrics) gauge(name, help string, samples map[string]float64) {
	name = namePrefix + name
	_, _ = fmt.Fprintf(m, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
	m.samples(name, samples)
}

// counter adds a metric whose values only grow; name ends in "_total". See gauge for the parameters. The text does not
// have its type: OpenMetrics declares the type of a counter under its name without "_total", and the textfile collector
// of node_exporter, which reads the older format of Prometheus, under the whole name.
func (m *metrics) counter(name, help string, samples map[string]float64) {
	name = namePrefix + name
	_, _ = fmt.Fprintf(m, "# HELP %s %s\n", name, help)
	m.samples(name, samples)
}

// samples adds the samples of a metric in the order of their labels. name is the whole name of the metric; see gauge
// for the labels.
func (m *metrics) samples(name string, samples map[string]float64) {
	for _, labels := range value.Keys(samples) {
		_, _ = fmt.Fprintf(m, "%s%s %s\n", name, labels, strconv.FormatFloat(samples[labels], 'f', -1, 64))
	}
}

// labels returns pairs of label names and values in the format of a sample, {name="value",...}, with the values
// escaped. The number of arguments must be even.
func labels(pairs ...string) string {
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	var all []string
	for pair := range slices.Chunk(pairs, 2) {
		all = append(all, pair[0]+`="`+escape.Replace(strings.ToValidUTF8(pair[1], "\uFFFD"))+`"`)
	}
	return "{" + strings.Join(all, ",") + "}"
}
