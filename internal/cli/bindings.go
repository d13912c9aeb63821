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

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/tfjson"
	"service-adapter/internal/value"
)

// newBindings is `bindings`.
func newBindings(streams Streams) *cobra.Command {
	return storedGroup(streams, lifecycle.Binding, "List, show, delete, compare, unlock, upgrade, encrypt, export and import bindings",
		"the bindings in the state backend",
		newDelete(streams),
		newDrift(streams, lifecycle.Binding),
		newExport(streams),
		newImport(streams),
		newList(streams, lifecycle.Binding),
		newRecover(streams),
		newReencrypt(streams),
		newShow(streams, lifecycle.Binding),
		newState(streams, lifecycle.Binding),
		newUnlock(streams, lifecycle.Binding),
		newUpgrade(streams, lifecycle.Binding),
	)
}

// newInstance is `instance`.
func newInstance(streams Streams) *cobra.Command {
	return storedGroup(streams, lifecycle.Instance, "List, show, destroy, apply, unlock and upgrade what provision templates made",
		"what provision templates made for service instances",
		newApply(streams),
		newDestroy(streams),
		newDrift(streams, lifecycle.Instance),
		newList(streams, lifecycle.Instance),
		newShow(streams, lifecycle.Instance),
		newState(streams, lifecycle.Instance),
		newUnlock(streams, lifecycle.Instance),
		newUpgrade(streams, lifecycle.Instance),
	)
}

// storedGroup groups commands whose arguments are ids of a kind.
func storedGroup(streams Streams, kind lifecycle.Kind, short, subject string, commands ...*cobra.Command) *cobra.Command {
	for _, command := range commands {
		completeStored(streams, command, kind)
	}
	long := `Look at and work on %s, with the adapter's configuration: run it where the broker runs,
or set SERVICE_ADAPTER_CONFIG. docs/operations.md says what to do after which fault, and describes the JSON.`
	return group(&cobra.Command{Use: parentOf(kind), Short: short, Long: fmt.Sprintf(long, subject)}, commands...)
}

// plural names things of a kind.
func plural(kind lifecycle.Kind) string { return string(kind) + "s" }

// parentOf is the command that the commands for a kind belong to.
func parentOf(kind lifecycle.Kind) string {
	if kind == lifecycle.Binding {
		return "bindings"
	}
	return "instance"
}

// withArticle is a kind with its article.
func withArticle(kind lifecycle.Kind) string {
	if kind == lifecycle.Binding {
		return "a binding"
	}
	return "an instance"
}

// unreadable says that what is stored of something cannot be read.
func unreadable(e *lifecycle.Entry) string {
	return fmt.Sprintf("%s %s is unreadable: %s", e.Kind, e.ID, e.Error)
}

// operatorWork is the work of a command with the adapter's configuration, paks and state backend.
type operatorWork func(ctx context.Context, operator *adapter.Operator, args []string) error

// withOperator gives a command its work.
func withOperator(command *cobra.Command, streams Streams, options *adapter.OperatorOptions, work operatorWork) *cobra.Command {
	command.RunE = func(command *cobra.Command, args []string) error {
		operator, err := adapter.OpenOperator(streams.Invocation, command.CommandPath(), *options)
		if err != nil {
			return err
		}
		defer operator.Close()
		return work(command.Context(), operator, args)
	}
	return command
}

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
	// Changes are what differs from the state, or what an apply would do.
	Changes []tfjson.Change `json:"changes,omitempty"`
	Error   string          `json:"error,omitempty"`
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
	drifted   = "drifted"
	encrypted = "encrypted"
	failed    = "failed"
	forgotten = "forgotten"
	imported  = "imported"
	unlocked  = "unlocked"
	upgraded  = "upgraded"
)

