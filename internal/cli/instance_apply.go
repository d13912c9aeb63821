package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/states"
)

// newApply returns the command `instance apply ID… | --all | --intent FILE`, which applies the provision templates of
// service instances again and prints a line for each instance, or with --json one document. With --all and --dry-run,
// instances without changes have no line.
//
//   - With ids, or with --all and optional filters, it applies the recorded templates with the recorded inputs. An
//     unfinished deletion is reverted; see lifecycle.Manager.ApplyStored.
//   - With --intent, it brings one instance, which may not exist yet, to the state in the file that the job
//     apply-instance renders; see states.Operator.ApplyIntent.
//   - With --dry-run, which --intent excludes, OpenTofu only plans, and the lines contain the changes.
//
// If the template of an instance cannot be applied or planned, for example because the instance does not exist, the
// command continues with the others and then exits with exitFindings. It returns a usageError for an invalid command
// line, and with --all if --service or --plan is unknown. It returns another error if the adapter cannot be opened with
// its configuration, if with --all the states cannot be listed, if with --intent the file cannot be used or the state
// backend is local, or if the output cannot be written.
func newApply(streams Streams) *cobra.Command {
	selected := &selection{kind: lifecycle.Instance}
	dryRun, file := false, ""
	var intent *states.Intent
	command := &cobra.Command{
		Use:   "apply ID… | --all | --intent FILE",
		Short: "Apply the provision template of instances",
		Long: `Apply the provision template of instances again, with the template and the inputs of their last request.
This reverts changes that were made outside of OpenTofu, and completes or reverts an interrupted creation, change or
destruction to what was last requested. With --dry-run OpenTofu only plans: the command reports what would be done to
each resource and changes nothing.

--intent FILE is for the lifecycle errand apply-instance: it brings the resources of one instance to the state that FILE
describes, which the BOSH job of this name renders. It may take as long as errand_limit of the configuration. After a
failure the resources are kept, so that it can be repeated, and the reason is stored with the instance.` +
			exitStatus("0 the templates were applied, or with --dry-run planned",
				"1 the template of an instance could not be applied or planned"),
		Example: "  service-adapter instance apply 3f1c9a52-0d3c-4c57-9a52-8a3a9c1e6f0b",
	}
	selected.flags(command)
	command.Args = func(command *cobra.Command, args []string) error {
		switch {
		case file == "" && command.Flags().Changed("intent"):
			// The name may be that of an unset shell variable. Without this check, --all would apply every instance.
			return errors.New("--intent must name a file")
		case file == "":
			return selected.checkArgs(command, args)
		case selected.all || dryRun || selected.filter.isSet():
			return errors.New("--intent excludes --all, its filters and --dry-run")
		}
		return exactArgs()(command, args)
	}
	command.Flags().StringVar(&file, "intent", "",
		"apply the instance that this file of the job apply-instance describes")
	command.Flags().BoolVar(&dryRun, "dry-run", false, "only report what would be done")
	run := batch{streams: streams}
	run.selectItems = func(
		ctx context.Context, streams Streams, operator *states.Operator, args []string,
	) (_ []lifecycle.Stored, err error) {
		if file == "" {
			return selected.selectItems(ctx, streams, operator, args)
		}
		intent, err = readIntent(operator, file)
		if err != nil {
			return nil, err
		}
		entry := lifecycle.Entry{Identity: lifecycle.Identity{Kind: lifecycle.Instance, ID: intent.InstanceID}}
		return []lifecycle.Stored{{Entry: entry}}, nil
	}
	run.work = func(ctx context.Context, operator *states.Operator, stored *lifecycle.Stored) result {
		if intent != nil {
			return resultOf(operator.ApplyIntent(ctx, intent), resultApplied)
		}
		changes, err := operator.ApplyStored(ctx, stored.Kind, stored.ID, dryRun)
		if !dryRun {
			return resultOf(err, resultApplied)
		}
		done := resultOfChanges(changes, err, resultChosen)
		done.wouldBe = resultApplied
		return done
	}
	return run.attach(command)
}

// readIntent reads the desired state of one service instance, and its secrets, from a file that the BOSH job
// apply-instance renders: a JSON object with the text "intent" and the mapping "secrets", which may be missing. file is
// its path, absolute or relative to the working directory. operator supplies only the type of the state backend.
//
// readIntent returns nil and an error if the file cannot be read or is not such an object, or if the intent is invalid,
// has an unsupported format, or names no instance or service. It also returns nil and an error, before it reads the
// file, if the state backend is local, because BOSH deletes the errand's VM together with the states on it.
func readIntent(operator *states.Operator, file string) (*states.Intent, error) {
	if operator.IsLocal() {
		return nil, errors.New("the state backend is local, so its states are deleted with the errand's VM: " +
			"set state.type, such as pg")
	}
	text, err := os.ReadFile(file) //nolint:gosec // the job names the file
	if err != nil {
		return nil, fmt.Errorf("reading the intent: %w", err)
	}
	return states.ReadIntent(text)
}
