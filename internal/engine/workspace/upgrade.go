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

// currentState returns the state that was read last, or reads it as State does if it may have changed since or if a
// state waits to be saved. The result is nil if the workspace does not exist or is empty, and with an error. The error
// is that of State, or ErrNewerState if the OpenTofu i is older than the state; ErrNewerState is returned with the name
// of the operation doing, such as "destroying".
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

// SetRecord sets the record that the next Apply stores in the guard before it applies the template. A state with
// resources of the new template therefore contains the new record. The record is a text of the caller in UTF-8; the
// slice is not copied. nil withdraws a record that is not stored yet, and so do methods after which the guard is not
// known any longer, such as a successful Push. SetRecord itself writes nothing; StoreRecord stores the record without
// an Apply. The old record stays in State.Applied until an apply with the new one is complete. If several applies with
// different records fail in succession, the last record must contain everything that is needed to destroy the resources
// of all of them.
func (w *Workspace) SetRecord(record []byte) { w.guard.pendingRecord = record }

// updateGuard stores the record of SetRecord, or the version of a newer OpenTofu, in the guard, with "tofu apply"
// that targets only the guard. This Workspace must know the guard. updateGuard runs OpenTofu only if the record or
// the version differs from the stored one. If the state has disappeared, that run creates the guard again without an
// error, and the Progress of the scratch directory reports GuardCreated. p and vars are the prepared template and its
// variables, which that command evaluates but does not apply. After a success the record is no longer pending.
//
// The error is ErrNewerState if the OpenTofu is older than the state, a *statelock.Error if another run holds the lock
// for too long, an *opentofu.Error if the command fails, and any other error if the command cannot be prepared, an
// earlier state cannot be saved or a local state not copied. After an error the record is still pending, although the
// state may contain it.
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

// ReplaceProviders replaces the addresses of providers in the state, with "tofu state replace-provider" for each, and
// logs each replacement. It considers only the providers of managed resources. replacements maps an old address to
// the new one, such as "registry.terraform.io/hashicorp/aws" to "registry.opentofu.org/opentofu/aws". Replacements of
// replacements are followed, and the addresses of a provider in the two public registries are equivalent. No provider
// has to be installed. ReplaceProviders uses the state that was read last; if that may have changed since, or if a
// state waits to be saved, it reads the state as State does. Apart from that, OpenTofu is only run if the state
// contains an address to replace. A workspace that does not exist is not an error. Without replacements,
// ReplaceProviders does nothing and does not read the state.
//
// The errors are those of State, ErrNewerState if the OpenTofu i is older than the state, a *statelock.Error if another
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

// replacement returns the address that finally replaces the address of a provider, such as
// "registry.terraform.io/hashicorp/aws", or the address itself if replacements has no entry for it. replacements maps
// old addresses to new ones. An entry for one of the two public registries also applies to the other, unless that has
// an entry of its own. Replacements are followed until an address has none. They end before an address would be
// repeated, and at an address that is not of the form host/namespace/type.
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

// editState runs "tofu state" with a subcommand that changes the state and no resource, such as "rm", and its
// arguments args. No provider has to be installed. Before the run, editState saves a state that an earlier run could
// not save, repairs an incomplete state file of the local backend, copies a local state, and forgets the state that
// was read last.
//
// The error names the operation doing, such as "destroying". It is an *opentofu.Error if the subcommand failed or
// OpenTofu could not save the earlier state, and a *statelock.Error if another run holds the lock of the state for
// too long. It is any other error if the OpenTofu i does not support the backend or the encryption, if an earlier
// state cannot be read or saved, if a local state cannot be repaired, if a file cannot be copied, written or removed,
// or if OpenTofu cannot be started. The subcommand may have changed the state nevertheless, unless the error is a
// *statelock.Error.
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
