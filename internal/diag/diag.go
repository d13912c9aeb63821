// Package diag represents diagnostics about the files that an author wrote: the error, its position and the allowed
// values. Parsers collect diagnostics in a List and continue, so that one run reports every error.
package diag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Pos is a position in a file. It contains the name of the file, a line and a column. Line counts from 1, and
// Column counts characters from 1. A zero Line denotes the whole file, and a zero Column the whole line. The zero Pos
// names no file.
type Pos struct {
	File   string
	Line   int
	Column int
}

// String returns "file:line:column", "file:line" if the column is 0, and the file alone if the line is 0. It returns ""
// for the zero Pos.
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

// A PositionError is an error that occurred at a position in a file. It wraps Err, the error without its position,
// which must not be nil.
type PositionError struct {
	Pos Pos
	Err error
}

// Error returns the position, as Pos.String returns it, followed by ": " and the text of Err.
func (e *PositionError) Error() string { return e.Pos.String() + ": " + e.Err.Error() }

// Unwrap returns Err, the error without its position.
func (e *PositionError) Unwrap() error { return e.Err }

// A Severity is the importance of a diagnostic: Error, which is the zero value, Warning or Notice. An error keeps a
// file from being used; a warning and a notice do not, and a notice is only information.
type Severity int

// The severities, most severe first.
const (
	Error Severity = iota
	Warning
	Notice
)

// String returns "error", "warning" or "notice". It panics for any other value.
func (s Severity) String() string { return [...]string{"error", "warning", "notice"}[s] }

// A Diagnostic is one error, warning or notice about a file. It consists of the severity, the short name of the
// violated rule, which may be "", the message, the part of the message that suggests a correction, and the position.
// The zero value is an error without a message and a position.
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

// newDiagnostic returns a diagnostic whose message is formatted from format and args as by fmt.Sprintf. If one of the
// arguments is a Hint, as Suggest returns it, the diagnostic also has that Hint in its field Hint; of several, it has
// the last one. rule is the short name of the violated rule, such as "unknown-key", or "".
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
// message, such as "file:line:column: warning: message". The column, the line and the rule are left out if the
// diagnostic does not have them; see Pos.String for the position. The separator ": " follows the position even if that
// is the zero Pos, whose text is empty.
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

// Errorf adds an error at the position pos to the list, with a message that is formatted from format and args as by
// fmt.Sprintf. A Hint among the arguments also becomes the hint of the diagnostic. rule is the short name of the
// violated rule, such as "unknown-key", or "".
func (l *List) Errorf(pos Pos, rule, format string, args ...any) {
	l.items = append(l.items, newDiagnostic(Error, pos, rule, format, args))
}

// Warnf adds a warning at the position pos to the list, with a message that is formatted from format and args as by
// fmt.Sprintf. A Hint among the arguments also becomes the hint of the diagnostic. rule is the short name of the
// violated rule, such as "unknown-key", or "".
func (l *List) Warnf(pos Pos, rule, format string, args ...any) {
	l.items = append(l.items, newDiagnostic(Warning, pos, rule, format, args))
}

// Add adds a diagnostic as it is, with any severity.
func (l *List) Add(d Diagnostic) { l.items = append(l.items, d) }

// Append adds all diagnostics of another list, with their severities, to the list l. The other list is not changed; nil
// counts as empty.
func (l *List) Append(other *List) {
	if other != nil {
		l.items = append(l.items, other.items...)
	}
}

// All returns a new slice of the diagnostics in the order of Compare. Of adjacent diagnostics that are equal in all
// fields, it contains the first one. The list does not change. The result is empty if the list is empty.
func (l *List) All() []Diagnostic {
	sorted := slices.Clone(l.items)
	slices.SortStableFunc(sorted, Compare)
	return slices.Compact(sorted)
}

// Compare compares two diagnostics by file, line, column, rule and message, in this order. The result is negative if a
// precedes b, positive if b precedes a, and otherwise 0. The severity and the hint are not compared.
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

// Err returns the errors of the list as one error of the type Errors, in the order of Compare, without the warnings and
// notices of the list. It returns nil if the list contains no diagnostic with the severity Error.
func (l *List) Err() error {
	failed := slices.DeleteFunc(l.All(), func(d Diagnostic) bool { return d.Severity != Error })
	if len(failed) == 0 {
		return nil
	}
	return Errors(failed)
}

// Errors is an error that consists of diagnostics with the severity Error. List.Err returns it with at least one
// diagnostic; its diagnostics are the errors in List.All, in the same order.
type Errors []Diagnostic

// Error returns the diagnostics in their order, one per line, as Diagnostic.String returns them, without a line break
// at the end. It returns "" if there are none.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, d := range e {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}
