package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/go-version"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/tofu"
)

// Delete deletes a binding, whatever pak is installed by now. The error is fault.ErrBindingNotFound when there is none.
func (b *Binder) Delete(ctx context.Context, r Request) error {
	ctx, cancel := context.WithTimeout(ctx, b.Budget)
	defer cancel()
	installation, err := b.Installation(ctx, r.Pak)
	if err != nil {
		return err
	}
	space, err := b.Engine.Open(ctx, workspace(r.BindingID))
	if err != nil {
		return err
	}
	defer func() { b.close(space) }()
	state, err := space.State(ctx, installation)
	if err != nil {
		return fmt.Errorf("looking up binding %q: %w", r.BindingID, err)
	}
	if state == nil {
		return fmt.Errorf("binding %q: %w", r.BindingID, fault.ErrBindingNotFound)
	}
	if err := b.destroy(ctx, &r, space, state); err != nil {
		return meaning(r.Service.Bind.Errors, fmt.Errorf("deleting binding %q: %w", r.BindingID, err))
	}
	return nil
}

// destroy destroys what a state records and removes the workspace. An interrupted creation is finished first: a resource whose
// creation was never recorded is then adopted by providers that can.
func (b *Binder) destroy(ctx context.Context, r *Request, space *tofu.Workspace, state *tofu.State) error {
	record, err := decodeRecord(state.Record)
	if err != nil {
		return err
	}
	installation, err := b.installationFor(ctx, r.Pak, record)
	if err != nil {
		return err
	}
	prepared, err := b.Engine.Prepare(ctx, installation, record.template())
	if err != nil {
		return fmt.Errorf("preparing the recorded template of service %q: %w", record.Service, err)
	}
	inputs := b.currentInputs(r, record)
	if !state.Complete {
		if err := space.Apply(ctx, prepared, inputs); err != nil {
			if ctx.Err() != nil {
				return err
			}
			b.Logger.Warn("finishing an interrupted creation before deleting it: a resource that was being created may be left outside",
				"binding", record.BindingID, "error", err)
		}
	}
	if err := space.Destroy(ctx, prepared, inputs); err != nil {
		return err
	}
	return space.Remove(ctx, installation)
}

// currentInputs are the recorded inputs, with those that depend on the running instance as they are now.
func (b *Binder) currentInputs(r *Request, record *recorded) map[string]any {
	if len(record.Live) == 0 {
		return record.Inputs
	}
	past := *r
	past.BindingID, past.ServiceID, past.PlanID, past.Body = record.BindingID, record.ServiceID, record.PlanID, record.Request
	details, err := r.Instance.Details(r.Service, r.Environment)
	if err != nil {
		b.Logger.Warn("the instance's outputs are not known any more", "error", err)
	}
	scope := past.scope(details, vars.Generated(record.Generated))
	for _, err := range record.refresh(scope) {
		b.Logger.Warn("evaluating inputs for the deletion", "error", err)
	}
	return scope.Values
}

// installationFor returns the newest OpenTofu of the pak that made the binding, else of the request's, with the providers that
// the binding needs from whatever pak has them.
func (b *Binder) installationFor(ctx context.Context, current *brokerpak.Pak, record *recorded) (tofu.Installation, error) {
	chosen := current
	for _, pak := range b.Paks {
		if pak.Manifest.Name == record.Pak {
			chosen = pak
		}
	}
	installation, err := b.Installation(ctx, chosen)
	if err != nil {
		return tofu.Installation{}, err
	}
	for _, needed := range record.Providers {
		if slices.ContainsFunc(installation.Providers, func(p tofu.Provider) bool { return p.FQN == needed.FQN }) {
			continue
		}
		found, err := b.findProvider(ctx, needed)
		if err != nil {
			return tofu.Installation{}, err
		}
		installation.Providers = append(installation.Providers, found)
	}
	return installation, nil
}

// findProvider looks for a provider in all paks: in the recorded version, else in the newest.
func (b *Binder) findProvider(ctx context.Context, needed provider) (tofu.Provider, error) {
	var best tofu.Provider
	var failed []error
	for _, pak := range b.Paks {
		installation, err := b.Installation(ctx, pak)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		for _, candidate := range installation.Providers {
			if candidate.FQN != needed.FQN {
				continue
			}
			if candidate.Version == needed.Version {
				return candidate, nil
			}
			if best.FQN == "" || newer(candidate.Version, best.Version) {
				best = candidate
			}
		}
	}
	if best.FQN == "" {
		return best, errors.Join(append(failed, fmt.Errorf("no installed pak bundles the provider %s %s that made this binding; "+
			"keep the old pak in `paks`", needed.FQN, needed.Version))...)
	}
	return best, nil
}

func newer(a, b string) bool {
	va, errA := version.NewVersion(a)
	vb, errB := version.NewVersion(b)
	return errA == nil && errB == nil && va.GreaterThan(vb)
}
