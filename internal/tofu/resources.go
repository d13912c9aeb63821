package tofu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tfjson"
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
func (w *Workspace) inspect(ctx context.Context, p *Prepared, doing string, vars map[string]any, args ...string) (output []byte, err error) {
	err = w.while(ctx, p.installation, doing, func() (err error) {
		w.mask.AddValues(vars, p.sensitive()...)
		output, err = w.run(ctx, p, applyPlace, vars, args...)
		return err
	})
	return output, err
}

// planned tells whether an error only is that of "plan -detailed-exitcode" where there is something in the plan.
func planned(err error) bool {
	var run *opentofu.Error
	return errors.As(err, &run) && run.ExitCode == 2
}

// Plan tells what Apply would do to which resource, and changes nothing, neither outside nor in the state. With drift it tells instead what of
// the resources, and of outputs because of that, differs from what the state says. The guard does not count. The workspace must be reserved.
func (w *Workspace) Plan(ctx context.Context, p *Prepared, vars map[string]any, drift bool) ([]tfjson.Change, error) {
	doing, mode := "planning", []string{}
	if drift {
		doing, mode = "comparing", []string{"-refresh-only"}
	}
	if err := w.refuse(p.installation); err != nil {
		return nil, w.failed(doing, err)
	}
	file := filepath.Join(w.dir, "tfplan") // it holds secrets, and goes with the directory
	args := append([]string{"plan", "-json", "-input=false", "-detailed-exitcode", "-out=" + file}, mode...)
	_, err := w.inspect(ctx, p, doing, w.guarded(p, vars), args...)
	if !planned(err) {
		return nil, err
	}
	text, err := w.inspect(ctx, p, doing, nil, "show", "-json", "-no-color", file)
	if err != nil {
		return nil, err
	}
	found, err := tfjson.DecodePlan(text, drift)
	if err != nil {
		return nil, w.failed(doing, err)
	}
	own := []string{statestore.GuardAddress, statestore.CompleteAddress, "output." + statestore.AppliedOutput}
	return slices.DeleteFunc(found, func(c tfjson.Change) bool { return slices.Contains(own, c.Address) }), nil
}

// LostError says that an apply made resources which are in no state: while it ran another run took over or removed the workspace, as
// happens when the database ends the session that has the lock. It is an ErrExists as well.
type LostError struct {
	// Resources are the addresses of what was made, or was being made at the end.
	Resources []string
}

// Error names the resources.
func (e *LostError) Error() string {
	return "another run changed the state while OpenTofu worked, and what was made is in no state: " + strings.Join(e.Resources, ", ")
}

// Unwrap returns ErrExists.
func (e *LostError) Unwrap() error { return ErrExists }

// lost returns what the last apply made and the stored state does not have: a *LostError, or nil when that is nothing.
func (w *Workspace) lost(stored *statestore.State) error {
	text, err := os.ReadFile(filepath.Join(w.dir, "apply.stdout"))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // nothing was applied
			w.engine.logger.Warn("looking what an apply made", "workspace", w.name, "error", err)
		}
		return nil
	}
	resources := w.beside(stored, opentofu.Created(text))
	if len(resources) == 0 {
		return nil
	}
	return &LostError{Resources: resources}
}

// beside returns which addresses of instances the stored state does not have, which may be nil. They show no secret.
func (s *session) beside(stored *statestore.State, addresses []string) []string {
	var others []string
	for _, address := range addresses {
		if stored == nil || !slices.Contains(stored.Instances, address) {
			others = append(others, s.mask.Clean(address))
		}
	}
	return others
}

// afterApply looks whose the workspace is after an apply that failed, within the grace even when the context has ended. The error is
// ErrExists when another run took it over, and a *LostError when something was made that is in no state. It tells as well whether the state
// could be read.
func (w *Workspace) afterApply(ctx context.Context, i opentofu.Installation) (known bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.engine.options.Grace)
	defer cancel()
	state, err := w.look(ctx, i)
	if err != nil {
		return false, err
	}
	if state != nil && (state.Nonce == w.nonce || state.Nonce == "") {
		return true, nil
	}
	err = w.lost(state)
	if err == nil && state != nil {
		err = ErrExists
	}
	if err != nil {
		w.disown()
		return true, w.failed("applying", err)
	}
	return true, nil
}
