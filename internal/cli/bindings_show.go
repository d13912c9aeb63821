package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/states"
)

// A showFlags holds the flags of `bindings show` and `instance show`: --json, and the flags that add the inputs and the
// outputs of the template, which contain secrets. With the zero value, the commands write text without secrets.
type showFlags struct {
	asJSON bool
	// inputs and outputs also show the variables and the outputs of the template, including secrets.
	inputs, outputs bool
}

// newShow returns the command `bindings show` or `instance show`, depending on kind. The command shows the stored
// data of one binding or service instance on standard output, as text or with --json as JSON. Its argument is the id
// or, as for lifecycle.Inspect, the name of a workspace that contains a hash instead of the id. The flag --inputs
// adds the inputs of the template. The flag that adds its outputs is --outputs for an instance and --credentials for
// a binding. Both flags show secrets, so with either of them the command writes events to the audit log, also if the
// read fails. Reading can have side effects, such as the deletion of an empty workspace; see lifecycle.Inspect.
//
// If the id does not exist, the command writes only the reason to standard error, with a hint if an item of the other
// kind has the id, and returns errFindings. If its state or record is unreadable, the command writes what is known to
// standard output, then the reason to standard error, and returns errFindings. It returns another error if the operator
// cannot be opened, if the state backend cannot be read or the state is locked, if no pak has a usable OpenTofu, or if
// the output cannot be written.
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

// audited returns a function that calls read and writes to the audit log that the secrets of a binding or service
// instance were read, before the call and with the result after it. read must return the item, whose secrets the
// command shows. kind and id identify the item in the audit log. The function returns the item and the error of read.
// An event that cannot be written is only logged.
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

// hintOtherKind returns a hint to append to the error that no item of this kind has the id. If the state backend
// contains an item of the other kind with the id, the hint is a text such as "; an instance has this id: see
// service-adapter instance show ID", with the id quoted for a shell if necessary. hintOtherKind returns "" if the id
// does not exist for the other kind either, or if that cannot be determined, for example because the state backend
// cannot be read or the state is locked. It may delete an empty workspace; see lifecycle.Manager.Lookup.
func hintOtherKind(ctx context.Context, operator *states.Operator, kind lifecycle.Kind, id string) string {
	other := lifecycle.Binding
	if kind == lifecycle.Binding {
		other = lifecycle.Instance
	}
	if _, err := operator.Lookup(ctx, other, id); err != nil {
		return "" // the caller reports that the id does not exist
	}
	return fmt.Sprintf("; %s has this id: see service-adapter %s show %s",
		withArticle(other), parentCommand(other), shellWord(id))
}

// shellWord returns a text as one word of a POSIX shell. A text of ASCII letters, digits and the characters
// _@%+=:,./- is returned as it is. Any other text, also "", is quoted, so that the shell expands nothing in it.
func shellWord(text string) string {
	if regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`).MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// show writes an entry, with the inputs and outputs that the flags select, as text or JSON to standard output. stored,
// which must not be nil, is the item. Its fields State and Record are nil if they cannot be read; the outputs or inputs
// are then left out. outputs is the name under which the outputs are written: "credentials" for a binding, "outputs"
// for an instance. show returns an error if the text cannot be encoded or written. If the entry is unreadable, show
// also writes the reason to standard error and returns errFindings. Otherwise it returns nil.
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

// entryText returns an entry as text, with one line for each value that is not empty, such as "service     redis";
// further resources follow in lines of their own. The field Error is left out. An instance with the condition
// Deleting also has a line with a hint.
//
// secrets may contain the inputs of the template under the key "inputs" and the outputs under the key in the
// parameter outputs. They are appended, in this order, each as its key and indented JSON. Other keys of secrets are
// ignored, and secrets may be nil. entryText returns "" and an error if a value cannot be encoded as JSON.
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
