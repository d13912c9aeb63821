package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"service-adapter/internal/engine/lifecycle"
)

// rowsShown is the number of groups, and of locks, on the page. JSON contains all of them.
const rowsShown = 30

// Text returns the report as a page for a terminal, which ends with a line break: a line for each question that an
// operator asks first, a table of the stored bindings and instances, and a table of the paks. A table without rows is
// left out. The page contains at most 30 (rowsShown) locks and 30 rows of bindings and instances, and the numbers of
// the others.
func (r *Report) Text() string {
	var page strings.Builder
	for _, kind := range []lifecycle.Kind{lifecycle.Binding, lifecycle.Instance} {
		writeLine(&page, string(kind)+"s", r.conditions(kind))
	}
	for _, kind := range []lifecycle.Kind{lifecycle.Binding, lifecycle.Instance} {
		if r.Behind[kind].Stored > 0 {
			writeLine(&page, "behind the paks", r.Behind[kind].text(kind))
		}
	}
	writeLine(&page, "oldest unfinished", r.OldestUnfinished.text())
	r.writeLocks(&page)
	writeLine(&page, "certificates", r.Certificates.text())
	r.writeFailures(&page)
	for _, text := range r.UnreadablePaks {
		writeLine(&page, "unreadable pak", text)
	}
	r.writeGroups(&page)
	r.writePaks(&page)
	return page.String()
}

// writeLine appends a line to page that consists of label, padded with spaces to 19 characters, and text, with a line
// break at the end.
func writeLine(page *strings.Builder, label, text string) {
	const width = 19
	_, _ = fmt.Fprintf(page, "%-*s%s\n", width, label, text) // a strings.Builder returns no errors
}

// conditions returns the number of stored items of a kind, bindings or service instances, followed by the number with
// each condition, such as "5: 4 complete, 1 unreadable". The conditions are sorted by name. It returns "none" if there
// are no items.
func (r *Report) conditions(kind lifecycle.Kind) string {
	counts, sum := map[lifecycle.Condition]int{}, 0
	for _, group := range r.Groups {
		if group.Kind == kind {
			counts[group.Condition] += group.Count
			sum += group.Count
		}
	}
	if sum == 0 {
		return "none"
	}
	var parts []string
	for _, condition := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[condition], condition))
	}
	return fmt.Sprintf("%d: %s", sum, strings.Join(parts, ", "))
}

// text returns the counts in words, in one line without a line break, such as "2 of 5 bindings (pak version: 2,
// OpenTofu: 1)". kind, "binding" or "instance", is used as the noun. The numbers of items that are newer than the
// installed pak, or without one, follow after a semicolon. All numbers that are 0 are left out, except for the first
// two.
func (b *Behind) text(kind lifecycle.Kind) string {
	text := fmt.Sprintf("%d of %s", b.Any, counted(b.Stored, string(kind)))
	text += listed(" (", ")", numbered("pak version", b.PakVersion), numbered("OpenTofu", b.OpenTofu),
		numbered("template", b.Template))
	return text + listed("; ", "", numbered("newer than the installed pak", b.Newer),
		numbered("without an installed pak of their name", b.WithoutPak))
}

// numbered returns a label with a count, such as "template: 3", and "" if the count is 0.
func numbered(label string, count int) string {
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %d", label, count)
}

