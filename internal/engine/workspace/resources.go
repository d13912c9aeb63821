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

// Import runs "tofu import" to add an existing resource to the state as the resource with this address, such as
// "aws_s3_bucket.b", which the template p must declare. The id is the import ID that the provider defines for the
// resource. vars are the values of the template's variables, as for Apply. The workspace must be reserved, and this
// Workspace must know its guard from Reserve or State. Import does not check whether another run has taken over or
// deleted the workspace since then. A state that an earlier run could not save is saved first.
//
// The error is an *opentofu.Error, and the state stays as it is, if the resource cannot be read, if the template does
// not declare the address, or if the address is in the state already. It is also an *opentofu.Error if OpenTofu
// imported the resource and could not save the state. Import then tries once to save the state, and returns the error
// even if that succeeds; see HasUnsavedState. The error is ErrNewerState if the OpenTofu is older than the state, and
// a *statelock.Error if another run holds the lock of the state for too long. It is any other error if the guard is
// not known, if the OpenTofu does not support the backend or the encryption or cannot be started, or if an earlier
// state cannot be saved or a local state not copied.
func (w *Workspace) Import(ctx context.Context, p *templates.Prepared, vars map[string]any, address, id string) error {
	if err := w.guard.requireReserved(p.Installation()); err != nil {
		return w.wrapError("importing into", err)
	}
	args := []string{"import", "-input=false", "-no-color", "--", address, id}
	return w.change(ctx, p, "importing into", scratch.Apply, w.guard.variables(p, vars), args...)
}

// Forget runs "tofu state rm" to remove managed resources from the state without destroying them. An address names a
// resource, with or without an instance key, or a module, such as "aws_s3_bucket.b[0]" or "module.db". Addresses that
// are not in the state are ignored, and so are that of the guard and a workspace that does not exist. If a resource was
// removed, the mark of a complete apply is removed as well, so that the state counts as incomplete. A state that an
// earlier run could not save is saved first. Forget uses the state that was read last; if that may have changed since,
// it reads the state as State does, which deletes an empty workspace.
//
// The errors are those of State, ErrNewerState if the OpenTofu i is older than the state, a *statelock.Error if another
// run holds the lock of the state for too long, an *opentofu.Error if OpenTofu failed, and any other error if a local
// state cannot be copied. The resources may have been removed nevertheless, unless the error is ErrNewerState or a
// *statelock.Error.
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

// Show returns the output of "tofu show -json" for the workspace's state and the prepared template p. This JSON states
// for each attribute whether it is sensitive, and contains secrets in clear text. A state that an earlier run could not
// save is saved first. The output must not be used with an error.
//
// Show returns a plain error if the workspace does not exist or is empty; an empty workspace is deleted. It returns
// ErrNewerState if the OpenTofu is older than the state, an *opentofu.Error if OpenTofu failed, a *statelock.Error if a
// change before the command has to wait too long for another run, and the errors of State.
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

// Schemas returns the schemas of the template's providers as the JSON output of "tofu providers schema -json". It runs
// the command in a working directory that selects no workspace: the workspace does not have to exist, is not created,
// and its state is not read. The error is an *opentofu.Error if OpenTofu failed, and a plain error if the working
// directory or another file cannot be created or OpenTofu cannot be started.
func (w *Workspace) Schemas(ctx context.Context, p *templates.Prepared) ([]byte, error) {
	// The command runs in the default workspace, because it would create a missing workspace.
	output, err := w.scratch.Run(ctx, p, scratch.Unselected, nil, "providers", "schema", "-json", "-no-color")
	if err != nil {
		return nil, fmt.Errorf("reading schemas of providers: %w", err)
	}
	return output, nil
}

// runInspection runs an OpenTofu command that changes neither the state nor resources, such as "plan", with the
// providers and the apply variant of the template p. The first of args is the subcommand. It returns the standard
// output of the command, which must not be used with an error. A state that an earlier run could not save is saved
// first. The values in vars of variables that the template declares sensitive or ephemeral, and those that
// redact.Secrets.AddValues recognises, are masked from now on. With nil vars the command gets the values of the
// previous run if the providers of that run, which this process started, still run, and otherwise no values; see
// scratch.Directory.Run.
//
// The error names the operation doing, such as "planning". It is an *opentofu.Error if the command ended with a status
// other than 0. That includes the status 2 of "plan -detailed-exitcode", which only reports changes; the caller
// recognises it with opentofu.FoundChanges. It is a *statelock.Error if another run holds the lock of the state for too
// long. It is any other error if the OpenTofu does not support the backend or the encryption, if an earlier state
// cannot be saved, or if the command cannot be prepared or started.
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

// Plan returns the changes that Apply with the template p and the variables vars would make, without making them. If
// drift is true, it returns instead the differences between the real resources and the state, and those of the outputs
// that result from them. The guard and the adapter's other own resources are not included. The result is empty and may
// be nil if there are no changes. The workspace must be reserved, and this Workspace must know its guard from Reserve
// or State. A state that an earlier run could not save is saved first. Secrets in vars are masked from now on. The file
// with the plan, which contains secrets, stays in the scratch directory until Close.
//
// With an error the result is nil. The error is ErrNewerState if the OpenTofu is older than the state, a
// *statelock.Error if another run holds the lock of the state for too long, and an *opentofu.Error if OpenTofu failed.
// It is any other error if the guard is not known, if the OpenTofu does not support the backend or the encryption or
// cannot be started, if an earlier state cannot be saved, or if the plan cannot be decoded.
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
