// Package diag holds diagnostics about the files an author wrote: what is wrong, where, and what is allowed there. Parsers
// collect them in a List and go on, so that one run reports every fault.
package diag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Pos is a place in a file. Line and Column are 1-based; a zero Line stands for the whole file.
type Pos struct {
	File   string
	Line   int
	Column int
}

// String returns "file:line:column", or only the file when the place is the whole of it.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	default:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
}

// PlacedError is an error with the place of what failed.
type PlacedError struct {
	Pos Pos
	Err error
}

// Error returns the place and the reason.
func (e *PlacedError) Error() string { return e.Pos.String() + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *PlacedError) Unwrap() error { return e.Err }

// Severity says whether a diagnostic keeps a file from being used. A notice is only for information.
type Severity int

// The severities.
const (
	Error Severity = iota
	Warning
	Notice
)

// String returns "error", "warning" or "notice".
func (s Severity) String() string { return [...]string{"error", "warning", "notice"}[s] }

// Diagnostic is one finding. Rule is a short stable name such as "unknown-key"; Message is one sentence without a final
// period that says what is wrong and what is allowed.
type Diagnostic struct {
	Severity Severity
	Rule     string
	Message  string
	// Hint is a part of the message.
	Hint Hint
	Pos  Pos
}

// newDiagnostic finds the hint of a message among what the message is made of.
func newDiagnostic(severity Severity, pos Pos, rule, format string, args []any) Diagnostic {
	d := Diagnostic{Severity: severity, Rule: rule, Message: fmt.Sprintf(format, args...), Pos: pos}
	for _, arg := range args {
		if hint, ok := arg.(Hint); ok {
			d.Hint = hint
		}
	}
	return d
}

// String renders the diagnostic as "file:line:column: message [rule]".
func (d Diagnostic) String() string {
	text := d.Pos.String() + ": "
	if d.Severity != Error {
		text += d.Severity.String() + ": "
	}
	text += d.Message
	if d.Rule != "" {
		text += " [" + d.Rule + "]"
	}
	return text
}

// List collects diagnostics. The zero value is ready to use; a List is not safe for concurrent use.
type List struct {
	items []Diagnostic
}

// Errorf adds an error.
func (l *List) Errorf(pos Pos, rule, format string, args ...any) {
	l.items = append(l.items, newDiagnostic(Error, pos, rule, format, args))
}

// Warnf adds a warning.
func (l *List) Warnf(pos Pos, rule, format string, args ...any) {
	l.items = append(l.items, newDiagnostic(Warning, pos, rule, format, args))
}

// Add adds a diagnostic of another list.
func (l *List) Add(d Diagnostic) { l.items = append(l.items, d) }

// Append adds all diagnostics of another list.
func (l *List) Append(other *List) {
	if other != nil {
		l.items = append(l.items, other.items...)
	}
}

// All returns the diagnostics sorted by file, line, column and rule, each once.
func (l *List) All() []Diagnostic {
	sorted := slices.Clone(l.items)
	slices.SortStableFunc(sorted, Compare)
	return slices.Compact(sorted)
}

// Compare orders diagnostics by file, line, column, rule and message.
func Compare(a, b Diagnostic) int {
	return cmp.Or(
		strings.Compare(a.Pos.File, b.Pos.File),
		cmp.Compare(a.Pos.Line, b.Pos.Line),
		cmp.Compare(a.Pos.Column, b.Pos.Column),
		strings.Compare(a.Rule, b.Rule),
		strings.Compare(a.Message, b.Message),
	)
}

// HasErrors tells whether at least one diagnostic is an error.
func (l *List) HasErrors() bool {
	return slices.ContainsFunc(l.items, func(d Diagnostic) bool { return d.Severity == Error })
}

// Err returns all errors of the list as one error, or nil when there is none.
func (l *List) Err() error {
	failed := slices.DeleteFunc(l.All(), func(d Diagnostic) bool { return d.Severity != Error })
	if len(failed) == 0 {
		return nil
	}
	return Errors(failed)
}

// Errors is a non-empty, sorted list of diagnostics used as an error.
type Errors []Diagnostic

// Error renders one diagnostic a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, d := range e {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}