// listed returns the texts that are not "", joined by commas, after prefix and before suffix: listed(" (", ")", "a",
// "", "b") is " (a, b)". It returns "", without prefix and suffix, if all texts are "" or there are none.
func listed(prefix, suffix string, texts ...string) string {
	var parts []string
	for _, text := range texts {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return prefix + strings.Join(parts, ", ") + suffix
}

// counted returns a number with its noun, such as "1 lock", "2 locks" or "0 locks". noun is the singular; for every
// count except 1, an "s" is appended to it.
func counted(count int, noun string) string {
	if count != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", count, noun)
}

// text returns the item in words, such as "binding b1, creating since 2026-01-31T12:00:00Z": its kind, id, condition
// and the time of its last change. Without a time, the text ends with "an unknown time". For a nil u it returns "none".
func (u *Unfinished) text() string {
	if u == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s, %s since %s", u.Kind, u.ID, u.Condition, cmp.Or(u.UpdatedAt, "an unknown time"))
}

// writeLocks appends a line to page for each lock that is held, at most 30 (rowsShown), and then a line with the number
// of the others, if there are any. If no lock is held, or if the state backend does not list locks, which a nil r.Locks
// means, it writes one line that states this.
func (r *Report) writeLocks(page *strings.Builder) {
	switch {
	case r.Locks == nil:
		writeLine(page, "locks", "not known: the backend "+r.backend+" does not list them")
	case len(r.Locks) == 0:
		writeLine(page, "locks", "none")
	}
	for n, lock := range r.Locks {
		if n == rowsShown {
			writeLine(page, "locks", fmt.Sprintf("%d more; --json has all", len(r.Locks)-n))
			return
		}
		text := strings.TrimSpace(fmt.Sprintf("%s %s", lock.Kind, lock.ID))
		for _, part := range [][2]string{
			{"since", lock.Since}, {"by", lock.Who}, {"for", strings.TrimPrefix(lock.Operation, "OperationType")},
		} {
			if part[1] != "" {
				text += " " + part[0] + " " + part[1]
			}
		}
		writeLine(page, "locks", text)
	}
}

// writeFailures appends a line to page for each of the last failures in r.Failures, the latest first, with the time,
// the command, the result, the ids and the user. If there are none, or if no audit log is configured, which a nil
// r.Failures means, it writes one line that states this.
func (r *Report) writeFailures(page *strings.Builder) {
	switch {
	case r.Failures == nil:
		writeLine(page, "last failures", "not known: audit_log is not configured")
	case len(r.Failures) == 0:
		writeLine(page, "last failures", "none in the audit log")
	}
	for n := len(r.Failures) - 1; n >= 0; n-- {
		end := r.Failures[n]
		text := fmt.Sprintf("%s %s %s", end.Time.UTC().Format(time.RFC3339), end.Command, end.Result)
		if end.BindingID != "" {
			text += " binding " + end.BindingID
		}
		if end.InstanceID != "" {
			text += " instance " + end.InstanceID
		}
		if end.User != "" {
			text += " by " + end.User
		}
		writeLine(page, "last failures", text)
	}
}

// writeGroups appends an empty line and the table of the stored bindings and service instances to page, with a heading
// and at most 30 (rowsShown) rows, and then a line with the number of the other rows, if there are any. It writes
// nothing if r.Groups is empty.
func (r *Report) writeGroups(page *strings.Builder) {
	rows := [][]string{{"KIND", "SERVICE", "PLAN", "PAK", "OPENTOFU", "TEMPLATE", "CONDITION", "COUNT"}}
	for _, group := range r.Groups[:min(len(r.Groups), rowsShown)] {
		rows = append(rows, []string{
			string(group.Kind), group.Service, group.Plan, strings.TrimSpace(group.Pak + " " + group.PakVersion),
			group.Tofu, group.Template, string(group.Condition), fmt.Sprint(group.Count),
		})
	}
	writeTable(page, rows)
	if hidden := len(r.Groups) - rowsShown; hidden > 0 {
		_, _ = fmt.Fprintf(page, "and %d more rows; --json has all\n", hidden) // a strings.Builder returns no errors
	}
}

// writePaks appends an empty line and the table of the paks to page, with a heading and a row for each reason to keep a
// pak, or one row for a pak that is not needed. It writes nothing if r.Paks is empty.
func (r *Report) writePaks(page *strings.Builder) {
	rows := [][]string{{"INSTALLED PAK", "OPENTOFU", "NEEDED", "FOR"}}
	for i := range r.Paks {
		pak := &r.Paks[i]
		if !pak.Needed {
			rows = append(rows, []string{pak.Name + " " + pak.Version, pak.Tofu, "no", ""})
		}
		for n, need := range pak.Needs {
			if n == 0 {
				rows = append(rows, []string{pak.Name + " " + pak.Version, pak.Tofu, "yes", need.text()})
			} else {
				rows = append(rows, []string{" ", " ", " ", need.text()})
			}
		}
	}
	writeTable(page, rows)
}

// text returns the reason in words, such as "the provider registry.opentofu.org/hashicorp/random 3.5.1 of 2 bindings",
// with the numbers of bindings and instances that are not 0. A reason with an unknown value of What is treated as
// NeedUnknown.
func (n Need) text() string {
	items := listed("", "", countedUnlessZero(n.Bindings, "binding"), countedUnlessZero(n.Instances, "instance"))
	switch n.What {
	case NeedTemplate:
		return "requests for the service " + n.Name
	case NeedOpenTofu:
		return "the OpenTofu of " + items
	case NeedProvider:
		return "the provider " + n.Name + " " + n.Version + " of " + items
	case NeedCommand:
		return "the command " + n.Name + " of " + items
	default:
		return "perhaps for " + items + " that cannot be read"
	}
}

// countedUnlessZero returns a number with its noun, such as "1 binding" or "2 bindings", and "" for 0. noun is the
// singular, to which an "s" is appended for a larger count.
func countedUnlessZero(count int, noun string) string {
	if count == 0 {
		return ""
	}
	return counted(count, noun)
}

// writeTable appends an empty line and rows, in columns that are aligned with spaces, to page. The first row is the
// heading. If rows contains only the heading, writeTable writes nothing; rows must not be empty. An empty cell is
// written as "-", and is also replaced in rows.
func writeTable(page *strings.Builder, rows [][]string) {
	if len(rows) == 1 {
		return
	}
	page.WriteString("\n")
	table := tabwriter.NewWriter(page, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for n := range row {
			row[n] = cmp.Or(row[n], "-")
		}
		_, _ = fmt.Fprintln(table, strings.Join(row, "\t")) // a strings.Builder returns no errors
	}
	_ = table.Flush() // a strings.Builder returns no errors
}
