package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/scratch"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/tfjson"
)

// Import adds an existing resource to the state as the resource with this address, which the template must declare. The
// id is the import ID that the provider defines for the resource. The workspace must be reserved, otherwise Import
// returns an error; the variables are those of Apply. The error is an *opentofu.Error, and the state stays as it is, if
// the resource cannot be read or if the address is in the state already. It is ErrNewerState if the OpenTofu is older
// than the state, and a *statelock.Error if another run holds the lock of the state for too long. Other errors are
// those of SaveUnsaved, and of copying a local state.
func (w *Workspace) Import(ctx context.Context, p *templates.Prepared, vars map[string]any, address, id string) error {
	if err := w.guard.requireReserved(p.Installation()); err != nil {
		return w.wrapError("importing into", err)
	}
	args := []string{"import", "-input=false", "-no-color", "--", address, id}
	return w.change(ctx, p, "importing into", scratch.Apply, w.guard.variables(p, vars), args...)
}

// Forget removes managed resources from the state without destroying them. An address names a resource, with or without
// an instance key, or a module. Addresses that are not in the state are ignored, and so is a workspace that does not
// exist; the guard cannot be removed. If a resource was removed, the state is no longer complete. The errors are those
// of State, ErrNewerState if the OpenTofu is older than the state, a *statelock.Error if another run holds the lock of
// the state for too long, an *opentofu.Error if OpenTofu failed, and any other error if a local state cannot be copied.
func (w *Workspace) Forget(ctx context.Context, i opentofu.Installation, addresses ...string) error {
	state, err := w.currentState(ctx, i, "forgetting resources of")
	if err != nil || state == nil {
		return err
	}
	existing := slices.DeleteFunc(slices.Clone(addresses), func(address string) bool { return !state.Has(address) })
	if len(existing) == 0 {
		return nil
	}
	if state.HasCompleteMark {
		existing = append(existing, statestore.CompleteAddress)
	}
	return w.editState(ctx, i, "forgetting resources of", "rm", existing...)
}

// Show returns the state in the format of "tofu show -json", which states for each attribute whether it is sensitive.
// The result contains secrets in clear text. Show returns an error if the workspace does not exist, ErrNewerState if
// the OpenTofu is older than the state, an *opentofu.Error if OpenTofu failed, and the errors of State.
func (w *Workspace) Show(ctx context.Context, p *templates.Prepared) ([]byte, error) {
	state, err := w.currentState(ctx, p.Installation(), "showing")
	if err != nil {
		return nil, err
	}
	if state == nil {
		return nil, w.wrapError("showing", errors.New("it does not exist"))
	}
	return w.runInspection(ctx, p, "showing", nil, "show", "-json", "-no-color")
}

// Schemas returns the schemas of the template's providers in the format of "tofu providers schema -json". The workspace
// does not have to exist, and is not created. The error is an *opentofu.Error if OpenTofu failed, and a plain error if
// the working directory cannot be created.
func (w *Workspace) Schemas(ctx context.Context, p *templates.Prepared) ([]byte, error) {
	// The command runs in the default workspace, because it would create a missing workspace.
	output, err := w.scratch.Run(ctx, p, scratch.Unselected, nil, "providers", "schema", "-json", "-no-color")
	if err != nil {
		return nil, fmt.Errorf("reading schemas of providers: %w", err)
	}
	return output, nil
}

// runInspection runs a command that changes neither the state nor resources, with the providers and the apply variant
// of the template. The first of args is the subcommand. It returns the standard output of the command. A state that an
// earlier run could not save is saved first. The values of sensitive and ephemeral variables in vars are masked from
// now on; with nil vars the command uses those of the previous run in the same directory, if any. The error names the
// operation doing. It is a *statelock.Error if another run holds the lock of the state for too long, that of begin if
// an earlier state cannot be saved, and an *opentofu.Error if the command ended with a status other than 0, also if it
// only found changes.
func (w *Workspace) runInspection(
	ctx context.Context, p *templates.Prepared, doing string, vars map[string]any, args ...string,
) (output []byte, err error) {
	err = w.perform(ctx, p.Installation(), doing, func() (err error) {
		w.secrets.AddValues(vars, p.SecretVariables()...)
		output, err = w.scratch.Run(ctx, p, scratch.Apply, vars, args...)
		return err
	})
	return output, err
}

// Plan returns the changes that Apply would make, without making them. If drift is true, it returns instead the
// differences between the real resources and the state, and those of the outputs that result from them. The guard and
// the adapter's other own resources are not included. The result is empty if there are no changes. The workspace must
// be reserved, otherwise Plan returns an error. The error is ErrNewerState if the OpenTofu is older than the state, a
// *statelock.Error if another run holds the lock of the state for too long, an *opentofu.Error if OpenTofu failed, and
// any other error if an earlier state cannot be saved or the plan cannot be decoded. The file with the plan, which
// contains secrets, stays in the scratch directory until Close.
func (w *Workspace) Plan(
	ctx context.Context, p *templates.Prepared, vars map[string]any, drift bool,
) ([]tfjson.Change, error) {
	doing, mode := "planning", []string{}
	if drift {
		doing, mode = "comparing", []string{"-refresh-only"}
	}
	if err := w.guard.requireReserved(p.Installation()); err != nil {
		return nil, w.wrapError(doing, err)
	}
	file := w.scratch.Path("tfplan") // contains secrets; it is removed with the scratch directory
	args := append([]string{"plan", "-json", "-input=false", "-detailed-exitcode", "-out=" + file}, mode...)
	_, err := w.runInspection(ctx, p, doing, w.guard.variables(p, vars), args...)
	if !opentofu.FoundChanges(err) {
		return nil, err
	}
	text, err := w.runInspection(ctx, p, doing, nil, "show", "-json", "-no-color", file)
	if err != nil {
		return nil, err
	}
	changes, err := tfjson.DecodePlan(text, drift)
	if err != nil {
		return nil, w.wrapError(doing, err)
	}
	ownAddresses := []string{statestore.GuardAddress, statestore.CompleteAddress, "output." + statestore.AppliedOutput}
	return slices.DeleteFunc(changes, func(c tfjson.Change) bool {
		return slices.Contains(ownAddresses, c.Address)
	}), nil
}
