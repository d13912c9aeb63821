package tofu

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
)

// Import puts a resource that exists already, by the id that its provider gives it, into the state as the resource of this
// address, which the template must declare. The workspace must be reserved; the variables are those of Apply.
func (w *Workspace) Import(ctx context.Context, p *Prepared, vars map[string]any, address, id string) error {
	if err := w.refuse(p.installation); err != nil {
		return w.failed("importing into", err)
	}
	return w.change(ctx, p, "importing into", applyPlace, w.guarded(p, vars), "import", "-input=false", "-no-color", "--", address, id)
}

// Forget drops managed resources from the state and lets them exist: those of an address with or without instance keys, or of a
// module. Addresses that are not there are fine; the guard cannot be dropped. Afterwards the state is not complete.
func (w *Workspace) Forget(ctx context.Context, i opentofu.Installation, addresses ...string) error {
	state, err := w.known(ctx, i, "forgetting resources of")
	if err != nil || state == nil {
		return err
	}
	there := slices.DeleteFunc(slices.Clone(addresses), func(address string) bool { return !state.Has(address) })
	if len(there) == 0 {
		return nil
	}
	if state.Marked {
		there = append(there, statestore.CompleteAddress)
	}
	return w.edit(ctx, i, "forgetting resources of", "rm", there...)
}

// Show returns the state in the form of "show -json", which knows the attributes' sensitivity. It holds secrets.
func (w *Workspace) Show(ctx context.Context, p *Prepared) ([]byte, error) {
	state, err := w.known(ctx, p.installation, "showing")
	if err != nil {
		return nil, err
	}
	if state == nil {
		return nil, w.failed("showing", errors.New("it does not exist"))
	}
	return w.inspect(ctx, p, "showing", nil, "show", "-json", "-no-color")
}

// Schemas returns the schemas of the template's providers in the form of "providers schema -json". The workspace need not exist.
func (w *Workspace) Schemas(ctx context.Context, p *Prepared) ([]byte, error) {
	// Outside of the workspace, which the command would create.
	output, err := w.run(ctx, p, outsidePlace, nil, "providers", "schema", "-json", "-no-color")
	if err != nil {
		return nil, fmt.Errorf("reading schemas of providers: %w", err)
	}
	return output, nil
}

// refuse refuses a workspace that is not reserved, and an OpenTofu older than its state.
func (w *Workspace) refuse(i opentofu.Installation) error {
	if w.nonce == "" {
		return errors.New("it is not reserved")
	}
	return w.refuseOlder(i)
}

// inspect runs a command that changes nothing in the apply variant.
func (w *Workspace) inspect(ctx context.Context, p *Prepared, doing string, vars map[string]any, args ...string) ([]byte, error) {
	if err := w.begin(ctx, p.installation); err != nil {
		return nil, w.failed(doing, err)
	}
	w.mask.AddValues(vars, p.sensitive()...)
	output, err := w.run(ctx, p, applyPlace, vars, args...)
	if err != nil {
		return nil, w.failed(doing, err)
	}
	return output, nil
}
