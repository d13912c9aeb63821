package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/states"
	"service-adapter/internal/tfjson"
	"service-adapter/internal/value"
)

// A result is the result of a command for one item, a binding or a service instance, and an element of the JSON that
// the command writes with --json. Fields that do not apply to Result are empty and left out of the JSON. text returns
// the result in words.
type result struct {
	Kind lifecycle.Kind `json:"kind"`
	ID   string         `json:"id"`
	// Result is one of the constants below, or for `drift` the condition of an item that is not complete.
	Result string `json:"result"`
	// From and To are the versions of OpenTofu before and after an upgrade, also one that a dry run only reports or
	// that --limit leaves for a later run. For the result "newer", To is the version of the installed pak.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Pak and InstalledPak are the names and versions of the pak that applied the template last, and of the older pak
	// that is installed. They are set only for the result "newer".
	Pak          string `json:"pak,omitempty"`
	InstalledPak string `json:"installed_pak,omitempty"`
	// Left are the addresses of the resources that still exist after their state was deleted with --forget.
	Left []string `json:"left,omitempty"`
	// Bindings are the ids of the bindings that were deleted before their service instance, or in a dry run would be.
	Bindings []string `json:"bindings,omitempty"`
	// Changes are the differences from the state, or in a dry run the changes that an apply would make.
	Changes []tfjson.Change `json:"changes,omitempty"`
	// Error is the reason for the result "failed".
	Error string `json:"error,omitempty"`
	// wouldBe is the result that the item would have if the command were not a dry run. It is set only if Result is
	// "chosen".
	wouldBe string
}

// The values of result.Result.
const (
	resultAbsent    = "absent"
	resultApplied   = "applied"
	resultChosen    = "chosen"
	resultCurrent   = "current"
	resultDeleted   = "deleted"
	resultDestroyed = "destroyed"
	resultDrifted   = "drifted"
	resultEncrypted = "encrypted"
	resultFailed    = "failed"
	resultForgotten = "forgotten"
	resultImported  = "imported"
	resultNewer     = "newer"
	resultRemaining = "remaining"
	resultUnlocked  = "unlocked"
	resultUpgraded  = "upgraded"
)

// text returns the result as one line of text without a line break at its end. The line begins with the kind and the id
// of the item, and continues with the result in words and with its details: the versions of an upgrade, the reason of a
// failure, the bindings that were deleted first, the changes, or the addresses of the resources that are left.
func (r *result) text() string {
	name := fmt.Sprintf("%s %s: ", r.Kind, r.ID)
	switch r.Result {
	case resultAbsent:
		return name + "nothing to do, there is none"
	case resultCurrent:
		return name + "is up to date"
	case resultUpgraded:
		return name + fmt.Sprintf("upgraded from OpenTofu %s to %s", r.From, r.To)
	case resultNewer:
		return name + fmt.Sprintf("is left alone, because the installed pak %s with OpenTofu %s is older than %s with "+
			"OpenTofu %s, which applied it last", r.InstalledPak, r.To, r.Pak, r.From)
	case resultChosen:
		switch {
		case r.wouldBe == resultUpgraded && r.From == r.To: // its last upgrade failed
			return name + "would be applied again with OpenTofu " + r.To
		case r.wouldBe == resultUpgraded:
			return name + fmt.Sprintf("would be upgraded from OpenTofu %s to %s", r.From, r.To)
		}
	case resultRemaining:
		return name + "remains for a later run, because of --limit"
	case resultUnlocked:
		return name + "is " + r.label()
	case resultForgotten:
		if len(r.Left) == 0 {
			return name + "forgotten, nothing was left"
		}
		return name + "forgotten; these are left: " + strings.Join(r.Left, ", ")
	case resultFailed:
		return name + strings.TrimPrefix(r.Error, fmt.Sprintf("%s %q: ", r.Kind, r.ID))
	}
	details := r.Bindings
	for _, change := range r.Changes {
		text := change.Address + " " + change.Action
		if len(change.Attributes) > 0 {
			text += " (" + strings.Join(change.Attributes, ", ") + ")"
		}
		details = append(details, text)
	}
	switch {
	case len(details) == 0:
		return name + r.label()
	case len(r.Bindings) > 0: // a result with bindings has no changes
		return name + r.label() + ", its bindings first: " + strings.Join(details, ", ")
	default:
		return name + r.label() + ": " + strings.Join(details, ", ")
	}
}

