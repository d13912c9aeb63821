// Package audit writes the audit log, which contains an event for the begin and the end of each change of a binding or
// a service instance, and reads the results of commands from it. It counts the results in a second file, which is not
// rotated with the log.
package audit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/fault"
	"service-adapter/internal/journal"
	"service-adapter/internal/redact"
)

// endEvent is the event that the audit log contains for the end of a change.
const endEvent = "end"

// The results of a change; see resultOf. A line of the audit log that is cut off counts as interrupted.
const (
	done        = "done"
	absent      = "absent"
	exists      = "exists"
	interrupted = "interrupted"
	timeout     = "timeout"
	refused     = "refused"
	failed      = "failed"
)

// Results returns all results that a change can have, in a fixed order: done, absent, exists, interrupted, timeout,
// refused and failed.
func Results() []string {
	return []string{done, absent, exists, interrupted, timeout, refused, failed}
}

// A Log writes the audit events of one command. Every change of a binding or an instance is made through Change.
// Journal and Logger must be set.
type Log struct {
	// Command is the name of the command, and User that of the operator who runs it. User is "" for the commands of
	// the broker, which does not send the name of its user.
	Command, User string
	// Path is the file to which events are appended. If it is "", they are written to the log of the command only, and
	// results are not counted.
	Path string
	// Journal delays the end event until the answer has been written, and Logger writes all events to the log of the
	// command. Neither may be nil. Secrets masks the fields of an event; nil masks only texts that label themselves as
	// secret.
	Journal *journal.Journal
	Logger  *slog.Logger
	Secrets *redact.Secrets
}

// Change calls change, which changes one binding or instance, and returns its error. It writes an event when the
// change begins and one with the result and the duration when it ends, to the log and to the file. An event that
// cannot be written to the file is logged, and change is called nevertheless. entry describes the binding or instance
// according to the request; change may replace it by calling reportStored as soon as it has read the stored entry. The
// entry is complete at the end event, which is written after the answer. Afterwards the result is counted; see Counts.
// A panic in change ends it with the result "failed" and is not recovered.
func (l *Log) Change(
	ctx context.Context, entry lifecycle.Entry, change func(reportStored func(lifecycle.Entry)) error,
) error {
	id, began, result := rand.Text(), time.Now(), failed // also the result of a panic
	var ended []slog.Attr
	journal.WithMaskingTime(ctx, func(ctx context.Context) { l.writeEvent(ctx, "begin", id, &entry) })
	defer func() {
		seconds := time.Since(began).Round(time.Millisecond).Seconds()
		ended = append(ended, slog.String("result", result), slog.Float64("seconds", seconds))
		l.Journal.After(ctx, func(ctx context.Context) {
			l.writeEvent(ctx, endEvent, id, &entry, ended...)
			l.countResult(ctx, result)
		})
	}()
	err := change(func(stored lifecycle.Entry) { entry = stored })
	result = resultOf(err)
	var lost *lifecycle.LostResourcesError
	if errors.As(err, &lost) {
		ended = append(ended, slog.String("lost_resources", strings.Join(lost.Resources, ", ")))
	}
	return err
}

// resultOf returns the result of a change for the audit log. It is "done" if err is nil, "absent" if the binding or
// instance does not exist, "exists" if the binding exists already, "interrupted" if the context was canceled, and
// "timeout" if a time limit was reached. It is "refused" if the pak does not offer the capability, if app_guid is
// missing, or if the end user can fix the error. Any other error is "failed". The first result that applies is
// returned.
func resultOf(err error) string {
	switch {
	case err == nil:
		return done
	case errors.Is(err, fault.ErrBindingNotFound), errors.Is(err, lifecycle.ErrNotStored):
		return absent
	case errors.Is(err, fault.ErrBindingExists):
		return exists
	case errors.Is(err, context.Canceled):
		return interrupted
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, new(*fault.BudgetError)):
		return timeout
	case errors.Is(err, fault.ErrNotImplemented), errors.Is(err, fault.ErrAppGUIDMissing), !fault.OnlyForOperator(err):
		return refused
	default:
		return failed
	}
}

// writeEvent writes an event to the log and, unless Path is "", to that file. event is "begin" or endEvent, and id is
// the same for both events of a change. ended contains the fields that only an end event has. The event consists of
// names, ids and versions, in which secrets are masked; one that cannot be masked before ctx ends is replaced by
// redact.Withheld. The event does not contain texts of parameters, templates and errors. An error of the file is only
// logged, because the file is read later and must not prevent a binding.
func (l *Log) writeEvent(ctx context.Context, event, id string, entry *lifecycle.Entry, ended ...slog.Attr) {
	binding, instance := entry.ID, entry.InstanceID
	if entry.Kind == lifecycle.Instance {
		binding, instance = "", entry.ID
	}
	attributes := []slog.Attr{slog.String("event", event), slog.String("id", id)}
	fields := []string{
		"command", l.Command, "user", l.User, "binding_id", binding, "instance_id", instance, "service", entry.Service,
		"plan", entry.Plan,
		"app_guid", entry.App, "space_guid", entry.Space, "organization_guid", entry.Organization,
		"pak", entry.Pak, "pak_version", entry.PakVersion, "tofu_version", entry.Tofu,
	}
	for pair := range slices.Chunk(fields, 2) {
		if pair[1] != "" {
			masked, err := l.Secrets.Mask(ctx, pair[1])
			if err != nil {
				masked = redact.Withheld
			}
			attributes = append(attributes, slog.String(pair[0], masked))
		}
	}
	attributes = append(attributes, ended...)
	l.Logger.LogAttrs(ctx, slog.LevelInfo, "audit", attributes...)
	if l.Path == "" {
		return
	}
	line := slog.NewRecord(time.Now().UTC(), slog.LevelInfo, "", 0)
	line.AddAttrs(attributes...)
	file := slog.NewJSONHandler(logFile(l.Path), &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, attribute slog.Attr) slog.Attr {
			if attribute.Key == slog.LevelKey || attribute.Key == slog.MessageKey {
				return slog.Attr{}
			}
			return attribute
		},
	})
	if err := file.Handle(ctx, line); err != nil {
		l.Logger.Error("writing the audit log", "error", err)
	}
}

// A logFile is the path of a file to which lines are appended.
type logFile string

// Write appends a line with a single system call, so that lines of several processes do not mix. It opens the file each
// time, because the file may have been renamed or truncated since the last line, and creates it, readable by the owner
// only, if it does not exist. If a full disk cut off the last line, Write terminates that line first; the count that it
// returns includes this byte. It returns an error if the file is not a regular file or cannot be written.
func (f logFile) Write(line []byte) (int, error) {
	// O_NONBLOCK: opening a pipe without a reader must not block.
	file, err := os.OpenFile(string(f), os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return 0, err
	}
	defer file.Close() //nolint:errcheck // Write has reported any error
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
