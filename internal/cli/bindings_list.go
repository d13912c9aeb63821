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
	"service-adapter/internal/diag"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/value"
)

const listHelp = `List the %s in the state backend with their conditions:

  complete    it is as it was last asked for
  creating    it was never finished: its creation is under way or was interrupted
  changing    a change of it is under way or was interrupted
  importing   its import is under way or was interrupted
  deleting    its deletion is under way or was interrupted
  unreadable  its state or the record in it cannot be read

Runs that are under way are not waited for. The list holds no secrets.

EXIT STATUS
  0 listed, 1 one of those listed is unreadable, 2 wrong usage, 3 anything else`

// newList is `bindings list` and `instance list`.
func newList(streams Streams, kind lifecycle.Kind) *cobra.Command {
	var only filter
	var order string
	var asJSON bool
	command := &cobra.Command{
		Use:     "list",
		Short:   fmt.Sprintf("List %s and their conditions", plural(kind)),
		Long:    fmt.Sprintf(listHelp, plural(kind)),
		Example: fmt.Sprintf("  service-adapter %s list --condition creating,deleting", parentOf(kind)),
		Args: func(command *cobra.Command, args []string) error {
			if names := value.Keys(orders())[1:]; orders()[order] == nil {
				return fmt.Errorf("unknown --sort %q%s; there are %s", order, diag.Suggest(order, names), diag.Names(names))
			}
			return errors.Join(cobra.NoArgs(command, args), only.check())
		},
	}
	only.flags(command)
	only.existingFlags(command)
	jsonFlag(command, &asJSON)
	command.Flags().StringVar(&order, "sort", "", "the order: "+strings.Join(value.Keys(orders())[1:], ", ")+"; age is the oldest first, what the others sort by is shown")
	return withOperator(command, streams, &adapter.OperatorOptions{}, func(ctx context.Context, operator *adapter.Operator, _ []string) error {
		all, err := listed(ctx, streams, operator, kind, &only)
		if err != nil {
			return err
		}
		by := orders()[order]
		slices.SortStableFunc(all, func(a, b lifecycle.Stored) int { return strings.Compare(by(a.Entry), by(b.Entry)) })
		return printList(streams, kind, all, order, asJSON)
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

func printList(streams Streams, kind lifecycle.Kind, all []lifecycle.Stored, order string, asJSON bool) error {
	entries := []lifecycle.Entry{}
	var lines []string
	for i := range all {
		entries = append(entries, all[i].Entry)
		if all[i].Condition == lifecycle.Unreadable {
			lines = append(lines, unreadable(&all[i]))
		}
	}
	var err error
	if asJSON {
		err = writeJSON(streams, map[string]any{"format_version": documentFormat, plural(kind): entries})
	} else {
		err = writeTable(streams, kind, entries, order)
	}
	if err != nil {
		return fmt.Errorf("writing the list: %w", err)
	}
	if !asJSON {
		const most = 5
		for _, line := range lines[:min(most, len(lines))] {
			say(streams, line)
		}
		if rest := len(lines) - most; rest > 0 {
			say(streams, fmt.Sprintf("and %d more are unreadable", rest))
		}
		say(streams, counted(len(entries), string(kind)))
	}
	if len(lines) > 0 {
		return errFindings
	}
	return nil
}

// writeTable writes one line for each entry, below a heading; nothing when there is none. The last column, a condition, is red or
// yellow where something is to be done and colours help.
func writeTable(streams Streams, kind lifecycle.Kind, entries []lifecycle.Entry, order string) error {
	if len(entries) == 0 {
		return nil
	}
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	row := func(sortedBy, condition string, cells ...string) {
		if order != "" && order != byAge { // which is there anyway
			cells = append(cells, sortedBy)
		}
		cells = append(cells, condition)
		for i := range cells {
			cells[i] = cmp.Or(cells[i], "-")
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) // a text in memory takes it
	}
	owner := "INSTANCE"
	if kind == lifecycle.Instance {
		owner = "DEPLOYMENT"
	}
	row(strings.ToUpper(order), "CONDITION", "ID", owner, "SERVICE", "PLAN", "PAK", "OPENTOFU", "CREATED")
	for _, e := range entries {
		owner := e.InstanceID
		if kind == lifecycle.Instance {
			owner = e.Deployment
		}
		row(orders()[order](e), conditionText(e.Condition, colours(streams)),
			e.ID, owner, e.Service, e.Plan, strings.TrimSpace(e.Pak+" "+e.PakVersion), e.Tofu, e.CreatedAt)
	}
	_ = table.Flush() // likewise
	_, err := io.WriteString(streams.Out, out.String())
	return err
}

func conditionText(condition lifecycle.Condition, coloured bool) string {
	switch {
	case !coloured || condition == lifecycle.Complete:
		return string(condition)
	case condition == lifecycle.Unreadable:
		return "\x1b[31m" + string(condition) + "\x1b[0m"
	default:
		return "\x1b[33m" + string(condition) + "\x1b[0m"
	}
}
