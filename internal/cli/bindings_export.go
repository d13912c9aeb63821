package cli

import (
	"bytes"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
)

const exportHelp = `Write one JSON document about everything in the state backend, bindings and instances, or about the bindings whose ids are given: the
entries that the lists show, and with --secrets also the record of what made each of them and its outputs, credentials among them.
It is for audits and comparisons: nothing reads it back. A backup is that of the state backend itself.

EXIT STATUS
  0 written, 1 something is missing or unreadable, 2 wrong usage, 3 anything else`

// exportFlags are the flags of `bindings export`.
type exportFlags struct {
	filter
	secrets bool
	file    string
}

// exported is an entry of the document.
type exported struct {
	lifecycle.Entry
	Record  *lifecycle.Record `json:"record,omitempty"`
	Outputs map[string]any    `json:"outputs,omitempty"`
}

// newExport is `bindings export`.
func newExport(streams Streams) *cobra.Command {
	var flags exportFlags
	command := &cobra.Command{
		Use:     "export [ID…]",
		Short:   "Write everything that is stored as one JSON document",
		Long:    exportHelp,
		Example: "  service-adapter bindings export --secrets --file stored.json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && !flags.empty() {
				return errors.New("ids and filters exclude each other")
			}
			return flags.check()
		},
	}
	flags.flags(command)
	command.Flags().BoolVar(&flags.secrets, "secrets", false, "add records and outputs")
	command.Flags().StringVar(&flags.file, "file", "", "write to this file, readable for nobody else")
	return withOperator(command, streams, &adapter.OperatorOptions{}, func(ctx context.Context, operator *adapter.Operator, ids []string) error {
		return flags.export(ctx, streams, operator, ids)
	})
}

func (f *exportFlags) export(ctx context.Context, streams Streams, operator *adapter.Operator, ids []string) error {
	chosen, missing, err := f.find(ctx, streams, operator, ids)
	if err != nil {
		return err
	}
	entries := []exported{}
	for i := range chosen {
		stored := &chosen[i]
		entry := exported{Entry: stored.Entry}
		if f.secrets {
			entry.Record = stored.Record
			if stored.State != nil {
				entry.Outputs = stored.State.Outputs
			}
		}
		if stored.Condition == lifecycle.Unreadable {
			missing++
			say(streams, unreadable(stored))
		}
		entries = append(entries, entry)
	}
	var text bytes.Buffer
	into := streams
	if f.file != "" {
		into.Out = &text
	}
	if err := writeJSON(into, map[string]any{"format_version": documentFormat, "entries": entries}); err != nil {
		return err
	}
	if f.file != "" {
		if err := writeFile(f.file, text.String(), 0o600); err != nil {
			return err
		}
	}
	if missing > 0 {
		return errFindings
	}
	return nil
}

// find reads what is to be exported, and counts the ids that nothing is stored of.
func (f *exportFlags) find(
	ctx context.Context, streams Streams, operator *adapter.Operator, ids []string,
) (chosen []lifecycle.Stored, missing int, err error) {
	if len(ids) == 0 {
		chosen, err = listed(ctx, streams, operator, "", &f.filter)
		return chosen, 0, err
	}
	for _, id := range ids {
		stored, err := operator.Read(ctx, lifecycle.Binding, id)
		switch {
		case errors.Is(err, lifecycle.ErrNotStored):
			missing++
			say(streams, err.Error())
		case err != nil:
			return nil, 0, err
		default:
			chosen = append(chosen, *stored)
		}
	}
	return chosen, missing, nil
}
