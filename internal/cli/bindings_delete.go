package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"service-adapter/internal/diag"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/states"
	"service-adapter/internal/value"
)

// newDelete returns the command `bindings delete`, which deletes the selected bindings together with their resources,
// without asking for confirmation. The bindings are selected by ids, which are the arguments, or with --all, which
// can be restricted by filters, such as --existing to those that the platform no longer has. A binding that does not
// exist is not an error. The inputs are the recorded ones; ephemeral inputs, which are not recorded, are read from
// the files of --input or evaluated again. With --director, all inputs that depend on the running instance are
// evaluated again. With --forget only the states are deleted, and the resources stay. With --dry-run the command only
// reports what it would delete.
//
// The command returns errFindings if a binding could not be deleted. It returns another error before the first deletion
// if the operator cannot be opened, the bindings cannot be selected (see selection.selectItems) or a file of a flag
// cannot be used. The results are written to streams; a failed write to standard output is an error.
func newDelete(streams Streams) *cobra.Command {
	flags := &removal{selection: selection{kind: lifecycle.Binding}}
	command := &cobra.Command{
		Use:   "delete ID… | --all",
		Short: "Delete bindings as the broker does",
		Long: `Delete bindings as the broker does, with the inputs that they were created with. The command does not ask
for confirmation. A binding that does not exist is not an error. With --condition, a binding whose condition has changed
in the meantime is not deleted.

With --director, the inputs that depend on the instance are evaluated again, as the broker's unbind does: use it if the
instance's administrator or addresses have changed. The Director supplies the deployed manifest, the VMs and the DNS
addresses, and the file of --secrets the values of the references in the manifest. A binding is left unchanged if an
input cannot be evaluated, for example because a reference has no value.
docs/operations/delete-after-a-password-change.md describes the files.

--input NAME=FILE supplies the value of an input that is an ephemeral variable of the template, as the content of FILE
without a line break at its end. Such values are not stored. They are evaluated again, and the flag is only necessary if
that is impossible and a provider block reads the variable; the error names it then. The flag can be repeated.

--all --existing FILE deletes the bindings that no longer exist in Cloud Foundry. FILE lists the ids of those that
exist, one per line. Of the others, those that are complete or deleting are deleted; --condition selects other
conditions. If FILE contains none of the stored bindings, the command fails, unless --allow-all is set. A binding that
was created later than one hour before FILE was modified is left alone. So is one of unknown age, which an older
release created: delete it by its id. If FILE was copied, set the time at which the list was made with --asked-at TIME,
which is required for a pipe.

--forget deletes the state of a binding and leaves its resources in place; it prints their addresses. Use it if
OpenTofu can never destroy them, because a server no longer exists.` +
			exitStatus("0 the bindings were deleted or did not exist", "1 a binding could not be deleted"),
		Example: "  service-adapter bindings delete --all --condition creating,deleting",
	}
	flags.addFlags(command)
	command.Flags().StringVar(&flags.platform.directorFile, "director", "",
		"a file with the address and credentials of the Director, to evaluate inputs for the running instance")
	flags.addSecretsFlag(command)
	run := batch{streams: streams}
	var running *states.Running
	run.selectItems = func(
		ctx context.Context, streams Streams, operator *states.Operator, ids []string,
	) (_ []lifecycle.Stored, err error) {
		if running, err = flags.runningInstances(ctx); err != nil {
			return nil, err
		}
		return flags.selectItems(ctx, streams, operator, ids)
	}
	run.work = func(ctx context.Context, operator *states.Operator, stored *lifecycle.Stored) result {
		return flags.remove(ctx, operator, stored, resultDeleted, func() result {
			err := operator.DeleteBinding(ctx, stored.ID, running, flags.supplied, flags.filter.allowedConditions()...)
			return resultOf(err, resultDeleted)
		})
	}
	return run.attach(command)
}

