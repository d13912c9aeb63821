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
	"service-adapter/internal/record"
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
			streams.Stderr = io.Discard // the document has all of it
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
		CreatedAt: "CREATED", Owner: record.Owner{App: "APP", Space: "SPACE", Organization: "ORGANIZATION"}, Condition: "CONDITION",
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

// showFlags are the flags of `bindings show` and `instance show`.
type showFlags struct{ asJSON, inputs, outputs bool }

// newShow is `bindings show ID` and `instance show ID`.
func newShow(streams Streams, kind lifecycle.Kind) *cobra.Command {
	outputs := "outputs"
	if kind == lifecycle.Binding {
		outputs = "credentials"
	}
	var flags showFlags
	command := &cobra.Command{
		Use:   "show ID",
		Short: "Show what is stored of " + withArticle(kind),
		Long: fmt.Sprintf(`Show what is stored of %s: whose it is, what made it, its condition, and the addresses of its resources. Secrets are only shown
with a flag: --inputs are the variables that its template got, --%s are the values that the template gave.`, withArticle(kind), outputs) +
			exits("0 shown", "1 there is none of this id, or it is unreadable"),
		Example: fmt.Sprintf("  service-adapter %s show 3f1c9a52-0d3c-4c57-9a52-8a3a9c1e6f0b --json", parentOf(kind)),
	}
	command.Flags().BoolVar(&flags.inputs, "inputs", false, "show the variables of its template, secrets too")
	command.Flags().BoolVar(&flags.outputs, outputs, false, "show the outputs of its template, secrets too")
	jsonFlag(command, &flags.asJSON)
	return withOperator(command, streams, &adapter.OperatorOptions{}, func(ctx context.Context, operator *adapter.Operator, args []string) error {
		stored, err := operator.Read(ctx, kind, args[0])
		if errors.Is(err, lifecycle.ErrNotStored) {
			say(streams, err.Error()+otherKind(ctx, operator, kind, args[0]))
			return errFindings
		}
		if err != nil {
			return err
		}
		return flags.show(streams, stored, outputs)
	})
}

// otherKind tells that an id is that of something of the other kind, "" when it is not.
func otherKind(ctx context.Context, operator *adapter.Operator, kind lifecycle.Kind, id string) string {
	other := lifecycle.Binding
	if kind == lifecycle.Binding {
		other = lifecycle.Instance
	}
	if _, err := operator.Read(ctx, other, id); err != nil {
		return "" // that there is none of this kind has been said
	}
	if strings.ContainsAny(id, " '\"$`\\") {
		id = "'" + strings.ReplaceAll(id, "'", `'\''`) + "'"
	}
	return fmt.Sprintf("; there is %s of this id: see service-adapter %s show %s", withArticle(other), parentOf(other), id)
}

// show writes an entry, and what the flags ask for besides; outputs is the name of the outputs.
func (f *showFlags) show(streams Streams, stored *lifecycle.Stored, outputs string) error {
	secrets := map[string]any{}
	if f.inputs && stored.Record != nil {
		secrets["inputs"] = stored.Record.Inputs
	}
	if f.outputs && stored.State != nil {
		secrets[outputs] = stored.State.Outputs
	}
	text, err := entryText(&stored.Entry, secrets, outputs)
	secrets["format_version"], secrets[string(stored.Kind)] = documentFormat, stored.Entry
	if err = errors.Join(err, writeEither(streams, f.asJSON, secrets, text)); err != nil {
		return err
	}
	if stored.Condition == lifecycle.Unreadable {
		say(streams, unreadable(&stored.Entry))
	}
	return findings(stored.Condition == lifecycle.Unreadable)
}

// entryText has one line for each thing that is known.
func entryText(e *lifecycle.Entry, secrets map[string]any, outputs string) (string, error) {
	var text strings.Builder
	owner, failure := "", lifecycle.Failure{}
	if e.Kind == lifecycle.Binding {
		owner = e.InstanceID
	}
	if e.Failure != nil {
		failure = *e.Failure
	}
	for _, line := range [][2]string{
		{string(e.Kind), e.ID},
		{"instance", owner},
		{"deployment", e.Deployment},
		{"service", e.Service},
		{"plan", e.Plan},
		{"pak", strings.TrimSpace(e.Pak + " " + e.PakVersion)},
		{"OpenTofu", e.Tofu},
		{"condition", string(e.Condition)},
		{"created", e.CreatedAt},
		{"updated", e.UpdatedAt},
		{"app", e.App},
		{"space", e.Space},
		{"org", e.Organization},
		{"workspace", e.Workspace},
		{"resources", strings.Join(e.Resources, "\n"+strings.Repeat(" ", 12))},
		{"last error", failure.Operator},
		{"user reads", failure.User},
	} {
		if line[1] != "" {
			fmt.Fprintf(&text, "%-12s%s\n", line[0], line[1])
		}
	}
	for _, name := range []string{"inputs", outputs} {
		if values, wanted := secrets[name]; wanted {
			text.WriteString(name + "\n")
			if err := writeJSON(&text, values); err != nil {
				return "", err
			}
		}
	}
	return text.String(), nil
}
