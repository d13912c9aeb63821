package workspace

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/scratch"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/privatefs"
)

// currentState returns the state that was read last, or reads it as State does if it may have changed or could not be
// saved. The result is nil if the workspace does not exist. The errors are those of State, and ErrNewerState if the
// OpenTofu is older than the state; only the latter names the operation doing.
func (w *Workspace) currentState(
	ctx context.Context, i opentofu.Installation, doing string,
) (*statestore.State, error) {
	if w.lastRead.state == nil || w.HasUnsavedState() {
		if _, err := w.State(ctx, i); err != nil {
			return nil, err
		}
	}
	if err := w.guard.requireNotOlder(i); err != nil {
		return nil, w.wrapError(doing, err)
	}
	return w.lastRead.state, nil
}

// SetRecord sets the record that the next Apply stores in the guard before it changes anything else. It does not store
// the record itself; see StoreRecord. nil withdraws a record that is not stored yet. A state with resources of the new
// template therefore always contains the new record. The old record stays in State.Applied until an apply with the new
// one is complete. If several applies with different records fail in succession, the last record must contain
// everything that is needed to destroy the resources of all of them.
func (w *Workspace) SetRecord(record []byte) { w.guard.pendingRecord = record }

// updateGuard stores the record of SetRecord, or the version of a newer OpenTofu, in the guard. It runs OpenTofu only
// if either differs from the stored one, and changes no other resource. The error is ErrNewerState if the OpenTofu is
// older than the state, and that of change otherwise; then the record is still pending.
func (w *Workspace) updateGuard(ctx context.Context, p *templates.Prepared, vars map[string]any) error {
	if err := w.guard.requireNotOlder(p.Installation()); err != nil {
		return w.wrapError("applying", err)
	}
	record := w.guard.nextRecord()
	if w.guard.tofuVersion != p.Installation().Version || !bytes.Equal(record, w.guard.record) {
		err := w.change(ctx, p, "marking", scratch.Apply, w.guard.variables(p, vars),
			"apply", "-json", "-input=false", "-auto-approve", "-refresh=false", "-target="+statestore.GuardAddress)
		if err != nil {
			return err
		}
	}
	w.guard.record, w.guard.pendingRecord, w.guard.tofuVersion = record, nil, p.Installation().Version
	return nil
}

// ReplaceProviders replaces the addresses of providers in the state, and logs each replacement. The replacements map an
// old address, host/namespace/type, to the new one, as terraform_state_provider_replacements does. Replacements of
// replacements are followed, and the addresses of a provider in the two public registries are equivalent. No provider
// has to be installed. OpenTofu is only run if the state contains an address to replace; a workspace that does not
// exist is not an error. Without replacements, ReplaceProviders does nothing.
//
// The errors are those of State, ErrNewerState if the OpenTofu is older than the state, a *statelock.Error if another
// run holds the lock of the state for too long, an *opentofu.Error if OpenTofu failed, and any other error if a local
// state cannot be copied. After an error, some addresses may have been replaced; ReplaceProviders can be called again.
func (w *Workspace) ReplaceProviders(
	ctx context.Context, i opentofu.Installation, replacements map[string]string,
) error {
	if len(replacements) == 0 {
		return nil
	}
	state, err := w.currentState(ctx, i, "replacing providers of")
	if err != nil || state == nil {
		return err
	}
	for _, from := range state.Providers {
		to := replacement(from, replacements)
		if to == from {
			continue
		}
		err := w.editState(ctx, i, "replacing providers of", "replace-provider", "-auto-approve", from, to)
		if err != nil {
			return err
		}
		w.engine.logger.Info("replaced a provider", "workspace", w.name, "from", from, "to", to)
	}
	return nil
}

// replacement returns the address that finally replaces that of a provider, or the address itself if there is none. The
// replacements map old addresses to new ones; those of a provider in the two public registries are equivalent. It stops
// before an address would be repeated, and at an address that is not of the form host/namespace/type.
func replacement(provider string, replacements map[string]string) string {
	seen := []string{provider}
	for {
		names, err := opentofu.Provider{FQN: provider}.Names()
		if err != nil {
			return provider
		}
		next := replacements[provider]
		for _, name := range names {
			if next == "" {
				next = replacements[name]
			}
		}
		if next == "" || slices.Contains(seen, next) {
			return provider
		}
		provider, seen = next, append(seen, next)
	}
}

// editState runs "tofu state" with a subcommand that changes the state and no resource, such as "rm", and its arguments
// args. No provider has to be installed. A local state is copied before, and the state that was read last is forgotten.
// The error names the operation doing. It is an *opentofu.Error if the subcommand failed, and a *statelock.Error if
// another run holds the lock of the state for too long. Other errors are those of begin and keepCopy.
func (w *Workspace) editState(
	ctx context.Context, i opentofu.Installation, doing, command string, args ...string,
) error {
	return w.perform(ctx, i, doing, func() error {
		if err := w.keepCopy(ctx); err != nil {
			return err
		}
		w.lastRead = snapshot{}
		// The local backend requires a copy of the old state, which it cannot create in its default location.
		backup := w.scratch.Path("edit.backup")
		args = append([]string{"state", command, "-no-color", "-backup=" + backup}, args...)
		_, err := w.scratch.RunBase(ctx, i, scratch.Inspect, nil, args...)
		return errors.Join(err, privatefs.Remove(backup))
	})
}
