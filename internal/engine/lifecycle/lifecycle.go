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

// A Manager works on the workspaces of bindings and instances. It contains the engine that runs OpenTofu, the
// function that returns the OpenTofu of a pak, the installed paks and the error of those that cannot be read, the
// time limits, the version of the adapter, the logger, and the functions and secrets that audit changes and determine
// ephemeral inputs again. It has no state between calls.
//
// Engine, Installation, Budget and Logger are required, so the zero Manager cannot be used. The zero values of the
// other fields are meaningful: without Paks no state can be read, a nil Unreadable means that all configured paks can
// be read, an InstanceLimit of 0 means Budget, and records that are written with the AdapterVersion "" name no
// version. Changes are not audited with a nil Audit, ephemeral inputs are not evaluated again with a nil Reevaluate,
// and with nil Secrets the manager does not register their values for masking.
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

// Grace returns how long an interrupted OpenTofu may take to save its state, before it is killed. budget is the time
// limit of a command, and instanceLimit that of an errand, or 0 if none is configured. The result is ErrandGrace (8
// seconds) if instanceLimit is greater than 0, because the work may then be that of an errand, and a ninth of the
// budget otherwise.
//
// A command can exceed its budget by the grace, because OpenTofu may be interrupted only when the budget ends.
func Grace(budget, instanceLimit time.Duration) time.Duration {
	if instanceLimit > 0 {
		return ErrandGrace
	}
	return budget / 9
}

// ErrandGrace is the grace of an errand. BOSH kills an errand 10 seconds after it has asked it to end.
const ErrandGrace = 8 * time.Second

// StaleLock returns a function that returns, for the name of a workspace, the age after which a lock taken on this host
// is stale, because the command that took it cannot be running any longer. The age is twice the sum of the longest time
// of a command and a ninth of that time as its grace, because OpenTofu continues to run after its adapter was killed.
// The longest time is budget; for an instance it is the larger of budget and instanceLimit, because an errand may hold
// the lock. instanceLimit may be 0. Names that the adapter did not choose have the age of a binding.
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

// WithLimit returns a context that ends after the limit, or with ctx, for work that no broker request waits for. After
// the limit, context.Cause returns a *fault.BudgetError with the limit. Its Errand is set if the limit differs from the
// manager's Budget, so that its message names the errand_limit. The caller must call the returned function, which ends
// the context early.
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

// WithBudget returns a context that ends after the budget of a command, which begins now, or with ctx. After the
// budget, context.Cause returns a *fault.BudgetError with the budget. The caller must call the returned function, which
// ends the context early.
func WithBudget(ctx context.Context, budget time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, budget, &fault.BudgetError{Budget: budget})
}

// Deadlines divides the budget of a command that creates a binding or an instance; the budget begins with the call. The
// work must use workCtx, which ends before the budget by a third of the budget for a rollback and a ninth for the grace
// of an interrupted OpenTofu. The rollback must use fullCtx, which ends with the budget. Both also end with ctx. When
// they reach their limit, context.Cause returns a *fault.BudgetError. The caller must call cancel, which ends both.
func (m *Manager) Deadlines(ctx context.Context) (workCtx, fullCtx context.Context, cancel context.CancelFunc) {
	began := time.Now()
	work := m.Budget - m.Budget/rollbackShare - Grace(m.Budget, 0)
	exhausted := &fault.BudgetError{Budget: m.Budget, Work: work}
	fullCtx, stopAll := WithBudget(ctx, m.Budget)
	workCtx, stopWork := context.WithDeadlineCause(fullCtx, began.Add(work), exhausted)
	return workCtx, fullCtx, func() { stopWork(); stopAll() }
}

// A Kind is the kind of service object that a workspace belongs to: Binding ("binding") or Instance ("instance"). The
// methods that list or walk workspaces accept "" for both kinds; all others require one of the two. In an Identity, ""
// means that the kind is unknown.
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

// Workspace returns the name of the workspace of a binding or an instance: "b-" or "i-" and the id, such as "b-3f2a".
// The kind must be Binding or Instance; Workspace panics if it is "". An id that is empty, is longer than 100 bytes,
// or contains other characters than ASCII letters, digits, "_" and "-" is replaced by its SHA-256 hash in
// hexadecimal, after "bh-" or "ih-"; the record contains the id itself. Unlike the methods of Manager that take an
// id, Workspace does not accept such a name with a hash instead of the id: it treats it as an id.
func Workspace(kind Kind, id string) string {
	if len(id) <= 100 && plainID.MatchString(id) {
		return string(kind[:1]) + "-" + id
	}
	return fmt.Sprintf("%sh-%x", kind[:1], sha256.Sum256([]byte(id)))
}

// ParseWorkspace returns the kind and the id of the binding or the instance that a workspace belongs to. For a name of
// the form "b-ID" or "i-ID" these are the kind and ID, which is not checked further. A name that contains a hash, "bh-"
// or "ih-" and 64 hexadecimal digits, does not contain the id; ParseWorkspace then returns the whole name as the id,
// and every method of Manager that takes an id accepts it. ok is false for a name of any other form, which the adapter
// did not choose, and for "b-" and "i-" alone; kind and id are meaningless then.
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

// workspaceByIDOrName returns the name of the workspace for an id that an operator entered, for example "b-3f2a" for
// the binding "3f2a"; see Workspace. An id that is itself the name of a workspace of this kind with a hash, "bh-" or
// "ih-" and 64 hexadecimal digits, is returned unchanged, because operators do not know the id while the record cannot
// be read. The kind must be Binding or Instance.
func workspaceByIDOrName(kind Kind, id string) string {
	if len(id) == len("bh-")+2*sha256.Size && hashedName.MatchString(id) && id[0] == kind[0] {
		return id
	}
	return Workspace(kind, id)
}

// WasKilled reports whether err wraps an *opentofu.Error that means that OpenTofu was ended by a signal, perhaps before
// it could save its state, or that a provider ended before it could report which resources it had created. The state
// may then lack existing resources. WasKilled returns false for every other error and for nil.
func WasKilled(err error) bool {
	var run *opentofu.Error
	return errors.As(err, &run) && (run.ExitCode < 0 || run.ProviderDied)
}

// Close closes an open workspace, which stops its providers, removes its scratch directory, except a state in it that
// could not be saved, and releases its lease. The workspace must not be used afterwards. If a file cannot be removed,
// Close logs a warning; the next run of the workspace removes files that remain.
func (m *Manager) Close(space *workspace.Workspace) {
	if err := space.Close(); err != nil {
		m.Logger.Warn("closing the workspace", "error", err)
	}
}

// ExplainError returns an error of a template with the explanation that the service definition has for it. The rules
// are the `errors` of the action, and the first rule whose pattern matches the text of the *opentofu.Error is used.
// commands are the OpenTofu commands, such as "apply", whose errors may be explained. The result wraps
// fault.ErrBindingNotFound for a rule with the exit code "41" and fault.ErrBindingExists for "49". For every other exit
// code, also "", it is a *fault.UserError with the message of the rule or, if the rule has none, OpenTofu's diagnosis.
// In all these cases the result wraps err.
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