// label returns the words under which the summary counts the result, such as "deleted", or "would be deleted" for a dry
// run. A result without other words is its own label.
func (r *result) label() string {
	switch r.Result {
	case resultChosen:
		return "would be " + r.wouldBe
	case resultNewer:
		return "newer than the installed pak"
	case resultUnlocked:
		return "not locked" // "unlocked" would be wrong for a state that was not locked before
	default:
		return r.Result
	}
}

// resultOf returns the result of work that returned err: success if err is nil, and otherwise "failed" with the error.
// If err wraps lifecycle.ErrNotStored and success is "deleted", "destroyed", "forgotten" or "unlocked", the result is
// "absent", which is not a failure, because the item is as the command has to leave it. Kind and ID of the result are
// not set.
func resultOf(err error, success string) result {
	absenceSucceeds := slices.Contains(
		[]string{resultDeleted, resultDestroyed, resultForgotten, resultUnlocked}, success)
	switch {
	case err == nil:
		return result{Result: success}
	case errors.Is(err, lifecycle.ErrNotStored) && absenceSucceeds:
		return result{Result: resultAbsent}
	default:
		return result{Result: resultFailed, Error: err.Error()}
	}
}

// A batch is a command that works on several bindings or service instances, its items, and reports the result of each.
// streams, selectItems and work must be set, except that run does not use selectItems.
type batch struct {
	streams Streams
	options states.Options
	// selectItems returns the items for the arguments of the command.
	selectItems itemSelector
	// work works on one item and returns its result, in which the batch sets Kind and ID. If selectItems does not read
	// the items, only Kind and ID of stored are set.
	work func(ctx context.Context, operator *states.Operator, stored *lifecycle.Stored) result
	// activity names the work in the progress, such as "upgrading". If it is "", there is no progress and the items are
	// processed one after the other. Otherwise several items are processed at the same time.
	activity string
	// asJSON writes the results as one JSON document instead of lines of text.
	asJSON bool
	// parallel is the number of items that are processed at the same time if there is an activity; 0 means the number
	// of processors. If parallel is not 0, the command announces the number and the cost of its runs, and exits with
	// exitInternal after a failure.
	parallel int
	// omitCurrent leaves out the lines of items that are up to date or remaining. The summary counts them, and JSON
	// contains them.
	omitCurrent bool
}

// An itemSelector returns the bindings or service instances that a command works on. args are the arguments of the
// command. An empty result is not an error. An error ends the command before it works on any item.
type itemSelector func(
	ctx context.Context, streams Streams, operator *states.Operator, args []string,
) ([]lifecycle.Stored, error)

// attach adds the flag --json to a command, sets its RunE to run the batch, and returns the command. RunE opens the
// operator with b.options, selects the items and calls run; it returns the errors of withOperator, of selectItems and
// of run. Text contains the items that are up to date or that remain only if the command has arguments, which name the
// items.
func (b *batch) attach(command *cobra.Command) *cobra.Command {
	jsonFlag(command, &b.asJSON)
	work := func(ctx context.Context, operator *states.Operator, args []string) error {
		items, err := b.selectItems(ctx, b.streams, operator, args)
		if err != nil {
			return err
		}
		b.omitCurrent = len(args) == 0
		return b.run(ctx, operator, items)
	}
	return withOperator(command, b.streams, &b.options, work)
}