// text is the line for people.
func (r *result) text() string {
	name := fmt.Sprintf("%s %s: ", r.Kind, r.ID)
	switch r.Result {
	case absent:
		return name + "nothing to do, there is none"
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
	case len(r.Bindings) > 0: // which have no changes
		return name + r.label() + ", its bindings first: " + strings.Join(details, ", ")
	default:
		return name + r.label() + ": " + strings.Join(details, ", ")
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

// batch is a command that works on several things and tells what became of each of them.
type batch struct {
	streams Streams
	options adapter.OperatorOptions
	// choose returns what to work on.
	choose func(ctx context.Context, streams Streams, operator *adapter.Operator, args []string) ([]lifecycle.Stored, error)
	work   func(ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored) result
	// doing, for the progress, tells that runs of OpenTofu make sense side by side.
	doing  string
	asJSON bool
	// atOnce is how many run side by side; 0 means as many as there are processors. Else that is said, and a failure is more than a finding.
	atOnce int
	// brief leaves it to the summary to tell what is up to date.
	brief bool
}

// attach gives the command its work. What is up to date is only told of where it was named.
func (b *batch) attach(command *cobra.Command) *cobra.Command {
	jsonFlag(command, &b.asJSON)
	return withOperator(command, b.streams, &b.options, func(ctx context.Context, operator *adapter.Operator, args []string) error {
		items, err := b.choose(ctx, b.streams, operator, args)
		if err != nil {
			return err
		}
		b.brief = len(args) == 0
		return b.run(ctx, operator, items)
	})
}

// run works on each item and goes on after failures; none is begun once the context has ended. It reports the results, one a line as
// they come or one JSON document, and a summary. The error is errFindings when something failed.
func (b *batch) run(ctx context.Context, operator *adapter.Operator, items []lifecycle.Stored) error {
	results := make([]result, len(items))
	if b.atOnce > 0 && len(items) > 0 {
		say(b.streams, fmt.Sprintf("%s: %d, %d at once; each takes a run of OpenTofu with its providers, which read every resource",
			b.doing, len(items), min(len(items), b.atOnce)))
	}
	var writing error
	limit := 1
	if b.doing != "" {
		limit = cmp.Or(b.atOnce, runtime.NumCPU())
	}
	sideBySide(newProgress(b.streams, b.doing), limit, len(items), func(i int) {
		results[i] = result{Result: failed, Error: "interrupted before it began"}
		if ctx.Err() == nil {
			results[i] = b.work(ctx, operator, &items[i])
		}
		results[i].Kind, results[i].ID = items[i].Kind, items[i].ID
	}, func(i int, progress *progress) { writing = errors.Join(writing, b.tell(&results[i], progress)) })
	if b.asJSON {
		writing = writeJSON(b.streams.Stdout, map[string]any{"format_version": documentFormat, "results": results})
	}
	return cmp.Or(writing, b.summarise(results))
}

// sideBySide works on count things, so many of them at once, with their progress. After each of them told gets its index, one at a time.
func sideBySide(progress *progress, limit, count int, work func(i int), told func(i int, progress *progress)) {
	var lock sync.Mutex
	var group errgroup.Group
	group.SetLimit(limit)
	done := 0
	for i := range count {
		group.Go(func() error {
			work(i)
			lock.Lock()
			defer lock.Unlock()
			told(i, progress)
			done++
			progress.report(done, count)
			return nil
		})
	}
	_ = group.Wait() // what failed is a result
	progress.end()
}

// tell writes a result for people: failures to standard error.
func (b *batch) tell(one *result, progress *progress) error {
	switch {
	case b.asJSON, b.brief && one.Result == current:
	case one.Result == failed:
		progress.end()
		say(b.streams, one.text())
	default:
		progress.end()
		return write(b.streams.Stdout, one.text()+"\n")
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
	for _, name := range value.Keys(counts) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	if len(parts) == 0 {
		parts = []string{"nothing to do"}
	}
	say(b.streams, strings.Join(parts, ", "))
	if counts[failed] > 0 && b.atOnce > 0 {
		return fmt.Errorf("%d of %d could not be compared", counts[failed], len(results))
	}
	return findings(counts[failed]+counts[drifted] > 0)
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
