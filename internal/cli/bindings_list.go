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

// newList returns the command `bindings list` or `instance list`, depending on kind. The command lists the bindings or
// the service instances in the state backend that the flags select, as a table or with --json as JSON. With --existing,
// it lists only the items of which neither the id nor the deployment is in a file of existing ones. It then also leaves
// out, without a message, the items whose deployment is unknown, such as those whose record cannot be read. Problems of
// the listed items and their number are written to standard error, except with --json. Progress, warnings and the first
// 20 names in the file of --existing that no stored item has are written to standard error in any case. Reading the
// states may delete empty workspaces; see lifecycle.Manager.List. The command returns errFindings if a listed item is
// unreadable.
//
// It returns another error if the operator cannot be opened, if a flag has an invalid value, such as an unknown service
// (a usageError), if no pak has a usable OpenTofu, if the state backend cannot be read, or if the output cannot be
// written. If items are stored, it also returns an error if the file of --existing cannot be read, has no names or is
// cut off, or if that file names none of the stored items and --allow-all is not set.
func newList(streams Streams, kind lifecycle.Kind) *cobra.Command {
	listed := selection{kind: kind, all: true}
	var order string
	var asJSON bool
	command := &cobra.Command{
		Use:   "list",
		Short: fmt.Sprintf("List %s and their conditions", plural(kind)),
		Long: fmt.Sprintf(`List the %s in the state backend with their conditions. The condition is complete; or
creating, changing, importing or deleting, which is in progress, failed or was interrupted; or unreadable if the state
or its record cannot be read. docs/operations/commands.md says what to do about each. The command waits for a run in
progress only if the state of the run is empty or incomplete. The list contains no secrets.`, plural(kind)) +
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

// sortKeys returns, for each value of --sort, the function that returns the sort key of an entry. The values are
// "age", whose key is the time of creation, "app", "space" and "organization", and "", which means that the flag is
// not set. Entries are sorted by this key in ascending order, so "age" puts older entries before newer ones. An entry
// without the attribute has the key "" and comes first, such as an entry of unknown age that an older release
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

// reportProblems writes problems of entries to standard error: for the first five that are unreadable and for the first
// five whose last apply failed the reasons, and for the remaining ones their number. The last line is the number of all
// entries, such as "3 bindings". An unreadable entry does not count as one with a failed apply. kind is that of the
// entries, and is used only in the texts. reportProblems returns errFindings if an entry is unreadable, and nil
// otherwise, also after failed applies and without entries. Failed writes are ignored.
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

// entryTable returns a table with a heading and one line for each entry, in the order of entries, and a line break at
// its end. It returns "" if there are no entries. kind is that of the entries: the second column is the service
// instance for bindings, and the deployment for instances. order is the value of --sort; "app", "space" and
// "organization" add a column. It must be a key of sortKeys. An empty cell is "-". If streams permit colours on
// standard output, the condition unreadable is red, and all others except complete are yellow.
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
