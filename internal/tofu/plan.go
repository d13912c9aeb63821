package tofu

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tfjson"
)

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
