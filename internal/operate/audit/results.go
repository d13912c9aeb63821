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

// A Result is the name of a command in the audit log and a result with which it ended, such as "done" or "failed"; see
// Log.Change.
type Result struct{ Command, Result string }

// LastResults reads audit logs line by line, the oldest file first. A file that does not exist counts as empty. The
// returned map contains the time at which a command last ended with a result; it is empty if there is none. LastResults
// returns an error if a file cannot be read or ctx ends.
//
// A line that a full disk cut off counts as interrupted. If the name of the command is cut off, the command is
// "unknown". If the time is cut off, the time is that of the line before. Other lines that are not events are ignored.
// An event without a time is ignored.
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

// LastFailures reads audit logs, the oldest file first, and returns the last events with the result failed, timeout or
// interrupted, at most limit of them, in the order of the logs. The result is empty, and not nil, if there are none. A
// file that does not exist counts as empty. LastFailures returns an error if a file cannot be read or ctx ends. See
// LastResults for lines that are cut off.
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

// An End is the event that the audit log contains for the end of a command. If the line is cut off, only the fields
// before the cut are set, and Result is "interrupted".
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

// readEnds calls visit with the end event of each line of several logs, in the order of the paths. A line that is cut
// off yields an event with the result "interrupted"; see parser.line. readEnds ignores files that do not exist and
// lines without an end event. The event is valid until visit returns. readEnds returns an error if a file cannot be
// opened or read, or if ctx ends.
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

// A parser finds the end events in the lines of audit logs, and passes them to visit.
type parser struct {
	// visit is called with each event that has a time.
	visit  func(end *End)
	newest time.Time // the time of the last line that has one
}

// read parses the lines of a log; see line for the lines that count. Lines of longestLine bytes or more are ignored. It
// holds at most one line in memory. The error is that of the reader; io.EOF is not one.
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

// line visits the event of a line if the line is the end event of a command or is cut off. It ignores all other lines,
// such as those that do not begin with an object. It sets p.newest to the time of the line if it has one and is not cut
// off.
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

// completeFields returns the text fields of a JSON object that is cut off, without the field that contains the cut.
// Fields with other values are left out. The values of the object must be scalars, as those of an event. The result is
// not nil.
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
