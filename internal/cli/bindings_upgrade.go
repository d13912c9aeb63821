package cli

import (
	"context"
	"errors"
	"fmt"

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
	done, err := operator.UpgradeStored(ctx, stored.Kind, stored.ID)
	if err != nil {
		return outcome(err, upgraded)
	}
	if done.From == done.To {
		return result{Result: current, From: done.From, To: done.To}
	}
	return result{Result: upgraded, From: done.From, To: done.To}
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
