package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/diag"
	"service-adapter/internal/lifecycle"
)

const instanceHelp = `Look at and work on what provision templates made for service instances, with the adapter's configuration: run it where the broker
runs, or set SERVICE_ADAPTER_CONFIG. docs/operations.md says what to do after which fault, and describes the JSON.`

// newInstance is `instance`.
func newInstance(streams Streams) *cobra.Command {
	return storedCommand("instance", "List, show, destroy, apply, unlock and upgrade what provision templates made", instanceHelp,
		newApply(streams),
		newDestroy(streams),
		newList(streams, lifecycle.Instance),
		newShow(streams, lifecycle.Instance),
		newUnlock(streams, lifecycle.Instance),
		newUpgrade(streams, lifecycle.Instance),
	)
}

const applyHelp = `Apply the provision template of instances once more, with the template and the inputs that they were made with: what was changed behind
OpenTofu's back is as it was, and an interrupted creation, change or destruction is taken back to what was last asked for.

EXIT STATUS
  0 applied, 1 something could not be applied, 2 wrong usage, 3 anything else`

// newApply is `instance apply`.
func newApply(streams Streams) *cobra.Command {
	chosen := selection{kind: lifecycle.Instance}
	var asJSON bool
	command := &cobra.Command{
		Use:     "apply ID… | --all",
		Short:   "Apply the provision template of instances once more",
		Long:    applyHelp,
		Example: "  service-adapter instance apply 3f1c9a52-0d3c-4c57-9a52-8a3a9c1e6f0b",
		RunE: func(command *cobra.Command, args []string) error {
			if err := chosen.check(args); err != nil {
				return err
			}
			return withOperator(command, streams, adapter.OperatorOptions{}, func(operator *adapter.Operator) error {
				items, err := chosen.chosen(command, streams, operator, args)
				if err != nil {
					return err
				}
				run := batch{streams: streams, asJSON: asJSON}
				return run.run(command.Context(), items, func(stored *lifecycle.Stored) result {
					return outcome(operator.ApplyInstance(command.Context(), stored.ID), applied)
				})
			})
		},
	}
	chosen.flags(command)
	jsonFlag(command, &asJSON)
	return command
}

const destroyHelp = `Destroy what the provision template made for instances, with the inputs that they were made with, protected resources too: the broker has
no call for that. An instance that does not exist is fine. One that has bindings is refused; with --force they are deleted first.
Nothing is asked.

--existing FILE, with --all, means the instances whose deployment is not named in the file, one name a line:

  bosh deployments --column=name > deployments
  service-adapter instance destroy --all --existing deployments --dry-run

Run it while the broker creates no instance: a new one has a state before it has a deployment.

--gone asks the Director itself. FILE, which only its owner may read, has url, ca_cert, client_id and client_secret, or username and
password for a Director without UAA; the client should be the broker's, which sees all of them:

  service-adapter instance destroy --gone --director FILE --dry-run

Only instances that are complete or deleting are meant, unless --condition says which, and the Director is asked again after --wait:
so what the broker is creating is left alone. It is refused when the Director has a deployment of none of the instances; --allow-all
does it all the same.

--forget deletes what is stored of an instance and lets what the template made exist, and with --force its bindings; it says what that
is.

EXIT STATUS
  0 none of them is there any more, 1 something could not be destroyed, or with --dry-run would not be, 2 wrong usage, 3 anything else`

// newDestroy is `instance destroy`.
func newDestroy(streams Streams) *cobra.Command {
	flags := removal{selection: selection{kind: lifecycle.Instance, orGone: true}}
	var force bool
	command := &cobra.Command{
		Use:     "destroy ID… | --all | --gone",
		Short:   "Destroy what the provision template made for instances",
		Long:    destroyHelp,
		Example: "  service-adapter instance destroy 3f1c9a52-0d3c-4c57-9a52-8a3a9c1e6f0b",
		RunE: func(command *cobra.Command, args []string) error {
			if err := flags.check(args); err != nil {
				return err
			}
			return withOperator(command, streams, adapter.OperatorOptions{}, func(operator *adapter.Operator) error {
				bindings, err := bindingsByInstance(command, streams, operator)
				if err != nil {
					return err
				}
				return flags.remove(command, streams, operator, args, func(stored *lifecycle.Stored) result {
					return flags.destroy(command.Context(), streams, operator, stored, bindings[stored.ID], force)
				})
			})
		},
	}
	flags.flags(command)
	flags.gone.flags(command)
	command.Flags().BoolVar(&force, "force", false, "delete its bindings first")
	command.Flags().StringVar(&flags.existing, "existing", "", "only those whose deployment is not named in this file")
	return command
}

// destroy removes an instance that has these bindings, or tells what would become of it.
func (r *removal) destroy(
	ctx context.Context, streams Streams, operator *adapter.Operator, stored *lifecycle.Stored, bindings []string, force bool,
) result {
	switch {
	case len(bindings) > 0 && !force:
		return outcome(fmt.Errorf("%w: %s; delete them first or add --force", adapter.ErrInUse, diag.Names(bindings)), destroyed)
	case r.dryRun:
		done := r.rehearse(ctx, operator, stored, destroyed)
		if !r.forget && done.Result == chosen {
			done.Bindings = bindings
		}
		return done
	case r.forget:
		return forget(ctx, operator, stored, r.only())
	}
	var went []string
	for _, id := range bindings {
		switch err := operator.DeleteBinding(ctx, id); {
		case err == nil:
			went = append(went, id)
		case !errors.Is(err, lifecycle.ErrNotStored):
			say(streams, fmt.Sprintf("warning: binding %s of instance %s could not be deleted: %s", id, stored.ID, err))
		}
	}
	done := outcome(operator.DestroyInstanceOnly(ctx, stored.ID, r.only()...), destroyed)
	done.Bindings = went
	return done
}

// bindingsByInstance returns the ids of the bindings of each instance.
func bindingsByInstance(command *cobra.Command, streams Streams, operator *adapter.Operator) (map[string][]string, error) {
	all, err := listed(command, streams, operator, lifecycle.Binding, &filter{})
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for _, stored := range all {
		if stored.Condition == lifecycle.Unreadable {
			say(streams, fmt.Sprintf("warning: binding %s is unreadable, so it is not known whose it is", stored.ID))
			continue
		}
		found[stored.InstanceID] = append(found[stored.InstanceID], stored.ID)
	}
	return found, nil
}
