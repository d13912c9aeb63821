package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

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
		Example: fmt.Sprintf("  service-adapter %s list --condition creating,deleting", parent(kind)),
		Args:    arguments(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := only.check(); err != nil {
				return err
			}
			return withOperator(command, streams, adapter.OperatorOptions{}, func(operator *adapter.Operator) error {
				found, err := listed(command, streams, operator, kind, &only)
				if err != nil {
					return err
				}
				return printList(streams, kind, found, asJSON)
			})
		},
	}
	only.flags(command)
	jsonFlag(command, &asJSON)
	return command
}

func printList(streams Streams, kind lifecycle.Kind, found []lifecycle.Stored, asJSON bool) error {
	entries := []lifecycle.Entry{}
	var unreadable []string
	for _, stored := range found {
		entries = append(entries, stored.Entry)
		if stored.Condition == lifecycle.Unreadable {
			unreadable = append(unreadable, fmt.Sprintf("%s %s is unreadable: %s", kind, stored.ID, stored.Error))
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
		const shown = 5
		for _, line := range unreadable[:min(shown, len(unreadable))] {
			say(streams, line)
		}
		if rest := len(unreadable) - shown; rest > 0 {
			say(streams, fmt.Sprintf("and %d more are unreadable", rest))
		}
		say(streams, counted(len(entries), string(kind)))
	}
	if len(unreadable) > 0 {
		return errFindings
	}
	return nil
}

// writeTable writes one line for each entry, below a heading; nothing when there is none.
func writeTable(streams Streams, kind lifecycle.Kind, entries []lifecycle.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	rows := [][]string{{"ID", "INSTANCE", "SERVICE", "PLAN", "PAK", "OPENTOFU", "CONDITION"}}
	for _, e := range entries {
		rows = append(rows, []string{e.ID, e.InstanceID, e.Service, e.Plan, strings.TrimSpace(e.Pak + " " + e.PakVersion), e.Tofu, string(e.Condition)})
	}
	if kind == lifecycle.Instance {
		rows[0][1] = "DEPLOYMENT"
		for i, e := range entries {
			rows[i+1][1] = e.Deployment
		}
	}
	return writeRows(streams.Out, rows, colours(streams))
}

// writeRows aligns columns. With colours the last one, a condition, is red or yellow where something is to be done.
func writeRows(out io.Writer, rows [][]string, coloured bool) error {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			if cell == "" {
				cell = "-"
			}
			text.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		text.WriteString(conditionText(row[len(row)-1], coloured) + "\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func conditionText(condition string, coloured bool) string {
	if !coloured {
		return condition
	}
	switch lifecycle.Condition(condition) {
	case lifecycle.Unreadable:
		return "\x1b[31m" + condition + "\x1b[0m"
	case lifecycle.Creating, lifecycle.Changing, lifecycle.Importing, lifecycle.Deleting:
		return "\x1b[33m" + condition + "\x1b[0m"
	default:
		return condition
	}
}
