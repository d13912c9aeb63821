package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
)

// newDelete is `bindings delete`.
func newDelete(streams Streams) *cobra.Command {
	flags := &removal{selection: selection{kind: lifecycle.Binding}}
	command := &cobra.Command{
		Use:   "delete ID… | --all",
		Short: "Delete bindings as the broker does",
		Long: `Delete bindings as the broker does, with the inputs that they were made with. A binding that does not exist is fine. Nothing is asked.
With --condition, one whose condition is another by the time is refused.

--existing FILE, with --all, means the bindings whose id is not named in the file, one a line, such as those of Cloud Foundry, and of them
only those that are complete or deleting, unless --condition says which. It is refused when the file names none of the bindings that are
stored; --allow-all does it all the same.

--forget deletes what is stored of a binding and lets what it made exist; it says what that is. Use it where OpenTofu can never
destroy it, because a server is gone for good.` + exits("0 none of them is there any more", "1 something could not be deleted"),
		Example: "  service-adapter bindings delete --all --condition creating,deleting",
	}
	flags.flags(command)
	run := batch{streams: streams, choose: flags.items}
	run.work = func(ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored) result {
		return flags.remove(ctx, operator, stored, deleted, func() result {
			return outcome(operator.DeleteBinding(ctx, stored.ID, flags.only()...), deleted)
		})
	}
	return run.attach(command)
}

// remove removes something, or forgets it, or with --dry-run tells what would become of it; success names what remove does.
func (r *removal) remove(ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored, success string, remove func() result) result {
	if !r.forget && !r.dryRun {
		return remove()
	}
	if r.forget {
		success = forgotten
	}
	if !r.dryRun {
		dropped, err := operator.Forget(ctx, stored.Kind, stored.ID, r.only()...)
		done := outcome(err, forgotten)
		if err == nil {
			done.Left = dropped.Resources
		}
		return done
	}
	if stored.Condition == "" { // its id was given, so that it was not read
		if _, err := operator.Read(ctx, stored.Kind, stored.ID); err != nil {
			return outcome(err, success)
		}
	}
	return result{Result: chosen, would: success}
}

// newUnlock is `bindings unlock ID` and `instance unlock ID`.
func newUnlock(streams Streams, kind lifecycle.Kind) *cobra.Command {
	var lock string
	command := &cobra.Command{
		Use:   "unlock ID",
		Short: "Release the lock that a dead run left on the state of " + withArticle(kind),
		Long: fmt.Sprintf(`Release the lock of the state of %s, which a run that died may have left behind. The adapter does so by itself once
the lock is older than twice the budget; until then this does. The run that holds the lock must be dead, else two change the state
at once: look for an OpenTofu process on the host that the error about the lock names.

With --lock only the lock of this id is released. That nothing is locked is fine. Locks of the backends pg and consul end with the
connection of the run that holds them.`, withArticle(kind)) + exits("0 it is not locked", "1 it could not be unlocked"),
		Example: fmt.Sprintf("  service-adapter %s unlock 3f1c9a52-0d3c-4c57-9a52-8a3a9c1e6f0b", parentOf(kind)),
		PreRunE: func(command *cobra.Command, _ []string) error {
			if command.Flags().Changed("lock") && lock == "" {
				return usageError{errors.New("--lock must be the id of a lock")}
			}
			return nil
		},
	}
	command.Flags().StringVar(&lock, "lock", "", "release only the lock of this id")
	run := batch{streams: streams, choose: (&selection{kind: kind}).items}
	run.work = func(ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored) result {
		err := operator.Unlock(ctx, kind, stored.ID, lock)
		if err == nil {
			// Only now: a run that died early leaves a lock where nothing is stored yet.
			if _, missing := operator.Read(ctx, kind, stored.ID); errors.Is(missing, lifecycle.ErrNotStored) {
				err = missing
			}
		}
		return outcome(err, unlocked)
	}
	return run.attach(command)
}

// removal are the flags of commands that remove things.
type removal struct {
	selection
	forget bool
}

func (r *removal) flags(command *cobra.Command) {
	r.selection.flags(command)
	r.existingFlags(command)
	command.Flags().BoolVar(&r.forget, "forget", false, "let its resources exist and forget them")
	command.Flags().BoolVar(&r.dryRun, "dry-run", false, "only tell what would become of them")
}
