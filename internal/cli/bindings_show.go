package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
)

const showHelp = `Show what is stored of %s: whose it is, what made it, its condition, and the addresses of its resources. Secrets are only shown
with a flag: --inputs are the variables that its template got, --%s are the values that the template gave.

EXIT STATUS
  0 shown, 1 there is none of this id, or it is unreadable, 2 wrong usage, 3 anything else`

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
		Use:     "show ID",
		Short:   "Show what is stored of " + withArticle(kind),
		Long:    fmt.Sprintf(showHelp, withArticle(kind), outputs),
		Example: fmt.Sprintf("  service-adapter %s show 3f1c9a52-0d3c-4c57-9a52-8a3a9c1e6f0b --json", parentOf(kind)),
		Args:    exactly("ID"),
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
	var err error
	if f.asJSON {
		secrets["format_version"], secrets[string(stored.Kind)] = documentFormat, stored.Entry
		err = writeJSON(streams, secrets)
	} else {
		err = writeEntry(streams.Out, stored, secrets, outputs)
	}
	if err != nil {
		return fmt.Errorf("writing the %s: %w", stored.Kind, err)
	}
	if stored.Condition == lifecycle.Unreadable {
		say(streams, unreadable(stored))
		return errFindings
	}
	return nil
}

// writeEntry writes one line for each thing that is known.
func writeEntry(out io.Writer, stored *lifecycle.Stored, secrets map[string]any, outputs string) error {
	var text strings.Builder
	line := func(name, content string) {
		if content != "" {
			fmt.Fprintf(&text, "%-12s%s\n", name, content)
		}
	}
	line(string(stored.Kind), stored.ID)
	if stored.Kind == lifecycle.Binding {
		line("instance", stored.InstanceID)
	}
	line("deployment", stored.Deployment)
	line("service", stored.Service)
	line("plan", stored.Plan)
	line("pak", strings.TrimSpace(stored.Pak+" "+stored.PakVersion))
	line("OpenTofu", stored.Tofu)
	line("condition", string(stored.Condition))
	line("created", stored.CreatedAt)
	line("updated", stored.UpdatedAt)
	line("app", stored.App)
	line("space", stored.Space)
	line("org", stored.Organization)
	line("workspace", stored.Workspace)
	line("resources", strings.Join(stored.Resources, "\n"+strings.Repeat(" ", 12)))
	if stored.Failure != nil {
		line("last error", stored.Failure.Operator)
		line("user reads", stored.Failure.User)
	}
	for _, name := range []string{"inputs", outputs} {
		values, wanted := secrets[name]
		if !wanted {
			continue
		}
		text.WriteString(name + "\n")
		if err := writeJSON(Streams{Out: &text}, values); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