// newDestroy returns the command `instance destroy`, which destroys the resources that provision templates created
// for the selected service instances, without asking for confirmation. The instances are selected by ids, which are
// the arguments, with --all and filters, or with --gone. An instance with bindings fails unless --force is set, which
// deletes these first. A binding that is unreadable causes only a warning, because its instance is unknown. An
// instance that does not exist is not an error, but standard error has a message about it. With --forget only the
// states of the instances are deleted, and their resources stay; --force then permits that an instance has bindings
// and deletes none of them. With --dry-run the command only reports what it would do.
//
// The command returns errFindings if an instance failed. It returns another error before the first change if the
// operator cannot be opened, if the instances cannot be selected (see selection.selectItems), if the bindings cannot be
// read, or if a file of a flag cannot be used. The results are written to streams; a failed write to standard output is
// an error.
func newDestroy(streams Streams) *cobra.Command {
	flags := &removal{selection: selection{kind: lifecycle.Instance, selectors: "--all or --gone"}}
	var force bool
	command := &cobra.Command{
		Use:   "destroy ID… | --all | --gone",
		Short: "Destroy the resources that provision templates created for instances",
		Long: `Destroy the resources that the provision template created for instances, including protected ones, with
the inputs that they were created with. The broker has no request for that. The command does not ask for confirmation.
An instance that the state backend does not contain is not an error; a message on standard error says so. An instance
with bindings is an error, unless --force is set, which deletes the bindings first.

--all --existing FILE destroys the instances that no longer exist. FILE lists the ids or deployments of those that
exist, one per line. --gone asks the Director, which the file of --director describes, for its deployments and running
tasks, and asks it again after --wait. Both destroy only instances that are complete or deleting, so that an instance
which the broker is creating is left alone; --condition selects other conditions. If none of the stored instances
exists, the command fails, unless --allow-all is set. docs/operations/a-deployment-was-deleted.md describes the files.

An instance is left alone if it was created later than one hour before FILE was modified or the Director was asked, if
its age is unknown, or if its deployment has a running task. With --force, an instance with a binding that is too
recent is an error. If FILE was copied, set the time at which the list was made with --asked-at TIME, which is required
for a pipe.

Otherwise --director is for an instance that still runs: with --force, the inputs of its bindings are evaluated again,
as "bindings delete" does, and the secret inputs of the errand apply-instance are read from the deployed manifest, with
the values of references in the file of --secrets. A binding or instance whose inputs cannot be evaluated is not changed
and is an error. --input NAME=FILE supplies an ephemeral variable of the instance's template, as for "bindings delete".

--forget deletes the state of an instance and leaves its resources in place; it prints their addresses. With --force it
also forgets an instance that has bindings, and leaves the bindings as they are.` +
			exitStatus("0 the resources of the instances were destroyed or did not exist",
				"1 an instance could not be destroyed, or with --dry-run would not be"),
		Example: "  service-adapter instance destroy 3f1c9a52-0d3c-4c57-9a52-8a3a9c1e6f0b",
	}
	flags.addFlags(command)
	flags.addGoneFlags(command)
	command.Flags().BoolVar(&force, "force", false, "delete the bindings of an instance first")
	var bindings map[string][]lifecycle.Entry
	var running *states.Running
	run := batch{streams: streams}
	run.selectItems = func(
		ctx context.Context, streams Streams, operator *states.Operator, ids []string,
	) (_ []lifecycle.Stored, err error) {
		if running, err = flags.runningInstances(ctx); err != nil {
			return nil, err
		}
		if bindings, err = bindingsByInstance(ctx, streams, operator); err != nil {
			return nil, err
		}
		return flags.selectItems(ctx, streams, operator, ids)
	}
	run.work = func(ctx context.Context, operator *states.Operator, stored *lifecycle.Stored) result {
		done := flags.destroy(ctx, operator, stored, running, bindings[stored.ID], force)
		if done.Result == resultAbsent {
			say(streams, fmt.Sprintf("instance %s: the state backend has no state of it; "+
				"if a provision template created resources for it, they may still exist: "+
				"then restore the state from a backup and repeat this", stored.ID))
		}
		return done
	}
	return run.attach(command)
}

// addGoneFlags adds four flags to a command: --gone, which selects the instances whose deployment does not exist at the
// Director; --wait, the time after which --gone asks the Director again, one minute by default; --director, a file with
// the address and credentials of the Director, for --gone or for an instance that still runs; and --secrets, a file
// with credentials of running instances. Their values are stored in r.
func (r *removal) addGoneFlags(command *cobra.Command) {
	command.Flags().BoolVar(&r.platform.gone, "gone", false,
		"those whose deployment does not exist at the Director of --director")
	command.Flags().StringVar(&r.platform.directorFile, "director", "",
		"a file with the address and credentials of the Director, for --gone or for an instance that still runs")
	r.addSecretsFlag(command)
	command.Flags().DurationVar(&r.platform.wait, "wait", time.Minute,
		"with --gone, ask the Director again after this time")
}

