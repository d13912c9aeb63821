package tofu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
)

// ErrNewerState says that a newer OpenTofu than the one of the installation reserved or applied the workspace.
var ErrNewerState = errors.New("the state was made by a newer OpenTofu")

// refuseOlder refuses to work on the state with an OpenTofu older than the one that made it. OpenTofu itself would do it, and
// stamp the state with its own version.
func (w *Workspace) refuseOlder(i opentofu.Installation) error {
	if opentofu.Older(i.Version, w.tofu) {
		return newerState(w.tofu, i)
	}
	return nil
}

func newerState(madeBy string, i opentofu.Installation) error {
	return fmt.Errorf("%w: it was made by OpenTofu %s, and this is OpenTofu %s", ErrNewerState, madeBy, i.Version)
}

// known returns what State told since the last change, or asks it: nil when there is no workspace. It is an error when the
// installation is older than the state.
func (w *Workspace) known(ctx context.Context, i opentofu.Installation, doing string) (*statestore.State, error) {
	if w.last.state == nil || w.Unsaved() {
		if _, err := w.State(ctx, i); err != nil {
			return nil, err
		}
	}
	if err := w.refuseOlder(i); err != nil {
		return nil, w.failed(doing, err)
	}
	return w.last.state, nil
}

// SetRecord replaces the record that the guard holds, when Apply is called next: before Apply changes anything else, the guard
// gets the new record, so a state in which the new template made something always has it. The old record stays in
// State.Applied until an apply with the new one is complete. What else a state may need to be destroyed after several records
// failed one after the other must be part of the last of them.
func (w *Workspace) SetRecord(record []byte) { w.next = record }

// intended is the record of the next apply.
func (w *Workspace) intended() []byte {
	if w.next != nil {
		return w.next
	}
	return w.record
}

// guarded returns the variables of the template and of the guard.
func (w *Workspace) guarded(p *Prepared, vars map[string]any) map[string]any {
	all := p.declared(vars)
	all[recordVariable], all[nonceVariable] = string(w.intended()), w.nonce
	return all
}

// intend writes a new record, or the version of a newer OpenTofu, into the guard, and nothing else.
func (w *Workspace) intend(ctx context.Context, p *Prepared, vars map[string]any) error {
	if err := w.refuseOlder(p.installation); err != nil {
		return w.failed("applying", err)
	}
	record := w.intended()
	if w.tofu != p.installation.Version || !bytes.Equal(record, w.record) {
		err := w.change(ctx, p, "marking", applyPlace, w.guarded(p, vars),
			"apply", "-json", "-input=false", "-auto-approve", "-refresh=false", "-target="+statestore.GuardAddress)
		if err != nil {
			return err
		}
	}
	w.record, w.next, w.tofu = record, nil, p.installation.Version
	return nil
}

// ReplaceProviders lets the state name new providers instead of old ones, host/namespace/type → the same: those of
// terraform_state_provider_replacements. It changes only what the state names, starts no process when that is nothing, and
// needs neither provider to be installed. A provider is known under both public registries. When a replacement fails, earlier
// ones stay; it can be called again.
func (w *Workspace) ReplaceProviders(ctx context.Context, i opentofu.Installation, replacements map[string]string) error {
	if len(replacements) == 0 {
		return nil
	}
	state, err := w.known(ctx, i, "replacing providers of")
	if err != nil || state == nil {
		return err
	}
	for _, from := range state.Providers {
		to := replacement(from, replacements)
		if to == from {
			continue
		}
		if err := w.edit(ctx, i, "replacing providers of", "replace-provider", "-auto-approve", from, to); err != nil {
			return err
		}
		w.engine.logger.Info("replaced a provider", "workspace", w.name, "from", from, "to", to)
	}
	return nil
}

// replacement follows the replacements of a provider to the last one.
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

// edit runs a command that changes the state and no resource. It needs no provider.
func (w *Workspace) edit(ctx context.Context, i opentofu.Installation, doing, command string, args ...string) error {
	return w.while(ctx, i, doing, func() error {
		if err := w.keepCopy(ctx); err != nil {
			return err
		}
		w.last = snapshot{}
		// The local backend insists on a copy of the old state, and by default cannot make it.
		backup := filepath.Join(w.dir, "edit.backup")
		args = append([]string{"state", command, "-no-color", "-backup=" + backup}, args...)
		_, err := w.runBase(ctx, i, readPlace, nil, args...)
		return errors.Join(err, remove(backup))
	})
}
