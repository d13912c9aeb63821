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

// Text returns the report as a page: a line for each question that an operator asks first, a table of the stored items,
// and a table of the paks. Tables without rows are left out. At most rowsShown locks and groups are listed; the page
// says how many more there are.
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

// writeLine writes a line that consists of a label, padded to a fixed width, and a text.
func writeLine(page *strings.Builder, label, text string) {
	const width = 19
	_, _ = fmt.Fprintf(page, "%-*s%s\n", width, label, text) // a strings.Builder returns no errors
}

// conditions returns the number of items of a kind, and the numbers of those with each condition, sorted by condition.
// It returns "none" if there are no items.
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

// text returns the number of items of a kind that are behind, in total and by property, and the numbers of those that
// are newer than the installed pak or without one, in one line. All numbers that are 0 are left out, except for the
// total.
func (b *Behind) text(kind lifecycle.Kind) string {
	text := fmt.Sprintf("%d of %s", b.Any, counted(b.Stored, string(kind)))
	text += listed(" (", ")", numbered("pak version", b.PakVersion), numbered("OpenTofu", b.OpenTofu),
		numbered("template", b.Template))
	return text + listed("; ", "", numbered("newer than the installed pak", b.Newer),
		numbered("without an installed pak of their name", b.WithoutPak))
}

// numbered returns "LABEL: COUNT" for the label what and a count, and "" for 0.
func numbered(what string, count int) string {
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %d", what, count)
}

// listed returns the texts that are not "", separated by commas, between a prefix and a suffix. It returns "" if there
// are none.
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

// counted returns a number with its noun; the plural is formed by adding an s.
func counted(count int, noun string) string {
	if count != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", count, noun)
}

// text returns the item with its condition and time, and "none" for nil.
func (u *Unfinished) text() string {
	if u == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s, %s since %s", u.Kind, u.ID, u.Condition, cmp.Or(u.UpdatedAt, "an unknown time"))
}

// writeLocks writes a line for each lock that is held, up to rowsShown, and then one with the number of the others. If
// no lock is held, or if the backend does not list locks, it writes one line that says so.
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

// writeFailures writes a line for each of the last failures, the latest first. If there are none, or if no audit log is
// configured, it writes one line that says so.
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

// writeGroups writes the table of the stored items, up to rowsShown rows, and then a line with the number of the
// others. It writes nothing if no items are stored.
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

// writePaks writes the table of the paks, with a line for each reason to keep a pak, and one line for a pak that is not
// needed. It writes nothing without paks.
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

// text returns a reason in words, with the numbers of items. Any other What than the known ones counts as NeedUnknown.
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

// countedUnlessZero returns a number with its noun as counted does, but "" for 0.
func countedUnlessZero(count int, noun string) string {
	if count == 0 {
		return ""
	}
	return counted(count, noun)
}

// writeTable writes an empty line and the rows in aligned columns. An empty cell is written as "-", and is replaced in
// rows as well. The first row is the heading; without another row, writeTable writes nothing.
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
