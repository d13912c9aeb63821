package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/value"
)

// newList is `bindings list` and `instance list`.
func newList(streams Streams, kind lifecycle.Kind) *cobra.Command {
	listed := selection{kind: kind, all: true}
	var order string
	var asJSON bool
	command := &cobra.Command{
		Use:   "list",
		Short: fmt.Sprintf("List %s and their conditions", plural(kind)),
		Long: fmt.Sprintf(`List the %s in the state backend with their conditions: complete, or what is under way or was interrupted, creating, changing,
importing or deleting; unreadable is what has a state or a record that cannot be read. docs/operations.md says what to do about each.
Runs that are under way are not waited for. The list holds no secrets.`, plural(kind)) + exits("0 listed", "1 one of those listed is unreadable"),
		Example: fmt.Sprintf("  service-adapter %s list --condition creating,deleting", parentOf(kind)),
	}
	listed.filterFlags(command)
	listed.existingFlags(command)
	command.Args = func(command *cobra.Command, args []string) error {
		return errors.Join(exactly()(command, args), listed.checkExisting(command, args))
	}
	jsonFlag(command, &asJSON)
	names := value.Keys(orders())[1:]
	command.Flags().StringVar(&order, "sort", "", "the order: "+strings.Join(names, ", ")+"; age is the oldest first, the others are shown")
	return withOperator(command, streams, &adapter.OperatorOptions{}, func(ctx context.Context, operator *adapter.Operator, _ []string) error {
		if err := oneOf("sort", cmp.Or(order, byAge), names); err != nil {
			return err
		}
		all, err := listed.items(ctx, streams, operator, nil)
		if err != nil {
			return err
		}
		entries := []lifecycle.Entry{}
		for _, stored := range all {
			entries = append(entries, stored.Entry)
		}
		by := orders()[order]
		slices.SortStableFunc(entries, func(a, b lifecycle.Entry) int { return strings.Compare(by(a), by(b)) })
		if err := writeEither(streams, asJSON, map[string]any{"format_version": documentFormat, plural(kind): entries}, table(streams, kind, entries, order)); err != nil {
			return err
		}
		if asJSON {
			streams.Err = io.Discard // the document has all of it
		}
		return sayUnreadable(streams, kind, entries)
	})
}

// byAge is the order by the time of creation.
const byAge = "age"

// orders are what --sort may name, "" for by id, with what it sorts by. What is not known comes first: an older release made it.
func orders() map[string]func(lifecycle.Entry) string {
	return map[string]func(lifecycle.Entry) string{
		"":             func(lifecycle.Entry) string { return "" },
		byAge:          func(e lifecycle.Entry) string { return e.CreatedAt },
		"app":          func(e lifecycle.Entry) string { return e.App },
		"space":        func(e lifecycle.Entry) string { return e.Space },
		"organization": func(e lifecycle.Entry) string { return e.Organization },
	}
}

// sayUnreadable tells how many were listed, and of those that cannot be read.
func sayUnreadable(streams Streams, kind lifecycle.Kind, entries []lifecycle.Entry) error {
	const most = 5
	count := 0
	for i := range entries {
		if entries[i].Condition != lifecycle.Unreadable {
			continue
		}
		if count++; count <= most {
			say(streams, unreadable(&entries[i]))
		}
	}
	if count > most {
		say(streams, fmt.Sprintf("and %d more are unreadable", count-most))
	}
	say(streams, counted(len(entries), string(kind)))
	return findings(count > 0)
}

// table has one line for each entry, below a heading; it is empty when there is none. The last column, a condition, is red or yellow where
// something is to be done and colours help.
func table(streams Streams, kind lifecycle.Kind, entries []lifecycle.Entry, order string) string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	heading := lifecycle.Entry{
		ID: "ID", InstanceID: "INSTANCE", Deployment: "DEPLOYMENT", Service: "SERVICE", Plan: "PLAN", Pak: "PAK", Tofu: "OPENTOFU",
		CreatedAt: "CREATED", Owner: lifecycle.Owner{App: "APP", Space: "SPACE", Organization: "ORGANIZATION"}, Condition: "CONDITION",
	}
	for i, e := range append([]lifecycle.Entry{heading}, entries...) {
		owner, condition := e.InstanceID, string(e.Condition)
		if kind == lifecycle.Instance {
			owner = e.Deployment
		}
		cells := []string{e.ID, owner, e.Service, e.Plan, strings.TrimSpace(e.Pak + " " + e.PakVersion), e.Tofu, e.CreatedAt}
		if order != "" && order != byAge { // which is there anyway
			cells = append(cells, orders()[order](e))
		}
		for c := range cells {
			cells[c] = cmp.Or(cells[c], "-")
		}
		switch {
		case i == 0 || e.Condition == lifecycle.Complete || !colours(streams):
		case e.Condition == lifecycle.Unreadable:
			condition = "\x1b[31m" + condition + "\x1b[0m"
		default:
			condition = "\x1b[33m" + condition + "\x1b[0m"
		}
		_, _ = fmt.Fprintln(table, strings.Join(append(cells, condition), "\t")) // a text in memory takes it
	}
	_ = table.Flush() // likewise
	if len(entries) == 0 {
		return ""
	}
	return out.String()
}
