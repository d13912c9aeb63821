package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/states"
)

// showFlags holds the flags of `bindings show` and `instance show`. Without flags, the commands write text without
// secrets.
type showFlags struct {
	asJSON bool
	// inputs and outputs also show the variables and the outputs of the template, including secrets.
	inputs, outputs bool
}

// newShow returns the command `bindings show` or `instance show`, depending on kind. It shows the stored data of the
// binding or service instance with the id that is its argument. Its flags add the inputs and outputs of the template
// with their secrets; the audit log then gets an entry. It exits with exitFindings if the id does not exist or is
// unreadable.
func newShow(streams Streams, kind lifecycle.Kind) *cobra.Command {
	outputs := "outputs"
	if kind == lifecycle.Binding {
		outputs = "credentials"
	}
	var flags showFlags
	command := &cobra.Command{
		Use:   "show ID",
		Short: "Show what is stored of " + withArticle(kind),
		Long: fmt.Sprintf(`Show the stored data of %s: its service, plan and owner, the pak and the version of OpenTofu
that created it, the version of the adapter that wrote its record last, its condition, and the addresses of its
resources. Secrets are shown only with a flag: --inputs shows the variables that the template received, --%s the values
that it returned.`, withArticle(kind), outputs) +
			exitStatus("0 the data was written", "1 the id does not exist, or its state or record is unreadable"),
		Example: fmt.Sprintf("  service-adapter %s show 3f1c9a52-0d3c-4c57-9a52-8a3a9c1e6f0b --json",
			parentCommand(kind)),
	}
	command.Flags().BoolVar(&flags.inputs, "inputs", false, "show the variables of its template, including secrets")
	command.Flags().BoolVar(&flags.outputs, outputs, false, "show the outputs of its template, including secrets")
	jsonFlag(command, &flags.asJSON)
	work := func(ctx context.Context, operator *states.Operator, args []string) error {
		read := func(ctx context.Context) (*lifecycle.Stored, error) {
			return lifecycle.Inspect(ctx, operator.Manager, kind, args[0])
		}
		if flags.inputs || flags.outputs {
			read = audited(operator, kind, args[0], read)
		}
		stored, err := read(ctx)
		if errors.Is(err, lifecycle.ErrNotStored) {
			say(streams, err.Error()+hintOtherKind(ctx, operator, kind, args[0]))
			return errFindings
		}
		if err != nil {
			return err
		}
		return flags.show(streams, stored, outputs)
	}
	return withOperator(command, streams, &states.Options{}, work)
}

// audited returns a function that calls read, which reads the secrets of a binding or service instance to show them,
// and that writes to the audit log that they were read, with the result. kind and id are those of the item. The
// function returns the item and the error that read returns. An event that cannot be written is only logged.
func audited(
	operator *states.Operator, kind lifecycle.Kind, id string, read func(context.Context) (*lifecycle.Stored, error),
) func(context.Context) (*lifecycle.Stored, error) {
	return func(ctx context.Context) (stored *lifecycle.Stored, err error) {
		entry := lifecycle.Entry{Identity: lifecycle.Identity{Kind: kind, ID: id}}
		err = operator.Audit(ctx, entry, func(report func(lifecycle.Entry)) error {
			if stored, err = read(ctx); err == nil {
				report(stored.Entry)
			}
			return err
		})
		return stored, err
	}
}

// hintOtherKind returns a hint to append to the error that an id of this kind does not exist, if the id exists for the
// other kind: the hint names the command that shows it. hintOtherKind returns "" if the id does not exist there either,
// or if that cannot be determined.
func hintOtherKind(ctx context.Context, operator *states.Operator, kind lifecycle.Kind, id string) string {
	other := lifecycle.Binding
	if kind == lifecycle.Binding {
		other = lifecycle.Instance
	}
	if _, err := operator.Lookup(ctx, other, id); err != nil {
		return "" // the caller reports that the id does not exist
	}
	if strings.ContainsAny(id, " '\"$`\\") {
		id = "'" + strings.ReplaceAll(id, "'", `'\''`) + "'"
	}
	return fmt.Sprintf("; there is %s of this id: see service-adapter %s show %s",
		withArticle(other), parentCommand(other), id)
}

// show writes an entry, with the inputs and outputs that the flags select, to standard output. outputs is the name
// under which the outputs are written. Inputs and outputs that cannot be read are left out. show returns an error if
// the output cannot be written. If the entry is unreadable, show writes the reason to standard error and returns
// errFindings.
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
		say(streams, unreadableMessage(&stored.Entry))
	}
	return findingsError(stored.Condition == lifecycle.Unreadable)
}

// entryText returns an entry as text, with one line for each value that is not empty. secrets may contain the inputs
// under "inputs" and the outputs under the name in outputs; they are appended as JSON. It returns an error if that
// fails.
func entryText(e *lifecycle.Entry, secrets map[string]any, outputs string) (string, error) {
	var text strings.Builder
	owner, hint, failure := "", "", lifecycle.Failure{}
	switch {
	case e.Kind == lifecycle.Binding:
		owner = e.InstanceID
	case e.Condition == lifecycle.Deleting:
		hint = lifecycle.UnfinishedDeletion
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
		{"adapter", e.Adapter},
		{"condition", string(e.Condition)},
		{"hint", hint},
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
