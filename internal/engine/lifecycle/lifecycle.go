// Package lifecycle works on bindings and service instances that are stored in the state backend: it applies,
// upgrades, lists, exports and destroys them.
//
// Each binding and each instance has one workspace of the state backend. Its state contains a StateRecord with the
// template, the inputs and the versions that created it, so that it can be destroyed although another pak is
// installed. A Manager finds the OpenTofu and the providers for a record.
//
// The packages binding and internal/engine/provision resolve the inputs and call this package to run OpenTofu.
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
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/workspace"
	"service-adapter/internal/fault"
	"service-adapter/internal/redact"
)

// A Manager works on the workspaces of bindings and instances. It has no state between calls. Engine, Installation,
// Budget and Logger are required; the zero values of the other fields are meaningful.
type Manager struct {
	// Engine runs OpenTofu.
	Engine *workspace.Engine
	// Installation returns the OpenTofu of this version in a pak, "" for the pak's default version, and the pak's
	// providers as executable files.
	Installation func(ctx context.Context, pak *brokerpak.Pak, version string) (opentofu.Installation, error)
	// Paks are all readable paks of the adapter. An older pak may contain the provider of an older binding. Without
	// paks, no stored state can be read or changed.
	Paks []*brokerpak.Pak
	// Unreadable is the error of the configured paks that cannot be read, and nil if Paks contains all of them. While
	// it is not nil, work that would use another pak instead of an unreadable one fails with this error.
	Unreadable error
	// Budget is the longest time that a command may take, including the rollback. With 0, all work would end at once.
	Budget time.Duration
	// InstanceLimit is the longest time for work on an instance while no broker request waits for it. 0 means Budget.
	InstanceLimit time.Duration
	// AdapterVersion is the version of this adapter, which each record that the manager writes contains.
	AdapterVersion string
	// Logger receives warnings, and the errors that a method does not return.
	Logger *slog.Logger
	// Audit calls change, which is a change of a binding or an instance that an operator requested, and writes to the
	// audit log when it began and how it ended. It returns the error of change. The change calls report with the stored
	// entry, which is more complete than about. If Audit is nil, changes are not logged.
	Audit func(ctx context.Context, about Entry, change func(report func(Entry)) error) error
	// Reevaluate evaluates the ephemeral inputs of a stored record again, without changing the record, and returns
	// their values and the errors of those that have none; see Evaluation. A nil Reevaluate evaluates none.
	Reevaluate func(record *StateRecord) (values map[string]any, failed map[string]error)
	// Secrets receives the values of ephemeral inputs, so that they are masked. It may be nil.
	Secrets *redact.Secrets
}

// rollbackShare is the part of the budget, as a divisor, that is reserved for the rollback of a failed creation. A
// deletion gives the same part of its limit to finishing an interrupted creation.
const rollbackShare = 3

// Grace returns how long an interrupted OpenTofu may take to save its state, before it is killed: ErrandGrace if
// instanceLimit is greater than 0, because the work may then be that of an errand, and a ninth of the budget otherwise.
//
// The grace is needed once after the work and once more after the rollback. With a ninth of the budget, the worst case
// of 45 seconds stays below the broker's limit of 60 seconds.
func Grace(budget, instanceLimit time.Duration) time.Duration {
	if instanceLimit > 0 {
		return ErrandGrace
	}
	return budget / 9
}

// ErrandGrace is the grace of an errand. BOSH kills an errand 10 seconds after it has asked it to end.
const ErrandGrace = 8 * time.Second

// StaleLock returns a function that returns, for a workspace, the age after which a lock taken on this host is stale,
// because the command that took it cannot be running any longer. The age is twice the longest time of a command with
// its grace, because OpenTofu continues to run after its adapter was killed. The lock of an instance may be held by an
// errand, so its age is computed from the larger of budget and instanceLimit. For any other workspace name, the age is
// the same as for a binding.
//
// Other hosts may have other budgets. The engine therefore expects a greater age of their locks.
func StaleLock(budget, instanceLimit time.Duration) func(workspace string) time.Duration {
	stale := func(longest time.Duration) time.Duration { return 2 * (longest + Grace(longest, 0)) }
	return func(workspace string) time.Duration {
		if kind, _, _ := ParseWorkspace(workspace); kind == Instance {
			return stale(max(budget, instanceLimit))
		}
		return stale(budget)
	}
}

// WithLimit returns a context that ends after the limit, for work that no broker request waits for. The cause of its
// end is a *fault.BudgetError, which calls the limit that of an errand if it is not the budget. The caller must call
// the returned function.
func (m *Manager) WithLimit(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, &fault.BudgetError{Budget: limit, Errand: limit != m.Budget})
}

// Limit returns the longest time for work on this kind while no broker request waits for it: InstanceLimit for an
// instance, unless it is 0, and the budget otherwise.
func (m *Manager) Limit(kind Kind) time.Duration {
	if kind == Instance && m.InstanceLimit > 0 {
		return m.InstanceLimit
	}
	return m.Budget
}

