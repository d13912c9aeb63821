package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/states"
)

// newUnlock returns the command `bindings unlock ID` or `instance unlock ID`, depending on kind. It releases the lock
// that a killed run left on the state of one binding or service instance, or with --lock only the lock with that id.
// It first waits for a run of this machine, at most for the budget in the configuration, but does not check whether a
// lock holder on another machine is dead. Without --lock, if the state is not locked, it also saves a state that an
// earlier run could not save. It may delete an empty workspace. It writes the result to streams: "unlocked", as text
// "is not locked", also if the state was not locked before; "absent" if there is no state; or "failed".
//
// Without --lock, a state that does not exist or is not locked is not an error. With --lock, the command returns
// errFindings if the state is not locked by that lock; only in the local backend, a state that does not exist is not
// an error. The command also returns errFindings if the lock cannot be released, for example because locks of the
// backend end only with their holder, or because a run of this machine does not end in time. It returns a usageError
// if --lock is set to "", and another error if the operator cannot be opened or the result cannot be written.
func newUnlock(streams Streams, kind lifecycle.Kind) *cobra.Command {
	var lock string
	command := &cobra.Command{
		Use:   "unlock ID",
		Short: "Release the lock that a killed run left on the state of " + withArticle(kind),
		Long: fmt.Sprintf(`Release the lock on the state of %s that a killed run of OpenTofu left behind. The adapter
releases such a lock itself. The next command with the same cache directory does so at once; any other command once the
lock is older than about twice the time limit of a command (budget, or errand_limit for an instance), and on another
machine after at least ten minutes. Use this command if you cannot wait. First make sure that the lock holder is not
running: look for an OpenTofu process on the host that the error about the lock names. Otherwise two runs change the
state at the same time.

With --lock only the lock with this id is released. A state that is not locked is not an error. Locks of the backends
pg and consul end with the connection of the lock holder.`, withArticle(kind)) +
			exitStatus("0 the state is not locked", "1 the state could not be unlocked"),
		Example: fmt.Sprintf("  service-adapter %s unlock 3f1c9a52-0d3c-4c57-9a52-8a3a9c1e6f0b", parentCommand(kind)),
		PreRunE: func(command *cobra.Command, _ []string) error {
			if command.Flags().Changed("lock") && lock == "" {
				return usageError{errors.New("--lock must be the id of a lock")}
			}
			return nil
		},
	}
	command.Flags().StringVar(&lock, "lock", "", "release the lock only if it has this id")
	run := batch{streams: streams, selectItems: (&selection{kind: kind}).selectItems}
	run.work = func(ctx context.Context, operator *states.Operator, stored *lifecycle.Stored) result {
		err := operator.Unlock(ctx, kind, stored.ID, lock)
		if err == nil {
			// The state is read after unlocking, because a run that is killed early can leave a lock without a state.
			if _, missing := operator.Lookup(ctx, kind, stored.ID); errors.Is(missing, lifecycle.ErrNotStored) {
				err = missing
			}
		}
		return resultOf(err, resultUnlocked)
	}
	return run.attach(command)
}