// destroy destroys the resources of an instance and returns the result, whose Kind and ID are not set. The result is
// "destroyed" after a success, and "absent", which is not a failure, if the state backend has no state of the instance.
// Otherwise it is "failed" with the reason in Error, for example if OpenTofu fails or if --condition excludes the
// condition of the instance; see states.Operator.DestroyInstance for the errors.
//
// bindings are those of the instance. If there are any and force is not set, the result is "failed", also with --forget
// or --dry-run, and nothing is changed. The same applies, even with force, if --existing or --gone selected the
// instance and one of the bindings is too recent or of unknown age, because the platform that does not list the
// instance may not list such a binding yet.
//
// With force, the bindings are deleted before the instance is destroyed, and before its condition is checked again. A
// binding that no longer exists is skipped. If a binding cannot be deleted, the result is "failed", and neither the
// remaining bindings nor the instance are deleted. Bindings of the result are the ids of the bindings that were
// deleted, also after a failure or if the instance has no state, or, in a dry run without --forget, of those that would
// be.
//
// With --forget, only the state of the instance is deleted, and its bindings stay. With --dry-run, nothing is destroyed
// or deleted. See remove for the results with these two flags. stored is the instance, of which only Kind and ID are
// necessary. running supplies current inputs for the deletions; nil means the recorded inputs. The values of --input
// are used for the instance and not for its bindings.
func (r *removal) destroy(
	ctx context.Context, operator *states.Operator, stored *lifecycle.Stored, running *states.Running,
	bindings []lifecycle.Entry, force bool,
) result {
	ids := value.Convert(bindings, func(binding lifecycle.Entry) string { return binding.ID })
	if len(bindings) > 0 && !force {
		err := fmt.Errorf("it has bindings: %s; delete them first or add --force", diag.Names(ids))
		return resultOf(err, resultDestroyed)
	}
	for i := range bindings {
		if reason := r.platform.tooRecent(&bindings[i]); reason != "" {
			return resultOf(fmt.Errorf("its binding %s must be deleted first: %s", ids[i], reason), resultDestroyed)
		}
	}
	done := r.remove(ctx, operator, stored, resultDestroyed, func() result {
		var deletedFirst []string
		for _, id := range ids { // deleting a binding may need the instance, so a failure keeps the instance
			switch err := operator.DeleteBinding(ctx, id, running, nil); {
			case err == nil:
				deletedFirst = append(deletedFirst, id)
			case !errors.Is(err, lifecycle.ErrNotStored):
				message := fmt.Sprintf("its binding %s could not be deleted: %s", id, err)
				return result{Result: resultFailed, Bindings: deletedFirst, Error: message}
			}
		}
		err := operator.DestroyInstance(ctx, stored.ID, running, r.supplied, r.filter.allowedConditions()...)
		done := resultOf(err, resultDestroyed)
		done.Bindings = deletedFirst
		return done
	})
	if r.dryRun && done.Result == resultAbsent && !r.forget && len(ids) > 0 {
		done.wouldBe = resultDestroyed
	}
	if done.wouldBe == resultDestroyed {
		done.Bindings = ids
	}
	return done
}

// bindingsByInstance reads all stored bindings and returns them by the id of their service instance. An instance
// without bindings is not a key of the map, which is never nil without an error. A binding whose state or record cannot
// be read is left out, with a warning on standard error, because its instance is unknown. Standard error also receives
// the progress, and a warning if the state backend is empty. Reading may delete empty workspaces; see
// lifecycle.Manager.List. bindingsByInstance returns an error if the state backend cannot be read, if no pak has a
// usable OpenTofu, or if ctx ends.
func bindingsByInstance(
	ctx context.Context, streams Streams, operator *states.Operator,
) (map[string][]lifecycle.Entry, error) {
	all, err := (&selection{kind: lifecycle.Binding, all: true}).selectItems(ctx, streams, operator, nil)
	if err != nil {
		return nil, err
	}
	bindings := map[string][]lifecycle.Entry{}
	for _, stored := range all {
		if stored.Condition == lifecycle.Unreadable {
			say(streams,
				fmt.Sprintf("warning: binding %s is unreadable, so its service instance is unknown", stored.ID))
			continue
		}
		bindings[stored.InstanceID] = append(bindings[stored.InstanceID], stored.Entry)
	}
	return bindings, nil
}

// A removal holds the flags of a command that removes bindings or service instances: those that select the items, and
// those that change how they are removed, such as --forget and --dry-run. kind must be set. Without any flag, the
// command removes the items that its arguments name by their ids, together with their resources and with the recorded
// inputs.
type removal struct {
	selection
	// dryRun reports what would be removed and changes nothing.
	dryRun bool
	// forget deletes the state of an item and leaves its resources in place.
	forget bool
	// secretsFile is the file of --secrets. Without --gone, it and platform.directorFile supply the data about running
	// instances from which the inputs of a deletion are evaluated again; "" means that there are no secrets.
	secretsFile string
	// inputs are the values of --input, each NAME=FILE. supplied are the contents of the files by name, which
	// selectItems reads.
	inputs   []string
	supplied map[string]string
}

