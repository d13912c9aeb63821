package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/director"
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
		switch {
		case flags.dryRun:
			return flags.rehearse(ctx, operator, stored, deleted)
		case flags.forget:
			return forget(ctx, operator, stored, flags.only())
		}
		return outcome(operator.DeleteBinding(ctx, stored.ID, flags.only()...), deleted)
	}
	return run.attach(command)
}

// rehearse tells what would become of something without --dry-run: success, unless it would only be forgotten, or there is none.
func (r *removal) rehearse(ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored, success string) result {
	if stored.Condition == "" { // its id was given, so that it was not read
		if _, err := operator.Read(ctx, stored.Kind, stored.ID); err != nil {
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
	unlisted
	forget, dryRun bool
	// director is a file that says how to reach a Director. With gone those are meant whose deployments it does not have.
	director string
	gone     bool
	// wait is how long the broker may take to deploy what was created.
	wait time.Duration
}

func (r *removal) flags(command *cobra.Command) {
	r.selection.flags(command)
	command.Args = r.check
	r.unlisted.flags(command)
	command.Flags().BoolVar(&r.forget, "forget", false, "let its resources exist and forget them")
	command.Flags().BoolVar(&r.dryRun, "dry-run", false, "only tell what would become of them")
}

func (r *removal) goneFlags(command *cobra.Command) {
	command.Flags().BoolVar(&r.gone, "gone", false, "those whose deployment the Director of --director does not have")
	command.Flags().StringVar(&r.director, "director", "", "a file that says how to reach the Director, with --gone")
	command.Flags().DurationVar(&r.wait, "wait", time.Minute, "with --gone, ask the Director again after this time")
}

// check makes sure that a command line says what to remove, in one way.
func (r *removal) check(command *cobra.Command, ids []string) error {
	careful := r.gone || r.existing != ""
	if careful && len(r.conditions) == 0 {
		// What is in another condition may be about to get a deployment, or to be listed.
		r.conditions = []string{string(lifecycle.Complete), string(lifecycle.Deleting)}
	}
	switch err := r.unlisted.check(command, careful); {
	case err != nil:
		return err
	case !r.gone && r.director != "":
		return errors.New("--director goes with --gone")
	case !r.gone:
		return r.selection.check(command, ids)
	case len(ids) > 0 || r.all || r.existing != "":
		return errors.New("--gone excludes ids, --all and --existing")
	case r.director == "":
		return errors.New("--gone needs --director FILE")
	case r.wait < 0:
		return errors.New("--wait must not be negative")
	}
	return nil
}

// items returns what to remove.
func (r *removal) items(ctx context.Context, streams Streams, operator *adapter.Operator, ids []string) ([]lifecycle.Stored, error) {
	var known inventory
	switch {
	case r.existing != "":
		known = listedIn(r.existing)
	case !r.gone:
		return r.selection.items(ctx, streams, operator, ids)
	default:
		var err error
		if known, err = deployedBy(r.director); err != nil {
			return nil, err
		}
	}
	// First what is stored and then what exists: what is created in between is not known here.
	all, err := listed(ctx, streams, operator, r.kind, &filter{})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	meant, err := r.unknown(ctx, known, all, all)
	meant = r.settled(streams, meant)
	if err != nil || len(meant) == 0 || r.dryRun || !r.gone || r.wait == 0 {
		return meant, err
	}
	say(streams, fmt.Sprintf("asking the Director again in %s, for the broker may be about to deploy what is new", r.wait))
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(r.wait):
	}
	return r.unknown(ctx, known, all, meant)
}

// deployedBy is the inventory of the Director that a file says how to reach.
func deployedBy(file string) (inventory, error) {
	config, err := ReadDirector(file)
	if err != nil {
		return nil, err
	}
	client, err := director.New(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return func(ctx context.Context, stored int) ([]string, string, error) {
		deployments, err := client.Deployments(ctx)
		return deployments, fmt.Sprintf("the Director %s has %d deployments and none of them is that of one of the %d instances: unless it is the wrong "+
			"Director, or a client that may not see them, name the instances or add --allow-all", client.Address(), len(deployments), stored), err
	}, nil
}

// settled returns those that the filter means, and tells of those that are in another condition.
func (r *removal) settled(streams Streams, candidates []lifecycle.Stored) []lifecycle.Stored {
	anyCondition := r.filter
	anyCondition.conditions = nil
	return slices.DeleteFunc(candidates, func(stored lifecycle.Stored) bool {
		switch {
		case !anyCondition.means(&stored):
		case stored.Deployment == "":
			say(streams, fmt.Sprintf("%s %s: left alone, its deployment is not known", stored.Kind, stored.ID))
		case !r.means(&stored):
			say(streams, fmt.Sprintf("%s %s: left alone, it is %s; name its id, or the condition with --condition", stored.Kind, stored.ID, stored.Condition))
		default:
			return false
		}
		return true
	})
}
