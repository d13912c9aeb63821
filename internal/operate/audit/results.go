package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"service-adapter/internal/ctxio"
)

// longestLine bounds the length of a line, in bytes. Longer lines are ignored: a Log does not write
// them.
const longestLine = 64 << 10

// A Result is a pair of the name of a command, such as "create-binding", and a result with which changes by that
// command ended, such as "done" or "failed"; see Results. It is used as the key of counts and times. A line of the
// audit log that is cut off has the result "interrupted", and the command "unknown" if the line does not contain it.
type Result struct{ Command, Result string }

// LastResults reads the audit logs at paths, usually the oldest first, and returns the latest time of an end event for
// each pair of command and result. The map is empty, and not nil, if there is none. A file that does not exist counts
// as empty. LastResults returns nil and an error if a file cannot be read or ctx ends.
//
// A line that was cut off, for example by a full disk, counts as the result "interrupted", even if it is a begin event.
// If it lacks the name of the command, the command is "unknown". If it lacks the time, the time is that of the last
// complete line with a time before it, also in an earlier log, and without such a line it is ignored. All other lines
// that are not end events with a time are ignored, and so are lines of 64 KB or more.
func LastResults(ctx context.Context, paths ...string) (map[Result]time.Time, error) {
	last := map[Result]time.Time{}
	err := readEnds(ctx, paths, func(end *End) {
		key := Result{Command: end.Command, Result: end.Result}
		if end.Time.After(last[key]) {
			last[key] = end.Time
		}
	})
	if err != nil {
		return nil, err
	}
	return last, nil
}

// LastFailures reads the audit logs at paths, which must be ordered from the oldest to the newest, and returns the last
// end events with the result failed, timeout or interrupted, at most limit of them, in the order of the logs. A limit
// of 0 or less returns none. The result is empty, and not nil, if there are none. A line that was cut off counts as
// interrupted, as in LastResults. A file that does not exist counts as empty. LastFailures returns nil and an error if
// a file cannot be read or ctx ends.
func LastFailures(ctx context.Context, limit int, paths ...string) ([]End, error) {
	failures := []End{}
	err := readEnds(ctx, paths, func(end *End) {
		if !slices.Contains([]string{failed, timeout, interrupted}, end.Result) {
			return
		}
		if failures = append(failures, *end); len(failures) > limit {
			failures = slices.Delete(failures, 0, 1)
		}
	})
	if err != nil {
		return nil, err
	}
	return failures, nil
}

// An End is an end event of the audit log: the time at which a change of a binding or a service instance ended, the
// command, the result such as "done", and the names and ids of the event, which are "" if the event does not have
// them.
//
// An End can also describe a line that is cut off, even if that is a begin event. Its Result is always "interrupted".
// If the line does not contain the command, Command is "unknown". If it does not contain the time, Time is that of
// the last complete line with a time before it, also in an earlier log; without such a line, the one that is cut off
// is ignored. All other fields that the line does not contain are "". The zero value is not an event.
type End struct {
	Time    time.Time `json:"time"`
	Command string    `json:"command"`
	Result  string    `json:"result"`
	User    string    `json:"user,omitempty"`
	// BindingID is "" for a change of an instance.
	BindingID  string `json:"binding_id,omitempty"`
	InstanceID string `json:"instance_id,omitempty"`
	Service    string `json:"service,omitempty"`
	Plan       string `json:"plan,omitempty"`
}

// readEnds reads the audit logs at paths, in this order, and calls visit with each end event that has a time. A line
// that is cut off counts as an end event with the result "interrupted"; see LastResults. Files that do not exist, lines
// of 64 KB or more and all other lines are ignored. visit must not keep the pointer after it returns. readEnds returns
// an error if a file cannot be opened or read, or if ctx ends; visit may have been called before.
func readEnds(ctx context.Context, paths []string, visit func(end *End)) error {
	parser := parser{visit: visit}
	for _, path := range paths {
		file, err := os.Open(path) //nolint:gosec // the operator names the file
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return err
		}
		err = parser.read(ctxio.Reader(ctx, file))
		_ = file.Close() // opened for reading: closing cannot lose anything
		if err != nil {
			return err
		}
	}
	return nil
}

// A parser finds the end events in the lines of audit logs, and passes them to its function visit, which must be set.
// It remembers the time of the last complete line, also from one log to the next, for lines that are cut off before
// their time.
type parser struct {
	// visit is called with each event that has a time.
	visit  func(end *End)
	newest time.Time // the time of the last line that has one
}

// read parses the lines of one audit log until io.EOF. It calls p.visit for each end event that has a time, and for
// each object that is cut off, even if it is a begin event. An object that is cut off before its time gets the time
// of the last complete line with a time, also of an earlier log that p has read; it causes no call if there is no
// such line. See line for its other fields. All other lines cause no call, and neither do lines of 64 KB
// (longestLine) or more; at most that much is held in memory. The last line does not have to end with a line break.
// read returns the error of the reader, except io.EOF. Before an error, p.visit may have been called, also for the
// line at which the reader failed.
func (p *parser) read(from io.Reader) error {
	lines := bufio.NewReaderSize(from, longestLine)
	for tooLong := false; ; {
		line, err := lines.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if !full && !tooLong {
			p.line(line)
		}
		tooLong = full
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !full:
			return err
		}
	}
}

// line parses one line of an audit log and calls p.visit if the line is an end event with a time, or an object that
// is cut off: a line that begins with "{" and is not valid JSON, even if it is a begin event. The event of an object
// that is cut off has the result "interrupted", the command "unknown" if it lacks one, and the time of the last
// complete line that has one if it lacks a time; without any time it is ignored. All other lines are ignored. If the
// line is complete and has a time, line stores that time in p.newest, even if an earlier line has a later time.
func (p *parser) line(line []byte) {
	var event struct {
		End
		Event string `json:"event"`
	}
	switch {
	case json.Unmarshal(line, &event) == nil:
		if event.Event == endEvent && !event.Time.IsZero() {
			p.visit(&event.End)
		}
		if !event.Time.IsZero() {
			p.newest = event.Time
		}
	case bytes.HasPrefix(line, []byte("{")) && !json.Valid(line):
		fields := completeFields(line)
		at, err := time.Parse(time.RFC3339, fields["time"])
		if err != nil {
			at = p.newest
		}
		if !at.IsZero() {
			p.visit(&End{
				Time: at, Command: cmp.Or(fields["command"], "unknown"), Result: interrupted, User: fields["user"],
				BindingID: fields["binding_id"], InstanceID: fields["instance_id"], Service: fields["service"],
				Plan: fields["plan"],
			})
		}
	}
}

// completeFields returns the text fields, by name, of a JSON object that is cut off, such as
// `{"command":"delete-binding","user":"op`. The field that contains the cut and fields whose values are not texts are
// left out. The values of the object must be scalars, as in an audit event. The map is empty, and not nil, if no text
// field is complete. completeFields never fails.
func completeFields(object []byte) map[string]string {
	fields := map[string]string{}
	decoder := json.NewDecoder(bytes.NewReader(object))
	_, err := decoder.Token() // the opening brace
	for err == nil {
		var key, content json.Token
		if key, err = decoder.Token(); err == nil {
			content, err = decoder.Token()
		}
		name, isName := key.(string)
		text, isText := content.(string)
		if err == nil && isName && isText {
			fields[name] = text
		}
	}
	return fields
}
