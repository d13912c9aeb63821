package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/tfjson"
)

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
