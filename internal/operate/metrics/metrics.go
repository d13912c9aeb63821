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

// A Sources holds the inputs of Text besides the states of bindings and instances: the number of unreadable paks, the
// path of the audit log, and the client that asks the Director for certificates. The zero value means no unreadable
// paks, no audit log and no Director.
type Sources struct {
	// UnreadablePaks is the number of paks of the configuration that cannot be read.
	UnreadablePaks int
	// AuditLog is the path of the audit log. If it is "", the metrics do not contain results.
	AuditLog string
	// Fleet is asked for the certificates of instances. If it is nil, the metrics contain only the certificates in
	// states.
	Fleet *certificates.Fleet
}

// Text returns the metrics for monitoring in the text format of OpenMetrics, with the end marker. No label contains an
// id, so that the number of time series is bounded. The metrics are:
//   - always the number of unreadable paks, which is sources.UnreadablePaks,
//   - if the manager has a readable pak, the number of bindings and instances by service, plan and condition, the age
//     of the oldest unfinished one, the number of held locks if the backend can list them, the earliest expiry of
//     certificates, and the number of instances whose certificates cannot be read,
//   - if sources.AuditLog is set, the time of the last results in the audit log and in its predecessor, the file with
//     the suffix ".1", and the counts of results. Files that do not exist count as empty.
//
// The certificates are those in states and, unless sources.Fleet is nil, those that the Director reports. A single
// state that cannot be read, and an instance about which the Director cannot be asked, is not an error but is counted.
// Like lifecycle.Manager.Walk, Text may delete empty workspaces and restore incomplete local states, and waits for a
// run that holds the lock of one of these.
//
// Text returns "" and an error if the manager has readable paks but none with a usable OpenTofu, if the states or the
// locks cannot be listed, if the audit log or the counts cannot be read, or if ctx ends.
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

// addStates reads all stored bindings and instances, and adds to text the numbers of them, the ages of the oldest
// unfinished ones, and the number of held locks if the state backend can list them. The age of an item is the time
// since its last change; one whose time is unknown has none. addStates also calls visit with each binding and instance,
// one after the other; one that cannot be read has the condition Unreadable. Like lifecycle.Manager.Walk, it may delete
// empty workspaces and restore incomplete local states.
//
// addStates returns an error if no pak has a usable OpenTofu, if the workspaces or the locks cannot be listed, or if
// ctx ends. The text may be incomplete then.
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
		"How many seconds have passed since the last change of the longest unfinished binding or instance; "+
			"0 if all are complete.",
		unfinished)
	locks, listed, err := manager.Engine.Locks(ctx)
	if err != nil {
		return err
	}
	if listed {
		text.gauge("locks_held", "How many states are locked.", map[string]float64{"": float64(len(locks))})
	}
	return nil
}

// addCertificates adds two metrics of a complete survey to text. The first is the earliest expiry of the certificates
// that are not superseded, for each service, plan and source of certificates. The second is the number of instances
// whose certificates, or those of one of their bindings, cannot be read; each such instance counts once. Each entry of
// survey.Unreadable and of survey.Errors counts as one more.
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

// addCounts adds the numbers of results of commands, by command and result, to text. They are read from the file of
// counts that belongs to the audit log at the path auditLog. For create-binding, delete-binding and generate-manifest,
// and for every other counted command, results that never occurred are 0, because Prometheus would not see an increase
// if a counter began with the first failure. A missing or damaged file contains no counts. addCounts returns an error
// if the file is not a regular file or cannot be read.
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

// gauge adds a metric of the type gauge. name, such as "locks_held", gets the prefix "service_adapter_", and help is a
// sentence that describes the metric. samples maps the labels of each sample, in the form {kind="binding"} that the
// function labels returns, to its value; the key "" is for a sample without labels. Without samples, gauge adds only
// the description.
func (m *metrics) gauge(name, help string, samples map[string]float64) {
	name = namePrefix + name
	_, _ = fmt.Fprintf(m, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
	m.samples(name, samples)
}

// counter adds a metric whose values only grow. name, which must end in "_total", gets the prefix "service_adapter_",
// help describes the metric, and samples maps labels such as {result="done"} to values; see gauge. The metric has no
// line with its type: OpenMetrics declares the type of a counter under its name without "_total", but the textfile
// collector of node_exporter, which reads the older format of Prometheus, under the whole name.
func (m *metrics) counter(name, help string, samples map[string]float64) {
	name = namePrefix + name
	_, _ = fmt.Fprintf(m, "# HELP %s %s\n", name, help)
	m.samples(name, samples)
}

// samples adds one line for each sample of a metric, sorted by labels. name is the whole name of the metric, with its
// prefix. samples maps labels, such as {kind="binding"} or "" for none, to values; without samples, no line is added.
func (m *metrics) samples(name string, samples map[string]float64) {
	for _, labels := range value.Keys(samples) {
		_, _ = fmt.Fprintf(m, "%s%s %s\n", name, labels, strconv.FormatFloat(samples[labels], 'f', -1, 64))
	}
}

// labels returns the labels of a sample in the text format of OpenMetrics, such as {kind="binding",plan="small"}. pairs
// are alternately a name and its value, in the order of the result; their number must be even, and otherwise labels
// panics. Values are escaped, and invalid UTF-8 in them is replaced. Without pairs the result is {}.
func labels(pairs ...string) string {
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	var all []string
	for pair := range slices.Chunk(pairs, 2) {
		all = append(all, pair[0]+`="`+escape.Replace(strings.ToValidUTF8(pair[1], "\uFFFD"))+`"`)
	}
	return "{" + strings.Join(all, ",") + "}"
}
