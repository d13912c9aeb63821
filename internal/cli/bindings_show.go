package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
)

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
