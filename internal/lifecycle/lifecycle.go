// Package lifecycle keeps what OpenTofu made for a binding or an instance: the record that finds it again whatever pak is installed
// by then, the OpenTofu and the providers to work on it with, its rollback, destruction and upgrade, and the list of all there is.
//
// One binding or instance is one workspace of the state backend. What goes into it is the matter of the packages binding and
// internal/provision.
package lifecycle

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/tofu"
)

// Manager works on workspaces. It holds no state between calls.
type Manager struct {
	// Engine runs OpenTofu.
	Engine *tofu.Engine
	// Installation finds one OpenTofu of a pak, "" for the default one, and the pak's providers as executable files.
	Installation func(ctx context.Context, pak *brokerpak.Pak, version string) (opentofu.Installation, error)
	// Paks are all paks of the adapter; an older pak may hold the provider of an older binding.
	Paks []*brokerpak.Pak
	// Budget is how long one command may take, rollback included.
	Budget time.Duration
	// InstanceLimit is how long work on an instance may take that no request waits for; 0 means the budget.
	InstanceLimit time.Duration
	Logger        *slog.Logger
	// Audit does a change of a binding or an instance that an operator asked for, and writes down that it began and how it ended. found
	// is told what is stored of it. nil: nothing is written down.
	Audit func(ctx context.Context, about Entry, change func(found func(Entry)) error) error
}

// rollbackShare is the part of the budget, as a divisor, that is kept for undoing a failed creation.
const rollbackShare = 3

// Grace is how long an interrupted OpenTofu may take to save its state, for a budget: it comes after the time for the work and
// once more after that for the rollback, so that even the worst case of 45 seconds stays below the platform's 60. Work on instances that
// no request waits for, with a limit other than 0, may be that of an errand, which BOSH kills 10 seconds after it was told to end.
func Grace(budget, instanceLimit time.Duration) time.Duration {
	if instanceLimit > 0 {
		return ErrandGrace
	}
	return budget / 9
}

// ErrandGrace is the grace of an errand.
const ErrandGrace = 8 * time.Second

// StaleLock returns the age from which a lock of this host belongs to nobody any more: more than a command may take, since a run
// whose adapter was killed goes on. Other hosts may have other budgets; of their locks the engine expects a greater age. The lock of an
// instance may be that of an errand, wherever that runs.
func StaleLock(budget, instanceLimit time.Duration) func(workspace string) time.Duration {
	stale := func(longest time.Duration) time.Duration { return 2 * (longest + Grace(longest, 0)) }
	return func(workspace string) time.Duration {
		if kind, _, _ := Named(workspace); kind == Instance {
			return stale(max(budget, instanceLimit))
		}
		return stale(budget)
	}
}

// WithLimit returns a context for work that no request waits for and that may take this long.
func (m *Manager) WithLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, &fault.BudgetError{Budget: limit, Errand: limit != m.Budget})
}

// Limit is how long work that no request waits for may take.
func (m *Manager) Limit(kind Kind) time.Duration {
	if kind == Instance && m.InstanceLimit > 0 {
		return m.InstanceLimit
	}
	return m.Budget
}

// WithBudget returns a context for a command that may take this long. What fails because of it says so.
func WithBudget(ctx context.Context, budget time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, budget, &fault.BudgetError{Budget: budget})
}

// Deadlines divides the budget of a command that creates something: work may go on until the first context ends, and the rollback
// until the second one does.
func (m *Manager) Deadlines(ctx context.Context) (working, all context.Context, cancel context.CancelFunc) {
	began := time.Now()
	work := m.Budget - m.Budget/rollbackShare - Grace(m.Budget, 0)
	all, stopAll := WithBudget(ctx, m.Budget)
	working, stopWork := context.WithDeadlineCause(all, began.Add(work), &fault.BudgetError{Budget: m.Budget, Work: work})
	return working, all, func() { stopWork(); stopAll() }
}

// Kind says what a workspace is for.
type Kind string

// The kinds.
const (
	Binding  Kind = "binding"
	Instance Kind = "instance"
)

// plainID is an id that is part of a workspace's name, unless it is too long; hashedName is the name of a workspace whose id is none. Counts
// are no part of them: patterns with counts take long to read, at the start of every command.
var (
	plainID    = regexp.MustCompile(`^[\w-]+$`)
	hashedName = regexp.MustCompile(`^[bi]h-[0-9a-f]+$`)
)

// Workspace names the workspace of a binding or an instance. An id that is no plain name is represented by its hash; the record
// has the id.
func Workspace(kind Kind, id string) string {
	if len(id) <= 100 && plainID.MatchString(id) {
		return string(kind[:1]) + "-" + id
	}
	return fmt.Sprintf("%sh-%x", kind[:1], sha256.Sum256([]byte(id)))
}

// Named tells whose a workspace is. Where the name is a hash, the id is the name, which workspaceOf understands as well. ok is
// false where the adapter did not name it.
func Named(workspace string) (kind Kind, id string, ok bool) {
	for _, kind := range []Kind{Binding, Instance} {
		if id, plain := strings.CutPrefix(workspace, string(kind[:1])+"-"); plain {
			return kind, id, id != ""
		}
		if workspaceOf(kind, workspace) == workspace {
			return kind, workspace, true
		}
	}
	return "", "", false
}

// workspaceOf names the workspace of an id that an operator gives: a hashed name stands for itself, because it is all that is known
// where the record with the id cannot be read.
func workspaceOf(kind Kind, id string) string {
	if len(id) == len("bh-")+2*sha256.Size && hashedName.MatchString(id) && id[0] == kind[0] {
		return id
	}
	return Workspace(kind, id)
}

// WasKilled tells whether an error is that of an OpenTofu that ended without the chance to save its state, or of one whose provider
// ended without the chance to tell what it had made.
func WasKilled(err error) bool {
	var run *opentofu.Error
	return errors.As(err, &run) && (run.ExitCode < 0 || run.ProviderDied)
}

// Close gives a workspace back. A failure only leaves files for the next run to find.
func (m *Manager) Close(space *tofu.Workspace) {
	if err := space.Close(); err != nil {
		m.Logger.Warn("closing the workspace", "error", err)
	}
}

// Meaning maps a failure of a template to what the `errors` of its action say that it means. Only errors of these commands of OpenTofu,
// which run the template, are looked at, and none of the state backend: the rules are about what providers and commands answer.
func Meaning(err error, rules []brokerpak.ErrorRule, commands ...string) error {
	var run *opentofu.Error
	if !errors.As(err, &run) || !slices.Contains(commands, run.Command) || run.Backend != "" {
		return err
	}
	for _, rule := range rules {
		pattern, compileErr := regexp.Compile(rule.Match)
		if compileErr != nil || !pattern.MatchString(run.Error()) {
			continue
		}
		switch rule.Exit {
		case "41":
			return fmt.Errorf("%w: %w", fault.ErrBindingNotFound, err)
		case "49":
			return fmt.Errorf("%w: %w", fault.ErrBindingExists, err)
		default:
			said := strings.TrimSuffix(run.Summary+": "+run.Detail, ": ")
			return &fault.UserError{Message: cmp.Or(rule.Message, said), Err: err}
		}
	}
	return err
}