// run works on each item and continues after failures. If b.activity is "", the items are processed one after the
// other. When ctx is done, the remaining items fail without being started. run writes the results to standard output:
// each in a line as soon as it is available, with failures on standard error, or with asJSON all in one document at the
// end, in the order of the items. Standard error also gets the number of items and of parallel runs before the first
// item if parallel is set, and a summary at the end.
//
// run returns errFindings if an item failed or has drifted, and another error if a result could not be written or, with
// parallel, if an item failed. Without items it returns nil.
func (b *batch) run(ctx context.Context, operator *states.Operator, items []lifecycle.Stored) error {
	results := make([]result, len(items))
	if b.parallel > 0 && len(items) > 0 {
		say(b.streams, fmt.Sprintf(
			"%s: %d, %d at once; each takes a run of OpenTofu with its providers, which read every resource",
			b.activity, len(items), min(len(items), b.parallel)))
	}
	var writeErr error
	limit := 1
	if b.activity != "" {
		limit = cmp.Or(b.parallel, runtime.NumCPU())
	}
	runParallel(newProgress(b.streams, b.activity), limit, len(items), func(i int) {
		results[i] = result{Result: resultFailed, Error: "interrupted before it began"}
		if ctx.Err() == nil {
			results[i] = b.work(ctx, operator, &items[i])
		}
		results[i].Kind, results[i].ID = items[i].Kind, items[i].ID
	}, func(i int, progress *progress) {
		writeErr = errors.Join(writeErr, b.printResult(&results[i], progress))
	})
	if b.asJSON {
		writeErr = writeJSON(b.streams.Stdout, map[string]any{"format_version": documentFormat, "results": results})
	}
	return cmp.Or(writeErr, b.reportSummary(results))
}

// runParallel calls work for the indexes from 0 to count-1, at most limit of them at the same time, and returns when
// all calls have returned. After each call of work it calls afterEach with the same index and with the progress, and
// reports the progress; these calls do not overlap. At the end the progress is erased from the terminal. afterEach must
// call progress.end before it writes to the terminal. limit must be at least 1.
func runParallel(progress *progress, limit, count int, work func(i int), afterEach func(i int, progress *progress)) {
	var lock sync.Mutex
	var group errgroup.Group
	group.SetLimit(limit)
	done := 0
	for i := range count {
		group.Go(func() error {
			work(i)
			lock.Lock()
			defer lock.Unlock()
			afterEach(i, progress)
			done++
			progress.report(done, count)
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
	progress.end()
}

// printResult writes a result as a line of text to standard output, or to standard error if the item failed. It erases
// the progress before it writes. It writes nothing if the results are written as JSON, or if omitCurrent is set and the
// item is up to date or remains for a later run. It returns the error of writing to standard output; a failed write to
// standard error is ignored.
func (b *batch) printResult(one *result, progress *progress) error {
	switch {
	case b.asJSON, b.omitCurrent && (one.Result == resultCurrent || one.Result == resultRemaining):
	case one.Result == resultFailed:
		progress.end()
		say(b.streams, one.text())
	default:
		progress.end()
		return write(b.streams.Stdout, one.text()+"\n")
	}
	return nil
}

// reportSummary writes the number of items with each result to standard error, or "nothing to do" if there are none. It
// returns errFindings if an item failed or has drifted, and another error if an item failed and parallel is set.
func (b *batch) reportSummary(results []result) error {
	counts := map[string]int{}
	for _, one := range results {
		counts[one.label()]++
	}
	var parts []string
	for _, name := range value.Keys(counts) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	if len(parts) == 0 {
		parts = []string{"nothing to do"}
	}
	say(b.streams, strings.Join(parts, ", "))
	if counts[resultFailed] > 0 && b.parallel > 0 {
		return fmt.Errorf("%d of %d could not be compared", counts[resultFailed], len(results))
	}
	return findingsError(counts[resultFailed]+counts[resultDrifted] > 0)
}
