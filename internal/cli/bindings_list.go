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

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/states"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// newList returns the command `bindings list` or `instance list`, depending on kind. It lists the bindings or the
// service instances in the state backend that its filters select, as a table or as JSON, and exits with exitFindings if
// one of them is unreadable.
func newList(streams Streams, kind lifecycle.Kind) *cobra.Command {
	listed := selection{kind: kind, all: true}
	var order string
	var asJSON bool
	command := &cobra.Command{
		Use:   "list",
		Short: fmt.Sprintf("List %s and their conditions", plural(kind)),
		Long: fmt.Sprintf(`List the %s in the state backend with their conditions. The condition is complete; or
creating, changing, importing or deleting, which is in progress or was interrupted; or unreadable if the state or its
record cannot be read. docs/operations/commands.md says what to do about each. The command does not wait for runs that
are in progress. The list contains no secrets.`, plural(kind)) +
			exitStatus("0 the list was written",
				fmt.Sprintf("1 one of the %s in the list is unreadable", plural(kind))),
		Example: fmt.Sprintf("  service-adapter %s list --condition creating,deleting", parentCommand(kind)),
	}
	listed.filter.addFlags(command)
	listed.platform.addFlags(command)
	command.Args = func(command *cobra.Command, args []string) error {
		return errors.Join(exactArgs()(command, args), listed.platform.check(command))
	}
	jsonFlag(command, &asJSON)
	names := value.Keys(sortKeys())[1:]
	command.Flags().StringVar(&order, "sort", "",
		"the order: "+strings.Join(names, ", ")+"; age lists the oldest first, the others add a column")
	work := func(ctx context.Context, operator *states.Operator, _ []string) error {
		if err := checkOneOf("sort", cmp.Or(order, byAge), names); err != nil {
			return err
		}
		all, err := listed.selectItems(ctx, streams, operator, nil)
		if err != nil {
			return err
		}
		entries := []lifecycle.Entry{}
		for _, stored := range all {
			entries = append(entries, stored.Entry)
		}
		by := sortKeys()[order]
		slices.SortStableFunc(entries, func(a, b lifecycle.Entry) int { return strings.Compare(by(a), by(b)) })
		document := map[string]any{"format_version": documentFormat, plural(kind): entries}
		if listed.platform.existingFile != "" {
			// The slice is not nil, so that JSON has a list.
			document["not_stored"] = append([]string{}, listed.platform.notStored...)
		}
		if err := writeEither(streams, asJSON, document, entryTable(streams, kind, entries, order)); err != nil {
			return err
		}
		if asJSON {
			streams.Stderr = io.Discard // the document contains the same information
		}
		return reportProblems(streams, kind, entries)
	}
	return withOperator(command, streams, &states.Options{}, work)
}

// byAge is the value of --sort for the order of creation.
const byAge = "age"

// sortKeys returns, for each value of --sort, the function that returns the key of an entry. Entries are sorted by this
// key in ascending order. Those with the key "" come first, such as an entry of unknown age that an older release
// created. The function for "" always returns "", so that a stable sort keeps the order of the state backend.
func sortKeys() map[string]func(lifecycle.Entry) string {
	return map[string]func(lifecycle.Entry) string{
		"":             func(lifecycle.Entry) string { return "" },
		byAge:          func(e lifecycle.Entry) string { return e.CreatedAt },
		"app":          func(e lifecycle.Entry) string { return e.App },
		"space":        func(e lifecycle.Entry) string { return e.Space },
		"organization": func(e lifecycle.Entry) string { return e.Organization },
	}
}

// reportProblems writes to standard error why entries are unreadable and why their last applies failed, for the first
// five of each, and then the number of all entries. kind is that of the entries, and appears in the texts. It returns
// errFindings if an entry is unreadable, and nil otherwise, also after failed applies.
func reportProblems(streams Streams, kind lifecycle.Kind, entries []lifecycle.Entry) error {
	const maxReasons = 5
	unreadable, failed := 0, 0
	for i := range entries {
		switch entry := &entries[i]; {
		case entry.Condition == lifecycle.Unreadable:
			if unreadable++; unreadable <= maxReasons {
				say(streams, unreadableMessage(entry))
			}
		case entry.Failure != nil:
			if failed++; failed <= maxReasons {
				say(streams, fmt.Sprintf("%s %s is %s; its last apply failed: %s",
					kind, entry.ID, entry.Condition, entry.Failure.Operator))
			}
		}
	}
	if unreadable > maxReasons {
		say(streams, fmt.Sprintf("and %d more are unreadable", unreadable-maxReasons))
	}
	if failed > maxReasons {
		say(streams, fmt.Sprintf("and the last applies of %d more failed", failed-maxReasons))
	}
	say(streams, counted(len(entries), string(kind)))
	return findingsError(unreadable > 0)
}

// entryTable returns a table with a heading and one line for each entry, or "" if there are no entries. kind is that of
// the entries, and order is the value of --sort, whose column is added unless every table has it. An empty cell is "-".
// If standard output may contain colours, the condition unreadable is red, and others than complete are yellow.
func entryTable(streams Streams, kind lifecycle.Kind, entries []lifecycle.Entry, order string) string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	heading := lifecycle.Entry{
		Identity: lifecycle.Identity{
			ID: "ID", InstanceID: "INSTANCE", Deployment: "DEPLOYMENT", Service: "SERVICE", Plan: "PLAN",
		},
		AppliedWith: lifecycle.AppliedWith{Pak: "PAK", Tofu: "OPENTOFU"}, Adapter: "ADAPTER", Condition: "CONDITION",
		Times: lifecycle.Times{CreatedAt: "CREATED"},
		Owner: record.Owner{App: "APP", Space: "SPACE", Organization: "ORGANIZATION"},
	}
	for i, e := range append([]lifecycle.Entry{heading}, entries...) {
		owner, condition := e.InstanceID, string(e.Condition)
		if kind == lifecycle.Instance {
			owner = e.Deployment
		}
		cells := []string{
			e.ID, owner, e.Service, e.Plan, strings.TrimSpace(e.Pak + " " + e.PakVersion), e.Tofu, e.Adapter,
			e.CreatedAt,
		}
		if order != "" && order != byAge { // the time of creation is a column of every table
			cells = append(cells, sortKeys()[order](e))
		}
		for c := range cells {
			cells[c] = cmp.Or(cells[c], "-")
		}
		switch {
		case i == 0 || e.Condition == lifecycle.Complete || !useColours(streams):
		case e.Condition == lifecycle.Unreadable:
			condition = "\x1b[31m" + condition + "\x1b[0m"
		default:
			condition = "\x1b[33m" + condition + "\x1b[0m"
		}
		_, _ = fmt.Fprintln(table, strings.Join(append(cells, condition), "\t")) // a strings.Builder returns no errors
	}
	_ = table.Flush() // a strings.Builder returns no errors
	if len(entries) == 0 {
		return ""
	}
	return out.String()
}
