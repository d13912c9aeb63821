package adapter

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"service-adapter/internal/fault"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/value"
)

// auditEnd is the event of a change that ended.
const auditEnd = "end"

// auditor writes down who changes what.
type auditor struct{ *session }

// change does a change of one binding or instance, and writes down that it began and how it ended: to the log, and to the file of
// audit_log. Every change goes through it. found is told what is stored, once that is known.
func (s auditor) change(ctx context.Context, about lifecycle.Entry, change func(found func(lifecycle.Entry)) error) error {
	id, began, result := rand.Text(), time.Now(), "failed" // a panic is one
	s.write(ctx, "begin", id, &about)
	defer func() {
		seconds := time.Since(began).Round(time.Millisecond).Seconds()
		s.write(ctx, auditEnd, id, &about, slog.String("result", result), slog.Float64("seconds", seconds))
	}()
	err := change(func(stored lifecycle.Entry) { about = stored })
	result = auditResult(err)
	return err
}

// auditResult is how a change ended, in one word.
func auditResult(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, fault.ErrBindingNotFound), errors.Is(err, lifecycle.ErrNotStored):
		return "absent"
	case errors.Is(err, fault.ErrBindingExists):
		return "exists"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, new(*fault.BudgetError)):
		return "timeout"
	case errors.Is(err, fault.ErrNotImplemented), errors.Is(err, fault.ErrAppGUIDMissing), !fault.OfOperator(err):
		return "refused"
	default:
		return "failed"
	}
}

// write writes an event, of names, ids and versions: no text that a parameter, a template or an error has. The file is for who reads it
// later: that it cannot be written is logged, and keeps nobody from binding.
func (s auditor) write(ctx context.Context, event, id string, about *lifecycle.Entry, ended ...slog.Attr) {
	binding, instance := about.ID, about.InstanceID
	if about.Kind == lifecycle.Instance {
		binding, instance = "", about.ID
	}
	attributes := []slog.Attr{slog.String("event", event), slog.String("id", id)}
	fields := []string{
		"command", s.command, "user", s.user, "binding_id", binding, "instance_id", instance, "service", about.Service, "plan", about.Plan,
		"app_guid", about.App, "space_guid", about.Space, "organization_guid", about.Organization,
		"pak", about.Pak, "pak_version", about.PakVersion, "tofu_version", about.Tofu,
	}
	for pair := range slices.Chunk(fields, 2) {
		if pair[1] != "" {
			attributes = append(attributes, slog.String(pair[0], s.secrets.Clean(pair[1])))
		}
	}
	attributes = append(attributes, ended...)
	s.logger.LogAttrs(ctx, slog.LevelInfo, "audit", attributes...)
	if s.config.AuditLog == "" {
		return
	}
	line := slog.NewRecord(time.Now().UTC(), slog.LevelInfo, "", 0)
	line.AddAttrs(attributes...)
	file := slog.NewJSONHandler(auditFile(s.config.AuditLog), &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, attribute slog.Attr) slog.Attr {
			if attribute.Key == slog.LevelKey || attribute.Key == slog.MessageKey {
				return slog.Attr{}
			}
			return attribute
		},
	})
	if err := file.Handle(ctx, line); err != nil {
		s.logger.Error("writing the audit log", "error", err)
	}
}

// auditFile is the path of a file that lines are appended to.
type auditFile string

// Write appends a line with one call of the system, so that lines of several processes do not mix. The file is opened anew each time: it
// may have been renamed or emptied since. A line that a full disk cut off is ended first.
func (f auditFile) Write(line []byte) (int, error) {
	file, err := os.OpenFile(string(f), os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600) // not to wait for who reads a pipe
	if err != nil {
		return 0, err
	}
	defer file.Close() //nolint:errcheck // the write has told
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", f)
	}
	if err != nil {
		return 0, err
	}
	last := []byte{'\n'}
	if _, err := file.ReadAt(last, max(0, info.Size()-1)); err == nil && last[0] != '\n' {
		line = append([]byte{'\n'}, line...)
	}
	return file.Write(line)
}

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
