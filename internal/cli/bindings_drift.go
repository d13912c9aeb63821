package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/states"
	"service-adapter/internal/tfjson"
)

// driftsAtOnce is the number of drift detections that run at the same time. It is small because each of them occupies a
// processor and the memory of its providers on a machine where the broker may be at work.
const driftsAtOnce = 4

// newDrift returns the command `bindings drift` or `instance drift`, depending on kind. It compares the real resources
// of the selected bindings or service instances with their states, without changing either. An item whose last
// creation, change or deletion is not complete is not compared, and its result is that condition.
func newDrift(streams Streams, kind lifecycle.Kind) *cobra.Command {
	selected := &selection{kind: kind}
	command := &cobra.Command{
		Use:   "drift ID… | --all",
		Short: fmt.Sprintf("Show which resources of %s were changed outside of OpenTofu", plural(kind)),
		Long: fmt.Sprintf(`Show which resources of %s were changed or deleted outside of OpenTofu. The providers read
each resource, with the template and the inputs that it was created with, and OpenTofu compares it with the state. The
command changes neither resources nor states. It shows the names of resources, attributes and outputs, but no values.

Each comparison takes one run of OpenTofu with its providers and holds the lock of the state; %d run at the same time.
If a creation, change or deletion is not complete, only that condition is reported.`, plural(kind), driftsAtOnce) +
			exitStatus("0 no resource differs from its state", "1 a resource differs from its state",
				"3 something could not be compared, or any other error"),
		Example: fmt.Sprintf("  service-adapter %s drift --all --service redis", parentCommand(kind)),
	}
	selected.flags(command)
	run := batch{streams: streams, selectItems: selected.selectItems, activity: "comparing", parallel: driftsAtOnce}
	run.work = func(ctx context.Context, operator *states.Operator, stored *lifecycle.Stored) result {
		changes, condition, err := operator.Drift(ctx, stored.Kind, stored.ID)
		if err == nil && condition != lifecycle.Complete {
			return result{Result: string(condition)}
		}
		return resultOfChanges(changes, err, resultDrifted)
	}
	return run.attach(command)
}

// resultOfChanges returns the result of a comparison that returned changes and err. The result is success, with the
// changes, if there are any, "current" if there are none, and otherwise, if err is not nil, the result of resultOf.
// Kind and ID of the result are not set.
func resultOfChanges(changes []tfjson.Change, err error, success string) result {
	done := resultOf(err, success)
	if done.Changes = changes; err == nil && len(changes) == 0 {
		done.Result = resultCurrent
	}
	return done
}