// WithBudget returns a context that ends after the budget of a command. The cause of its end is a *fault.BudgetError.
// The caller must call the returned function.
func WithBudget(ctx context.Context, budget time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, budget, &fault.BudgetError{Budget: budget})
}

// Deadlines divides the budget of a command that creates a binding or an instance. The work must use workCtx, which
// leaves a third of the budget and the grace of Grace for a rollback. The rollback must use fullCtx, which ends with
// the budget. The cause of both ends is a *fault.BudgetError. The caller must call cancel.
func (m *Manager) Deadlines(ctx context.Context) (workCtx, fullCtx context.Context, cancel context.CancelFunc) {
	began := time.Now()
	work := m.Budget - m.Budget/rollbackShare - Grace(m.Budget, 0)
	exhausted := &fault.BudgetError{Budget: m.Budget, Work: work}
	fullCtx, stopAll := WithBudget(ctx, m.Budget)
	workCtx, stopWork := context.WithDeadlineCause(fullCtx, began.Add(work), exhausted)
	return workCtx, fullCtx, func() { stopWork(); stopAll() }
}

// A Kind is the kind of service object that a workspace belongs to: Binding or Instance. The methods that list or walk
// workspaces accept "" for both kinds; all others require one of the two.
type Kind string

// The kinds.
const (
	Binding  Kind = "binding"
	Instance Kind = "instance"
)

// The patterns of ids and workspace names. They contain no repetition counts, because compiling a pattern with counts
// is slow and every command compiles these when it starts.
var (
	// plainID matches an id that is part of the name of its workspace, unless it is too long.
	plainID = regexp.MustCompile(`^[\w-]+$`)
	// hashedName matches the name of a workspace whose id is replaced by a hash.
	hashedName = regexp.MustCompile(`^[bi]h-[0-9a-f]+$`)
)

// Workspace returns the name of the workspace of a binding or an instance, "b-" or "i-" and the id. The kind must be
// Binding or Instance. An id that is empty, is longer than 100 bytes, or contains other characters than letters,
// digits, "_" and "-" is replaced by its hash, after "bh-" or "ih-"; the record contains the id itself.
func Workspace(kind Kind, id string) string {
	if len(id) <= 100 && plainID.MatchString(id) {
		return string(kind[:1]) + "-" + id
	}
	return fmt.Sprintf("%sh-%x", kind[:1], sha256.Sum256([]byte(id)))
}

// ParseWorkspace returns the kind and the id of the binding or the instance that a workspace belongs to. If the name
// contains a hash instead of the id, ParseWorkspace returns the name as the id; every method of Manager that takes an
// id accepts it. ok is false if the adapter did not choose the name; kind and id are meaningless then.
func ParseWorkspace(workspace string) (kind Kind, id string, ok bool) {
	for _, kind := range []Kind{Binding, Instance} {
		if id, plain := strings.CutPrefix(workspace, string(kind[:1])+"-"); plain {
			return kind, id, id != ""
		}
		if workspaceByIDOrName(kind, workspace) == workspace {
			return kind, workspace, true
		}
	}
	return "", "", false
}

// workspaceByIDOrName returns the name of the workspace for an id that an operator entered. The name of a workspace of
// this kind that contains a hash is returned unchanged, because operators do not know the id while the record cannot be
// read.
func workspaceByIDOrName(kind Kind, id string) string {
	if len(id) == len("bh-")+2*sha256.Size && hashedName.MatchString(id) && id[0] == kind[0] {
		return id
	}
	return Workspace(kind, id)
}

// WasKilled reports whether an error means that OpenTofu was killed before it could save its state, or that a
// provider ended before it could report which resources it had created. The state may then lack existing resources.
func WasKilled(err error) bool {
	var run *opentofu.Error
	return errors.As(err, &run) && (run.ExitCode < 0 || run.ProviderDied)
}

// Close closes a workspace, which releases its lease, and logs a warning if that fails. The next run of the workspace
// removes files that remain.
func (m *Manager) Close(space *workspace.Workspace) {
	if err := space.Close(); err != nil {
		m.Logger.Warn("closing the workspace", "error", err)
	}
}

// ExplainError returns an error of a template with the explanation that the service definition has for it. The rules
// are the `errors` of the action, and the first rule whose pattern matches the text of the *opentofu.Error is used.
// commands are the OpenTofu commands, such as "apply", whose errors may be explained. Depending on the rule's exit
// code, the result wraps fault.ErrBindingNotFound or fault.ErrBindingExists, or is a *fault.UserError with the message
// of the rule or, if the rule has none, OpenTofu's diagnosis. The result always wraps err.
//
// ExplainError returns err unchanged if no rule matches, if err is nil or wraps no *opentofu.Error, if OpenTofu ran
// another command than the listed ones, or if the state backend caused the error. A rule whose pattern cannot be
// compiled is ignored.
func ExplainError(err error, rules []brokerpak.ErrorRule, commands ...string) error {
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
			diagnosis := strings.TrimSuffix(run.Summary+": "+run.Detail, ": ")
			return &fault.UserError{Message: cmp.Or(rule.Message, diagnosis), Err: err}
		}
	}
	return err
}