// addFlags adds --all with the flags of its filters, --existing, --allow-all, --asked-at, --input, --forget and
// --dry-run to a command, and sets the command's Args to checkArgs and its PreRunE to the check of the filters. It adds
// neither --gone and --wait, which only instances have, nor --director and --secrets.
func (r *removal) addFlags(command *cobra.Command) {
	r.flags(command)
	command.Args = r.checkArgs
	r.platform.addFlags(command)
	command.Flags().StringVar(&r.platform.askedAtFlag, "asked-at", "",
		"when the list of --existing was made, such as 2026-11-05T10:00:00Z (default: when the file was modified)")
	r.addInputFlag(command)
	command.Flags().BoolVar(&r.forget, "forget", false, "delete the state and leave the resources in place")
	command.Flags().BoolVar(&r.dryRun, "dry-run", false, "only report what would be done")
}

// checkArgs is the check of a command's arguments, which are ids. It returns an error if --secrets is set without
// --director or together with --gone, if --forget is set together with --input or, unless --gone is set, with
// --director, or if a value of --input is not NAME=FILE or repeats a name.
//
// Otherwise it returns the result of selection.checkArgs: an error if the flags of the platform filter are invalid or
// contradict each other, for example because the time of --asked-at is in the future, or if the command line does not
// select items in exactly one way. That method changes r: it parses the time of --asked-at and, with --existing or
// --gone, sets r.platform.removes and restricts the conditions. The errors are plain errors, which setArgumentChecks
// turns into usageErrors.
func (r *removal) checkArgs(command *cobra.Command, ids []string) error {
	switch {
	case r.secretsFile != "" && (r.platform.directorFile == "" || r.platform.gone):
		return errors.New("--secrets requires --director and excludes --gone")
	case r.platform.directorFile != "" && r.forget && !r.platform.gone:
		return errors.New("--director and --forget exclude each other")
	case len(r.inputs) > 0 && r.forget:
		return errors.New("--input and --forget exclude each other")
	}
	if err := r.checkInputs(); err != nil {
		return err
	}
	return r.selection.checkArgs(command, ids)
}

// selectItems returns the items to remove, and implements itemSelector. ids are the arguments of the command. It sets
// r.supplied to the contents of the files of --input and, with --dry-run, the time of --wait to 0, so that the
// Director is asked only once. Items that are named by ids are not read: only their Kind and ID are set. With --all
// or --gone the result is the stored items that pass the filters, which may be none, and reading may delete empty
// workspaces. See selection.selectItems for the order of the items, for further side effects and for the errors.
// selectItems also returns an error if a file of --input cannot be used; see readInputs.
func (r *removal) selectItems(
	ctx context.Context, streams Streams, operator *states.Operator, ids []string,
) ([]lifecycle.Stored, error) {
	if r.dryRun {
		r.platform.wait = 0
	}
	var err error
	if r.supplied, err = r.readInputs(ctx); err != nil {
		return nil, err
	}
	return r.selection.selectItems(ctx, streams, operator, ids)
}

// remove removes an item as the flags require, and returns the result, whose Kind and ID are not set. stored is the
// item, of which only Kind and ID are set if it was named by its id.
//
// Without --forget and --dry-run, it calls the function remove and returns its result. success is the result of that
// function if it succeeds, such as "deleted"; it is used only for a dry run.
//
// With --forget it does not call the function remove. It deletes only the state of the item, if its condition is one of
// r.filter.conditions or if that list is empty. The list contains the conditions of --condition; without this flag it
// is empty, or "complete" and "deleting" with --existing or --gone. The result is "forgotten", with the addresses of
// the resources that are left, "absent" if there is no state, and otherwise "failed".
//
// With --dry-run, also together with --forget, it removes nothing. The result is "chosen", and its wouldBe is success,
// or "forgotten" with --forget. The condition is not checked again. An item that was named by its id is looked up
// first, which may delete an empty workspace (see lifecycle.Manager.Lookup): the result is "absent" if it does not
// exist, and "failed" if its state is locked or the state backend cannot be read. An item whose state or record is
// unreadable is "chosen".
func (r *removal) remove(
	ctx context.Context, operator *states.Operator, stored *lifecycle.Stored, success string, remove func() result,
) result {
	if !r.forget && !r.dryRun {
		return remove()
	}
	if r.forget {
		success = resultForgotten
	}
	if !r.dryRun {
		dropped, err := operator.Forget(ctx, stored.Kind, stored.ID, r.filter.allowedConditions()...)
		done := resultOf(err, resultForgotten)
		if dropped != nil { // after an error, the state may have lost the resources
			done.Left = dropped.Resources
		}
		return done
	}
	if stored.Condition == "" { // selectItems does not read an item that is named by its id
		if _, err := operator.Lookup(ctx, stored.Kind, stored.ID); err != nil {
			return resultOf(err, success)
		}
	}
	return result{Result: resultChosen, wouldBe: success}
}
