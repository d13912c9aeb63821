package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
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
	var asJSON bool
	command := &cobra.Command{
		Use:     "list",
		Short:   fmt.Sprintf("List %s and their conditions", plural(kind)),
		Long:    fmt.Sprintf(listHelp, plural(kind)),
		Example: fmt.Sprintf("  service-adapter %s list --condition creating,deleting", parentOf(kind)),
		Args: func(command *cobra.Command, args []string) error {
			return errors.Join(cobra.NoArgs(command, args), only.check())
		},
	}
	only.flags(command)
	only.existingFlags(command)
	jsonFlag(command, &asJSON)
	return withOperator(command, streams, &adapter.OperatorOptions{}, func(ctx context.Context, operator *adapter.Operator, _ []string) error {
		all, err := listed(ctx, streams, operator, kind, &only)
		if err != nil {
			return err
		}
		return printList(streams, kind, all, asJSON)
	})
}

func printList(streams Streams, kind lifecycle.Kind, all []lifecycle.Stored, asJSON bool) error {
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
		err = writeTable(streams, kind, entries)
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
func writeTable(streams Streams, kind lifecycle.Kind, entries []lifecycle.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	row := func(cells ...string) {
		for i := range cells {
			cells[i] = cmp.Or(cells[i], "-")
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) // a text in memory takes it
	}
	owner := "INSTANCE"
	if kind == lifecycle.Instance {
		owner = "DEPLOYMENT"
	}
	row("ID", owner, "SERVICE", "PLAN", "PAK", "OPENTOFU", "CONDITION")
	for _, e := range entries {
		owner := e.InstanceID
		if kind == lifecycle.Instance {
			owner = e.Deployment
		}
		row(e.ID, owner, e.Service, e.Plan, strings.TrimSpace(e.Pak+" "+e.PakVersion), e.Tofu, conditionText(e.Condition, colours(streams)))
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
