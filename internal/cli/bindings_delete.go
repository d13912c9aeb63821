package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/diag"
	"service-adapter/internal/lifecycle"
)

// newDelete is `bindings delete`.
func newDelete(streams Streams) *cobra.Command {
	flags := &selection{kind: lifecycle.Binding}
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
	flags.removalFlags(command)
	run := batch{streams: streams, choose: flags.items}
	run.work = func(ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored) result {
		return flags.remove(ctx, operator, stored, deleted, func() result {
			return outcome(operator.DeleteBinding(ctx, stored.ID, flags.only()...), deleted)
		})
	}
	return run.attach(command)
}

// newDestroy is `instance destroy`.
func newDestroy(streams Streams) *cobra.Command {
	flags := &selection{kind: lifecycle.Instance, ways: "--all or --gone"}
	var force bool
	command := &cobra.Command{
		Use:   "destroy ID… | --all | --gone",
		Short: "Destroy what the provision template made for instances",
		Long: `Destroy what the provision template made for instances, with the inputs that they were made with, protected resources too: the broker has
no call for that. An instance that does not exist is fine. One that has bindings is refused; with --force they are deleted first.
Nothing is asked.

--existing FILE, with --all, means the instances of which the file names neither the id nor the deployment, one a line. --gone asks the
Director that the file of --director describes which deployments exist, and once more after --wait. Only instances that are complete or
deleting are meant, unless --condition says which: so what the broker is creating is left alone. Both are refused where none of the
instances exists; --allow-all does it all the same. docs/operations.md has examples, and what is in the files.

--forget deletes what is stored of an instance and lets what the template made exist, and with --force its bindings; it says what that
is.` + exits("0 none of them is there any more", "1 something could not be destroyed, or with --dry-run would not be"),
		Example: "  service-adapter instance destroy 3f1c9a52-0d3c-4c57-9a52-8a3a9c1e6f0b",
	}
	flags.removalFlags(command)
	command.Flags().BoolVar(&flags.gone, "gone", false, "those whose deployment the Director of --director does not have")
	command.Flags().StringVar(&flags.director, "director", "", "a file that says how to reach the Director, with --gone")
	command.Flags().DurationVar(&flags.wait, "wait", time.Minute, "with --gone, ask the Director again after this time")
	command.Flags().BoolVar(&force, "force", false, "delete its bindings first")
	var bindings map[string][]string
	run := batch{streams: streams}
	run.choose = func(ctx context.Context, streams Streams, operator *adapter.Operator, ids []string) (_ []lifecycle.Stored, err error) {
		if bindings, err = bindingsByInstance(ctx, streams, operator); err != nil {
			return nil, err
		}
		return flags.items(ctx, streams, operator, ids)
	}
	run.work = func(ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored) result {
		return flags.destroy(ctx, operator, stored, bindings[stored.ID], force)
	}
	return run.attach(command)
}

// destroy removes an instance that has these bindings, or tells what would become of it.
func (s *selection) destroy(
	ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored, bindings []string, force bool,
) result {
	if len(bindings) > 0 && !force {
		return outcome(fmt.Errorf("it has bindings: %s; delete them first or add --force", diag.Names(bindings)), destroyed)
	}
	done := s.remove(ctx, operator, stored, destroyed, func() result {
		var deletedFirst []string
		for _, id := range bindings { // while one exists, the instance is needed to delete it
			switch err := operator.DeleteBinding(ctx, id); {
			case err == nil:
				deletedFirst = append(deletedFirst, id)
			case !errors.Is(err, lifecycle.ErrNotStored):
				return result{Result: failed, Bindings: deletedFirst, Error: fmt.Sprintf("its binding %s could not be deleted: %s", id, err)}
			}
		}
		done := outcome(operator.DestroyStored(ctx, stored.Kind, stored.ID, s.only()...), destroyed)
		done.Bindings = deletedFirst
		return done
	})
	if done.would == destroyed {
		done.Bindings = bindings
	}
	return done
}

// bindingsByInstance returns the ids of the bindings of each instance.
func bindingsByInstance(ctx context.Context, streams Streams, operator *adapter.Operator) (map[string][]string, error) {
	all, err := (&selection{kind: lifecycle.Binding, all: true}).items(ctx, streams, operator, nil)
	if err != nil {
		return nil, err
	}
	bindings := map[string][]string{}
	for _, stored := range all {
		if stored.Condition == lifecycle.Unreadable {
			say(streams, fmt.Sprintf("warning: binding %s is unreadable, so it is not known whose it is", stored.ID))
			continue
		}
		bindings[stored.InstanceID] = append(bindings[stored.InstanceID], stored.ID)
	}
	return bindings, nil
}

// remove removes something, or forgets it, or with --dry-run tells what would become of it; success names what remove does.
func (s *selection) remove(ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored, success string, remove func() result) result {
	if !s.forget && !s.dryRun {
		return remove()
	}
	if s.forget {
		success = forgotten
	}
	if !s.dryRun {
		dropped, err := operator.Forget(ctx, stored.Kind, stored.ID, s.only()...)
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
