package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
)

const deleteHelp = `Delete bindings as the broker does, with the inputs that they were made with. A binding that does not exist is fine. Nothing is asked.
With --condition, one whose condition is another by the time is refused.

--forget deletes what is stored of a binding and lets what it made exist; it says what that is. Use it where OpenTofu can never
destroy it, because a server is gone for good.

EXIT STATUS
  0 none of them is there any more, 1 something could not be deleted, 2 wrong usage, 3 anything else`

// removal are the flags of commands that remove things.
type removal struct {
	selection
	gone                   gone
	asJSON, forget, dryRun bool
}

func (r *removal) flags(command *cobra.Command) {
	r.selection.flags(command)
	command.Flags().BoolVar(&r.forget, "forget", false, "let its resources exist and forget them")
	command.Flags().BoolVar(&r.dryRun, "dry-run", false, "only tell what would become of them")
	jsonFlag(command, &r.asJSON)
}

// newDelete is `bindings delete`.
func newDelete(streams Streams) *cobra.Command {
	flags := removal{selection: selection{kind: lifecycle.Binding}}
	command := &cobra.Command{
		Use:     "delete ID… | --all",
		Short:   "Delete bindings as the broker does",
		Long:    deleteHelp,
		Example: "  service-adapter bindings delete --all --condition creating,deleting",
		RunE: func(command *cobra.Command, args []string) error {
			if err := flags.check(args); err != nil {
				return err
			}
			return withOperator(command, streams, adapter.OperatorOptions{}, func(operator *adapter.Operator) error {
				return flags.remove(command, streams, operator, args, func(stored *lifecycle.Stored) result {
					switch {
					case flags.dryRun:
						return flags.rehearse(command.Context(), operator, stored, deleted)
					case flags.forget:
						return forget(command.Context(), operator, stored, flags.only())
					}
					return outcome(operator.DeleteBinding(command.Context(), stored.ID, flags.only()...), deleted)
				})
			})
		},
	}
	flags.flags(command)
	return command
}

// remove removes what is chosen.
func (r *removal) remove(
	command *cobra.Command, streams Streams, operator *adapter.Operator, ids []string, work func(*lifecycle.Stored) result,
) error {
	items, err := r.items(command, streams, operator, ids)
	if err != nil {
		return err
	}
	run := batch{streams: streams, asJSON: r.asJSON}
	return run.run(command.Context(), items, work)
}

// rehearse tells what would become of something without --dry-run: success, unless it would only be forgotten, or there is none.
func (r *removal) rehearse(ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored, success string) result {
	if stored.Condition == "" { // its id was given, so that it was not read
		if _, err := operator.Look(ctx, stored.Kind, stored.ID); err != nil {
			return outcome(err, success)
		}
	}
	if r.forget {
		success = forgotten
	}
	return result{Result: chosen, would: success}
}

func forget(ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored, only []lifecycle.Condition) result {
	dropped, err := operator.Forget(ctx, stored.Kind, stored.ID, only...)
	done := outcome(err, forgotten)
	if err == nil {
		done.Left = dropped.Resources
	}
	return done
}

const unlockHelp = `Release the lock of the state of %s %s, which a run that died may have left behind. The adapter does so by itself once
the lock is older than twice the budget; until then this does. The run that holds the lock must be dead, else two change the state
at once: look for an OpenTofu process on the host that the error about the lock names.

With --lock only the lock of this id is released. That nothing is locked is fine. Locks of the backends pg and consul end with the
connection of the run that holds them.

EXIT STATUS
  0 it is not locked, 1 it could not be unlocked, 2 wrong usage, 3 anything else`

// newUnlock is `bindings unlock ID` and `instance unlock ID`.
func newUnlock(streams Streams, kind lifecycle.Kind) *cobra.Command {
	var lock string
	var asJSON bool
	article := "an"
	if kind == lifecycle.Binding {
		article = "a"
	}
	command := &cobra.Command{
		Use:     "unlock ID",
		Short:   fmt.Sprintf("Release the lock that a dead run left on the state of %s %s", article, kind),
		Long:    fmt.Sprintf(unlockHelp, article, kind),
		Example: fmt.Sprintf("  service-adapter %s unlock 3f1c9a52-0d3c-4c57-9a52-8a3a9c1e6f0b", parent(kind)),
		Args:    exactly("ID"),
		RunE: func(command *cobra.Command, args []string) error {
			if command.Flags().Changed("lock") && lock == "" {
				return usageError{errors.New("--lock must be the id of a lock")}
			}
			return withOperator(command, streams, adapter.OperatorOptions{}, func(operator *adapter.Operator) error {
				items := []lifecycle.Stored{{Entry: lifecycle.Entry{Kind: kind, ID: args[0]}}}
				run := batch{streams: streams, asJSON: asJSON}
				return run.run(command.Context(), items, func(stored *lifecycle.Stored) result {
					err := operator.Unlock(command.Context(), kind, stored.ID, lock)
					if err == nil {
						// Only now: a run that died early leaves a lock where nothing is stored yet.
						if _, looked := operator.Look(command.Context(), kind, stored.ID); errors.Is(looked, lifecycle.ErrNotStored) {
							err = looked
						}
					}
					return outcome(err, unlocked)
				})
			})
		},
	}
	command.Flags().StringVar(&lock, "lock", "", "release only the lock of this id")
	jsonFlag(command, &asJSON)
	return command
}
