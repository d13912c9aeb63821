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

// A result is the result of a command for one item, which is a binding or a service instance. It is also an element of
// the JSON that the command writes with --json. Kind and ID identify the item, and Result is a word such as "deleted"
// or "failed". Fields that do not apply to Result are empty and left out of the JSON. A result without these three
// fields, such as the zero value, is not complete. The method text returns the result in words.
type result struct {
	Kind lifecycle.Kind `json:"kind"`
	ID   string         `json:"id"`
	// Result is one of the constants below, or for `drift` the condition of an item that is not complete.
	Result string `json:"result"`
	// From and To are the versions of OpenTofu before and after an upgrade, also one that a dry run only reports or
	// that --limit leaves for a later run. For the result "newer", To is the OpenTofu of InstalledPak.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Pak and InstalledPak are the names and versions of the pak that applied the template last, and of the older pak
	// that is installed. They are set only for the result "newer".
	Pak          string `json:"pak,omitempty"`
	InstalledPak string `json:"installed_pak,omitempty"`
	// Left are the addresses of the resources that still exist after their state was deleted with --forget. For the
	// result "failed", they are those that the state contained before; the state may have lost them.
	Left []string `json:"left,omitempty"`
	// Bindings are the ids of the bindings that were deleted before their service instance, or in a dry run would be.
	Bindings []string `json:"bindings,omitempty"`
	// Changes are the differences from the state, or in a dry run the changes that an apply would make.
	Changes []tfjson.Change `json:"changes,omitempty"`
	// Error is the reason for the result "failed".
	Error string `json:"error,omitempty"`
	// wouldBe is the result that the item would have if the command were not a dry run. It is set if Result is
	// "chosen", and for an instance without a state whose bindings would be deleted.
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

// text returns the result as one line of text without a line break at its end, such as "binding b1: upgraded from
// OpenTofu 1.9.0 to 1.10.0". The line begins with the kind and the id of the item, and continues with the result in
// words and with its details: the versions of an upgrade, the bindings that were deleted first, the changes, or the
// addresses of the resources that are left. A failed result has only the reason of the failure and the resources that
// are left, without its bindings and changes.
func (r *result) text() string {
	name := fmt.Sprintf("%s %s: ", r.Kind, r.ID)
	switch r.Result {
	case resultAbsent:
		return name + r.absence()
	case resultCurrent:
		return name + "is up to date"
	case resultUpgraded:
		return name + fmt.Sprintf("upgraded from OpenTofu %s to %s", r.From, r.To)
	case resultNewer:
		return name + fmt.Sprintf("left alone, because the installed pak %s with OpenTofu %s is older than %s with "+
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
			return name + "forgotten; its state contained no resources"
		}
		return name + "forgotten; its resources still exist: " + strings.Join(r.Left, ", ")
	case resultFailed:
		return name + strings.TrimPrefix(r.Error, fmt.Sprintf("%s %q: ", r.Kind, r.ID)) + r.lost()
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

// absence returns the text of the result "absent" behind the kind and the id: that there is nothing to do, or, for an
// instance whose bindings were deleted or would be, their ids.
func (r *result) absence() string {
	switch bindings := strings.Join(r.Bindings, ", "); {
	case bindings == "":
		return "nothing to do, it does not exist"
	case r.wouldBe != "":
		return "has no state; its bindings would be deleted: " + bindings
	default:
		return "has no state; its bindings were deleted: " + bindings
	}
}

// lost returns the text about r.Left that follows the reason of the result "failed", or "" if r.Left is empty.
func (r *result) lost() string {
	if len(r.Left) == 0 {
		return ""
	}
	return "; its resources still exist, and its state may have lost them: " + strings.Join(r.Left, ", ")
}

// label returns the words under which the summary counts the result. Three results have a label of their own:
// "chosen", the result of a dry run, has "would be " and r.wouldBe, such as "would be deleted"; "newer" has "newer
// than the installed pak"; and "unlocked", which is also the result for a state that was not locked before, has "not
// locked". Every other result, such as "deleted", is its own label.
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

// resultOf returns the result of work that returned err. If err is nil, Result is success, such as "deleted". If err
// wraps lifecycle.ErrNotStored and success is "deleted", "destroyed", "forgotten" or "unlocked", Result is "absent",
// which is not a failure, because an item that does not exist is in the state that the command has to achieve.
// Otherwise Result is "failed" and Error is the text of err. All other fields, also Kind and ID, are empty.
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

// A batch is a command that works on several bindings or service instances, its items, and reports the result of each
// item. attach turns it into a cobra command; run executes it for items that are already selected. streams and work
// must be set, and for attach also selectItems. The zero values of the other fields are valid: items are processed one
// after the other, and all results are written as text.
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

// An itemSelector returns the bindings or service instances that a command works on. streams receive the function's
// progress and messages, operator gives access to the state backend, and args are the arguments of the command, such as
// ids. An empty result is not an error. An error ends the command before it works on any item.
type itemSelector func(
	ctx context.Context, streams Streams, operator *states.Operator, args []string,
) ([]lifecycle.Stored, error)

// attach adds the flag --json to a command, sets its RunE to execute the batch, and returns the command. RunE opens the
// operator with b.options, selects the items with b.selectItems, and calls run. If the command has no arguments, RunE
// sets omitCurrent, which leaves out the lines of text for items that are up to date or that remain for a later run;
// arguments name items, so these lines are written then. RunE returns an error if the operator cannot be opened (see
// withOperator), and the errors of selectItems and of run.
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
// other; otherwise b.parallel of them at the same time, or as many as there are processors if b.parallel is 0. When ctx
// is done, the items that were not started fail without being started. operator is passed on to b.work.
//
// run writes each result as a line as soon as it is available: failures to standard error, and all others to standard
// output, except those that b.omitCurrent leaves out. With asJSON, it writes no such line, not even for a failure;
// standard output receives one document at the end, with all results in the order of the items. In both cases,
// standard error also receives the progress, a summary at the end, and, if b.parallel is not 0 and there are items,
// the number of items and of parallel runs at the beginning.
//
// run returns an error if standard output cannot be written. Otherwise it returns an error with the number of failures
// if an item failed and b.parallel is not 0, errFindings if an item failed or has drifted, and nil in all other cases,
// also without items.
func (b *batch) run(ctx context.Context, operator *states.Operator, items []lifecycle.Stored) error {
	results := make([]result, len(items))
	if b.parallel > 0 && len(items) > 0 {
		say(b.streams, fmt.Sprintf(
			"%s: %d, %d at the same time; each runs OpenTofu with its providers, which read every resource",
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

// runParallel calls work for each index from 0 to count-1, at most limit of them at the same time, and returns when all
// calls have returned. limit must be at least 1, and a count of 0 is permitted. After each call of work it calls
// afterEach with the same index and with progress, and then reports one more processed item; these calls do not
// overlap, but other calls of work may be running. afterEach must call progress.end before it writes to the terminal.
// At the end the progress is erased from the terminal. progress must not be nil.
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

// printResult writes a result as a line of text to standard output, or to standard error if the item failed. It first
// erases progress, the progress of the batch, from the terminal. It writes nothing if the results are written as JSON,
// or if omitCurrent is set and the item is up to date or remains for a later run. It returns an error if standard
// output cannot be written; a failed write to standard error is ignored.
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

// reportSummary writes one line with the number of items for each label to standard error, such as "2 deleted, 1
// failed", or "nothing to do" if results is empty. A failed write is ignored. If an item failed and b.parallel is not
// 0, it returns an error with the number of failures. Otherwise it returns errFindings if an item failed or has
// drifted, and nil if none did.
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
