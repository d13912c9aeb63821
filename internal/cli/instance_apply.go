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

// newApply returns the command `instance apply`, which applies the provision templates of service instances again: with
// their recorded inputs, or with --intent those of the file of the errand apply-instance. With --dry-run it only plans.
func newApply(streams Streams) *cobra.Command {
	selected := &selection{kind: lifecycle.Instance}
	var dryRun bool
	var file string
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

// readIntent reads the desired state of an instance from the file of the job apply-instance. It returns an error if the
// file cannot be read or is invalid, or if the adapter's state backend is local, because BOSH deletes the errand's VM
// together with the states on it.
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
