// Package diag represents diagnostics about the files that an author wrote: the error, its position and the allowed
// values. Parsers collect diagnostics in a List and continue, so that one run reports every error.
package diag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Pos is a position in a file. Line and Column count from 1. A zero Line denotes the whole file, and a zero Column
// the whole line.
type Pos struct {
	File   string
	Line   int
	Column int
}

// String returns "file:line:column". It leaves out the column, or the line and the column, if they are zero.
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

// A PositionError is an error that occurred at a position in a file. Err is the error without its position, and must
// not be nil.
type PositionError struct {
	Pos Pos
	Err error
}

// Error returns the position and the text of Err.
func (e *PositionError) Error() string { return e.Pos.String() + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *PositionError) Unwrap() error { return e.Err }

// A Severity is the importance of a diagnostic. Only errors keep a file from being used; a notice is information.
type Severity int

// The severities, most severe first.
const (
	Error Severity = iota
	Warning
	Notice
)

// String returns "error", "warning" or "notice". It panics for any other value.
func (s Severity) String() string { return [...]string{"error", "warning", "notice"}[s] }

// A Diagnostic is one error, warning or notice about a file.
type Diagnostic struct {
	Severity Severity
	// Rule is a short stable name, such as "unknown-key". It may be "".
	Rule string
	// Message is one sentence without a final period that describes the error and the allowed values.
	Message string
	// Hint is the part of Message that suggests a correction, or "" if it has none.
	Hint Hint
	Pos  Pos
}

// newDiagnostic returns a diagnostic whose message is formatted as by fmt.Sprintf. If one of the arguments is a Hint,
// as Suggest returns it, the diagnostic has that Hint; of several, it has the last one. rule may be "".
func newDiagnostic(severity Severity, pos Pos, rule, format string, args []any) Diagnostic {
	d := Diagnostic{Severity: severity, Rule: rule, Message: fmt.Sprintf(format, args...), Pos: pos}
	for _, arg := range args {
		if hint, ok := arg.(Hint); ok {
			d.Hint = hint
		}
	}
	return d
}

// String returns the diagnostic as "file:line:column: message [rule]". A warning or notice has its severity before the
// message.
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

// A List collects diagnostics. Its zero value is an empty list that is ready to use. It is not safe for concurrent use.
type List struct {
	items []Diagnostic
}

// Errorf adds an error with a message that is formatted as by fmt.Sprintf. A Hint among the arguments becomes the hint
// of the diagnostic. rule may be "".
func (l *List) Errorf(pos Pos, rule, format string, args ...any) {
	l.items = append(l.items, newDiagnostic(Error, pos, rule, format, args))
}

// Warnf adds a warning with a message that is formatted as by fmt.Sprintf. A Hint among the arguments becomes the hint
// of the diagnostic. rule may be "".
func (l *List) Warnf(pos Pos, rule, format string, args ...any) {
	l.items = append(l.items, newDiagnostic(Warning, pos, rule, format, args))
}

// Add adds a diagnostic as it is, with any severity.
func (l *List) Add(d Diagnostic) { l.items = append(l.items, d) }

// Append adds all diagnostics of another list, which may be nil and is not changed.
func (l *List) Append(other *List) {
	if other != nil {
		l.items = append(l.items, other.items...)
	}
}

// All returns the diagnostics in the order of Compare, without repetitions. The list does not change.
func (l *List) All() []Diagnostic {
	sorted := slices.Clone(l.items)
	slices.SortStableFunc(sorted, Compare)
	return slices.Compact(sorted)
}

// Compare compares diagnostics by file, line, column, rule and message, in this order. The result is negative, zero or
// positive as for cmp.Compare. The severity and the hint are not compared.
func Compare(a, b Diagnostic) int {
	return cmp.Or(
		strings.Compare(a.Pos.File, b.Pos.File),
		cmp.Compare(a.Pos.Line, b.Pos.Line),
		cmp.Compare(a.Pos.Column, b.Pos.Column),
		strings.Compare(a.Rule, b.Rule),
		strings.Compare(a.Message, b.Message),
	)
}

// HasErrors reports whether at least one diagnostic of the list has the severity Error.
func (l *List) HasErrors() bool {
	return slices.ContainsFunc(l.items, func(d Diagnostic) bool { return d.Severity == Error })
}

// Err returns the errors of the list as one error of the type Errors, without its warnings and notices. It returns nil
// if the list contains no error.
func (l *List) Err() error {
	failed := slices.DeleteFunc(l.All(), func(d Diagnostic) bool { return d.Severity != Error })
	if len(failed) == 0 {
		return nil
	}
	return Errors(failed)
}

// Errors is an error that consists of diagnostics with the severity Error. List.Err returns them in the order of
// Compare, without repetitions, and at least one.
type Errors []Diagnostic

// Error returns the diagnostics in their order, one per line, as Diagnostic.String returns them. It returns "" for
// none.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, d := range e {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}
