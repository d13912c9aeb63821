package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/tfjson"
)

// newUpgrade is `bindings upgrade` and `instance upgrade`.
func newUpgrade(streams Streams, kind lifecycle.Kind) *cobra.Command {
	chosen := &selection{kind: kind}
	command := &cobra.Command{
		Use:   "upgrade ID… | --all",
		Short: fmt.Sprintf("Upgrade %s to the OpenTofu of the installed pak", plural(kind)),
		Long: fmt.Sprintf(`Upgrade the states of %s to the OpenTofu of the installed pak that made them: the template that they were made with is
applied with each version of the pak's terraform_upgrade_path above that of the state. It goes on after failures, and what is up to date
is left alone, so it can be called again.`, plural(kind)) + exits("0 all are up to date", "1 something could not be upgraded"),
		Example: fmt.Sprintf("  service-adapter %s upgrade --all", parentOf(kind)),
	}
	chosen.flags(command)
	run := batch{streams: streams, choose: chosen.items, doing: "upgrading", work: upgrade}
	return run.attach(command)
}

func upgrade(ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored) result {
	if operator.Current(stored) {
		return result{Result: current, From: stored.Tofu, To: stored.Tofu}
	}
	from, to, err := operator.UpgradeStored(ctx, stored.Kind, stored.ID)
	if err != nil {
		return outcome(err, upgraded)
	}
	if from == to {
		return result{Result: current, From: from, To: to}
	}
	return result{Result: upgraded, From: from, To: to}
}

// newReencrypt is `bindings reencrypt`.
func newReencrypt(streams Streams) *cobra.Command {
	run := batch{streams: streams, choose: encryptable, doing: "encrypting", work: reencrypt}
	command := &cobra.Command{
		Use:   "reencrypt",
		Short: "Encrypt all states with the current key",
		Long: `Encrypt the states of all bindings and instances with the current key, state.encryption.key, where they are not: after a new key was
set and the old one was moved to old_keys. When it ends with 0, the old keys are needed no more. Resources are not touched. It can be
interrupted and called again, and bindings can be made and deleted meanwhile.

With --accept-unencrypted states are encrypted that never were, after a first key was set.` +
			exits("0 all are encrypted with the current key", "1 something could not be encrypted"),
		Example: "  service-adapter bindings reencrypt",
	}
	command.Flags().BoolVar(&run.options.AcceptUnencrypted, "accept-unencrypted", false, "also encrypt states that are not encrypted")
	return run.attach(command)
}

// encryptable are all workspaces, of which none is read.
func encryptable(ctx context.Context, _ Streams, operator *adapter.Operator, _ []string) ([]lifecycle.Stored, error) {
	if !operator.Encrypts() {
		return nil, errors.New("state.encryption is not set: set a key in the configuration, as openssl rand -base64 32 prints one")
	}
	names, err := operator.Workspaces(ctx, "")
	var items []lifecycle.Stored
	for _, name := range names {
		kind, id, _ := lifecycle.Named(name)
		items = append(items, lifecycle.Stored{Entry: lifecycle.Entry{Workspace: name, Kind: kind, ID: id}})
	}
	return items, err
}

func reencrypt(ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored) result {
	changed, err := operator.Reencrypt(ctx, stored.Workspace)
	if err == nil && !changed {
		return result{Result: current}
	}
	return outcome(err, encrypted)
}

// driftsAtOnce is how many runs of OpenTofu make sense beside a broker at work: each takes a processor and its providers' memory.
const driftsAtOnce = 4

// newDrift is `bindings drift` and `instance drift`.
func newDrift(streams Streams, kind lifecycle.Kind) *cobra.Command {
	chosen := &selection{kind: kind}
	command := &cobra.Command{
		Use:   "drift ID… | --all",
		Short: fmt.Sprintf("Tell what was changed behind OpenTofu's back, of %s", plural(kind)),
		Long: fmt.Sprintf(`Tell what somebody changed or deleted behind OpenTofu's back: of %s, each resource is read by its provider, with the
template and the inputs that it was made with, and compared with the state. Nothing is changed, neither outside nor in the state, and no
value is shown, only the names of resources, attributes and outputs.

Each takes one run of OpenTofu with its providers, under the lock of its state, and %d run at once. One that is not complete is only told
of.`, plural(kind), driftsAtOnce) + exits("0 no drift", "1 there is some", "3 something could not be compared, or anything else"),
		Example: fmt.Sprintf("  service-adapter %s drift --all --service redis", parentOf(kind)),
	}
	chosen.flags(command)
	run := batch{streams: streams, choose: chosen.items, doing: "comparing", atOnce: driftsAtOnce}
	run.work = func(ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored) result {
		changes, condition, err := operator.Drift(ctx, stored.Kind, stored.ID)
		if err == nil && condition != lifecycle.Complete {
			return result{Result: string(condition)}
		}
		return different(changes, err, drifted)
	}
	return run.attach(command)
}

// different is the result of work that found changes; success names it when there are some.
func different(changes []tfjson.Change, err error, success string) result {
	done := outcome(err, success)
	if done.Changes = changes; err == nil && len(changes) == 0 {
		done.Result = current
	}
	return done
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
