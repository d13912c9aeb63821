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

// Results returns a new slice of all results that a change of a binding or a service instance can have in the audit
// log, in this order: done, absent, exists, interrupted, timeout, refused and failed.
func Results() []string {
	return []string{done, absent, exists, interrupted, timeout, refused, failed}
}

// A Log writes the audit events of one command to the log of the command and to the audit log, a file. Every change
// of a binding or a service instance must be made through its method Change. Each event contains Command and, unless
// it is "", User. Secrets are masked in the fields of the events; nil Secrets mask only texts that label themselves
// as secret. Journal and Logger must be set, so the zero value is not usable. With Path, the results of the changes
// are also counted in a file next to the audit log; see Counts. Without Path, events are written only to the log of
// the command, and results are not counted.
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

// Change calls change, which changes one binding or service instance, and returns its error unchanged. It writes two
// audit events to the log of the command and, unless l.Path is "", to the audit log: one before the call, and one with
// the result, the duration and, if the error of change is a *lifecycle.LostResourcesError, the addresses of the lost
// resources.
//
// The second event is written after the command has answered, when Journal releases it, or before Change returns if
// Journal holds back nothing. Unless l.Path is "", the result is then added to the counts; see Counts. An event or a
// count that cannot be written to a file is only reported in the log of the command, and has no effect on change.
// Change uses only the values of ctx: its end prevents neither the events nor the call of change.
//
// entry describes the binding or instance according to the request. change may call reportStored as soon as it has read
// the stored entry; the second event then describes that entry. A panic in change is recorded as the result "failed"
// and continues.
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

// resultOf returns the result of a change for the audit log, by the error of the change. It is "done" if err is nil,
// "absent" if the binding or instance does not exist, "exists" if the binding exists already, "interrupted" if a
// context was canceled, and "timeout" if a time limit was reached. It is "refused" if the pak does not offer the
// capability, if app_guid is missing, or if the end user can correct the error. Any other error is "failed". If several
// of these apply to a wrapped error, the first in this order is returned.
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

// writeEvent writes an event to the log of the command and, unless l.Path is "", as a line of JSON with the current
// time to that file. event is "begin" or "end" (endEvent), and id is a random text that both events of one change have
// in common. entry is the changed binding or instance, and must not be nil; its empty fields are left out. ended
// contains the fields that only an end event has, which are written unmasked.
//
// Secrets in the fields of entry and of l are masked; a field that cannot be masked before ctx ends is replaced by
// redact.Withheld. The event is written even if ctx has ended. It contains no parameters, templates or error texts. An
// error of the file is only logged.
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

// A logFile is the path of the audit log, a file to which its method Write appends lines. Write creates the file if it
// does not exist, but not its directory. The zero value is not usable.
type logFile string

// Write appends line, which must end with a line break, to the file with a single system call, so that lines of several
// processes do not mix. It opens the file on each call, because the file may have been renamed or truncated, and
// creates it, readable only by its owner, if it does not exist. If the last line in the file is incomplete, for example
// because the disk was full, Write writes a line break before line; the returned count of bytes includes it. Write
// returns an error if the file cannot be opened or written, or is not a regular file. If the write fails, a part of
// line may be in the file; the next Write then begins a new line.
func (f logFile) Write(line []byte) (int, error) {
	// O_NONBLOCK: opening a pipe without a reader must not block.
	file, err := os.OpenFile(string(f), os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return 0, err
	}
	defer file.Close() //nolint:errcheck // Write has reported any error
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", f)
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
