package tofu

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
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

// PlanSummary is what an apply would do, as sorted addresses of managed resources with instance keys. A resource that would be
// replaced is in both Add and Destroy. The guard does not count.
type PlanSummary struct {
	Add, Change, Destroy []string
}

// plannedChange is a line of "plan -json", as far as it matters here.
type plannedChange struct {
	Type   string `json:"type"`
	Change struct {
		Action   string `json:"action"`
		Resource struct {
			Address string `json:"addr"`
		} `json:"resource"`
	} `json:"change"`
}

// Plan tells what Apply would do, and changes nothing. The workspace must be reserved.
func (w *Workspace) Plan(ctx context.Context, p *Prepared, vars map[string]any) (*PlanSummary, error) {
	if err := w.refuse(p.installation); err != nil {
		return nil, w.failed("planning", err)
	}
	output, err := w.inspect(ctx, p, "planning", w.guarded(p, vars), "plan", "-json", "-input=false")
	if err != nil {
		return nil, err
	}
	return summary(output)
}

// summary reads the messages of a plan.
func summary(output []byte) (*PlanSummary, error) {
	plan := &PlanSummary{}
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, len(output)+1)
	for lines.Scan() {
		var m plannedChange
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return nil, fmt.Errorf("reading plan: %w", err)
		}
		address := m.Change.Resource.Address
		if m.Type != "planned_change" || address == statestore.GuardAddress || address == statestore.CompleteAddress {
			continue
		}
		switch m.Change.Action {
		case "create":
			plan.Add = append(plan.Add, address)
		case "update":
			plan.Change = append(plan.Change, address)
		case "delete":
			plan.Destroy = append(plan.Destroy, address)
		case "replace":
			plan.Add, plan.Destroy = append(plan.Add, address), append(plan.Destroy, address)
		}
	}
	for _, addresses := range [][]string{plan.Add, plan.Change, plan.Destroy} {
		slices.Sort(addresses)
	}
	return plan, lines.Err()
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
	dir := filepath.Join(w.dir, "schemas")
	if err := link(filepath.Join(p.dir, applyVariant), dir); err != nil {
		return nil, fmt.Errorf("making scratch directory: %w", err)
	}
	output, err := w.execute(ctx, p.installation, dir, "providers", "schema", "-json", "-no-color")
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
