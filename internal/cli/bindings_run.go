package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"service-adapter/internal/lifecycle"
)

// result is what became of one binding or instance.
type result struct {
	Kind   lifecycle.Kind `json:"kind"`
	ID     string         `json:"id"`
	Result string         `json:"result"`
	// From and To are versions of OpenTofu, of an upgrade.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Left are the addresses of resources that exist and that nothing remembers any more.
	Left []string `json:"left,omitempty"`
	// Bindings are the ids of an instance's bindings that were deleted before it, or would be.
	Bindings []string `json:"bindings,omitempty"`
	Error    string   `json:"error,omitempty"`
	// would is the result that a dry run did not bring about.
	would string
}

// The results.
const (
	absent    = "absent"
	applied   = "applied"
	chosen    = "chosen"
	current   = "current"
	deleted   = "deleted"
	destroyed = "destroyed"
	encrypted = "encrypted"
	failed    = "failed"
	forgotten = "forgotten"
	unlocked  = "unlocked"
	upgraded  = "upgraded"
)

// text is the line for people.
func (r *result) text() string {
	name := fmt.Sprintf("%s %s: ", r.Kind, r.ID)
	switch r.Result {
	case absent:
		return name + "nothing to do, there is none"
	case chosen, destroyed:
		if len(r.Bindings) > 0 {
			return name + r.label() + ", its bindings first: " + strings.Join(r.Bindings, ", ")
		}
		return name + r.label()
	case current:
		return name + "is up to date"
	case upgraded:
		return name + fmt.Sprintf("upgraded from OpenTofu %s to %s", r.From, r.To)
	case unlocked:
		return name + "is " + r.label()
	case forgotten:
		if len(r.Left) == 0 {
			return name + "forgotten, nothing was left"
		}
		return name + "forgotten; these are left: " + strings.Join(r.Left, ", ")
	case failed:
		return name + strings.TrimPrefix(r.Error, fmt.Sprintf("%s %q: ", r.Kind, r.ID))
	default:
		return name + r.Result
	}
}

// label is the result in words, as the summary counts it.
func (r *result) label() string {
	switch r.Result {
	case chosen:
		return "would be " + r.would
	case unlocked:
		return "not locked" // whether it was before is not known
	default:
		return r.Result
	}
}

// batch works on several things and tells what became of each of them.
type batch struct {
	streams  Streams
	asJSON   bool
	parallel int
	// silent is a result that only the summary tells.
	silent string
	// doing, which may be empty, is for the progress.
	doing string
}

// jsonFlag adds --json to a command.
func jsonFlag(command *cobra.Command, asJSON *bool) {
	command.Flags().BoolVar(asJSON, "json", false, "write JSON")
}

// cores is how many runs of OpenTofu make sense at once.
func cores() int { return runtime.NumCPU() }

// run calls work for each item and goes on after failures; none is begun once the context has ended. It reports the results, one a
// line as they come or one JSON document, and a summary. The error is errFindings when something failed.
func (b *batch) run(ctx context.Context, items []lifecycle.Stored, work func(*lifecycle.Stored) result) error {
	results := make([]result, len(items))
	progress := newProgress(b.streams, b.doing)
	var lock sync.Mutex
	var writing error
	done := 0
	inParallel(len(items), b.parallel, func(i int) {
		one := result{Result: failed, Error: "interrupted before it began"}
		if ctx.Err() == nil {
			one = work(&items[i])
		}
		one.Kind, one.ID = items[i].Kind, items[i].ID
		lock.Lock()
		defer lock.Unlock()
		results[i] = one
		done++
		writing = errors.Join(writing, b.tell(&one, progress))
		if b.doing != "" {
			progress.report(done, len(items))
		}
	})
	progress.end()
	if b.asJSON {
		writing = writeJSON(b.streams, map[string]any{"format_version": documentFormat, "results": results})
	}
	if writing != nil {
		return fmt.Errorf("writing the results: %w", writing)
	}
	return b.summarise(results)
}

// tell writes a result for people: failures to standard error.
func (b *batch) tell(one *result, progress *progress) error {
	switch {
	case b.asJSON, one.Result == b.silent:
	case one.Result == failed:
		progress.end()
		say(b.streams, one.text())
	default:
		progress.end()
		_, err := fmt.Fprintln(b.streams.Out, one.text())
		return err
	}
	return nil
}

// summarise counts the results.
func (b *batch) summarise(results []result) error {
	counts := map[string]int{}
	for _, one := range results {
		counts[one.label()]++
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	if len(parts) == 0 {
		parts = []string{"nothing to do"}
	}
	say(b.streams, strings.Join(parts, ", "))
	if counts[failed] > 0 {
		return errFindings
	}
	return nil
}

// inParallel calls work for 0 to count-1, as many at once as there may be.
func inParallel(count, limit int, work func(int)) {
	indices := make(chan int)
	var group sync.WaitGroup
	for range min(max(limit, 1), count) {
		group.Go(func() {
			for i := range indices {
				work(i)
			}
		})
	}
	for i := range count {
		indices <- i
	}
	close(indices)
	group.Wait()
}

// outcome is the result of work that gave this error; success names it when there was none. That there is nothing to work on is
// none either where absence is what was wanted.
func outcome(err error, success string) result {
	switch {
	case err == nil:
		return result{Result: success}
	case errors.Is(err, lifecycle.ErrNotStored) && slices.Contains([]string{deleted, destroyed, forgotten, unlocked}, success):
		return result{Result: absent}
	default:
		return result{Result: failed, Error: err.Error()}
	}
}
