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

// newDrift returns the command `bindings drift` or `instance drift`, depending on kind. The command compares the real
// resources of the selected bindings or service instances with their states. It changes no resource and no state,
// except that it saves a state that an earlier run could not save and may delete an empty workspace. The items are
// selected by ids, which are the arguments, or with --all and filters. An item whose last creation, change or
// deletion is not complete is not compared: its result is that condition, which is not an error. The results are
// written to streams.
//
// The command returns errFindings if a resource differs from its state. It returns another error, even if a resource of
// another item differs, if an item could not be compared, for example because it does not exist. It also returns
// another error if the operator cannot be opened, if the items cannot be selected, or if standard output cannot be
// written.
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

// resultOfChanges returns the result of a comparison or an apply that returned changes and err. If err is nil, Result
// is success, such as "drifted", if there are changes, and "current" if there are none. Otherwise Result is that of
// resultOf, usually "failed" with the text of err. Changes of the result are changes in all cases. Kind and ID of the
// result are not set.
func resultOfChanges(changes []tfjson.Change, err error, success string) result {
	done := resultOf(err, success)
	if done.Changes = changes; err == nil && len(changes) == 0 {
		done.Result = resultCurrent
	}
	return done
}
