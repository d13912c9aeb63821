package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/diag"
	"service-adapter/internal/lifecycle"
)

// newInstance is `instance`.
func newInstance(streams Streams) *cobra.Command {
	return storedGroup(streams, lifecycle.Instance, "List, show, destroy, apply, unlock and upgrade what provision templates made",
		"what provision templates made for service instances",
		newApply(streams),
		newDestroy(streams),
		newDrift(streams, lifecycle.Instance),
		newList(streams, lifecycle.Instance),
		newShow(streams, lifecycle.Instance),
		newState(streams, lifecycle.Instance),
		newUnlock(streams, lifecycle.Instance),
		newUpgrade(streams, lifecycle.Instance),
	)
}

// newApply is `instance apply`.
func newApply(streams Streams) *cobra.Command {
	ids := &selection{kind: lifecycle.Instance}
	var file string
	var intent *adapter.Intent
	command := &cobra.Command{
		Use:   "apply ID… | --all | --intent FILE",
		Short: "Apply the provision template of instances",
		Long: `Apply the provision template of instances once more, with the template and the inputs that they were made with: what was changed behind
OpenTofu's back is as it was, and an interrupted creation, change or destruction is taken back to what was last asked for.
With --dry-run OpenTofu only plans that: it tells what would become of which resource, and nothing is changed.

--intent FILE makes the instance that the file of the job apply-instance describes as it shall be. It may take as long as errand_limit
says. What fails is kept, so that a repeat goes on, and the reason is stored with the instance.` +
			exits("0 applied", "1 something could not be applied"),
		Example: "  service-adapter instance apply 3f1c9a52-0d3c-4c57-9a52-8a3a9c1e6f0b",
	}
	ids.flags(command)
	command.Args = func(command *cobra.Command, args []string) error {
		switch {
		case file == "":
			return ids.check(command, args)
		case ids.all || ids.dryRun:
			return errors.New("--intent excludes --all and --dry-run")
		}
		return exactly()(command, args)
	}
	command.Flags().StringVar(&file, "intent", "", "make the instance that this file of the job apply-instance describes")
	command.Flags().BoolVar(&ids.dryRun, "dry-run", false, "only tell what would be done")
	run := batch{streams: streams}
	run.choose = func(ctx context.Context, streams Streams, operator *adapter.Operator, args []string) (_ []lifecycle.Stored, err error) {
		if file == "" {
			return ids.items(ctx, streams, operator, args)
		}
		intent, err = readIntent(operator, file)
		if err != nil {
			return nil, err
		}
		return []lifecycle.Stored{{Entry: lifecycle.Entry{Kind: lifecycle.Instance, ID: intent.InstanceID}}}, nil
	}
	run.work = func(ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored) result {
		if intent != nil {
			return outcome(operator.ApplyIntent(ctx, intent), applied)
		}
		changes, err := operator.ApplyStored(ctx, stored.Kind, stored.ID, ids.dryRun)
		if !ids.dryRun {
			return outcome(err, applied)
		}
		done := different(changes, err, chosen)
		done.would = applied
		return done
	}
	return run.attach(command)
}

// readIntent reads the file of the job apply-instance. What is local is gone with the errand's VM.
func readIntent(operator *adapter.Operator, file string) (*adapter.Intent, error) {
	if operator.IsLocal() {
		return nil, errors.New("the state backend is local, whose states are gone with the errand's VM: set state.type, such as pg")
	}
	text, err := os.ReadFile(file) //nolint:gosec // the job names the file
	if err != nil {
		return nil, fmt.Errorf("reading the intent: %w", err)
	}
	return adapter.ReadIntent(text)
}

// newDestroy is `instance destroy`.
func newDestroy(streams Streams) *cobra.Command {
	flags := &removal{selection: selection{kind: lifecycle.Instance, ways: "--all or --gone"}}
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
	flags.flags(command)
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
func (r *removal) destroy(
	ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored, bindings []string, force bool,
) result {
	if len(bindings) > 0 && !force {
		return outcome(fmt.Errorf("it has bindings: %s; delete them first or add --force", diag.Names(bindings)), destroyed)
	}
	done := r.remove(ctx, operator, stored, destroyed, func() result {
		var deletedFirst []string
		for _, id := range bindings { // while one exists, the instance is needed to delete it
			switch err := operator.DeleteBinding(ctx, id); {
			case err == nil:
				deletedFirst = append(deletedFirst, id)
			case !errors.Is(err, lifecycle.ErrNotStored):
				return result{Result: failed, Bindings: deletedFirst, Error: fmt.Sprintf("its binding %s could not be deleted: %s", id, err)}
			}
		}
		done := outcome(operator.DestroyStored(ctx, stored.Kind, stored.ID, r.only()...), destroyed)
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
