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
	if r.BindingID == "" {
		return errNoID
	}
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
	record, err := decodeRecord(state.Record)
	if err != nil {
		return fmt.Errorf("deleting binding %q: %w", r.BindingID, err)
	}
	if err := b.destroy(ctx, &r, space, state, record); err != nil {
		err = fmt.Errorf("deleting binding %q: %w", r.BindingID, err)
		if service := b.service(record); service != nil {
			return meaning("destroy", service.Bind.Errors, err)
		}
		return err
	}
	return nil
}

// service is the one that made a binding, as the installed paks have it now; nil when they do not have it any more.
func (b *Binder) service(record *recorded) *brokerpak.Service {
	var found *brokerpak.Service
	for _, pak := range b.Paks {
		service := pak.Service(record.Service)
		if service == nil {
			continue
		}
		if pak.Manifest.Name == record.Pak && pak.Manifest.Version == record.PakVersion {
			return service
		}
		if found == nil || pak.Manifest.Name == record.Pak {
			found = service
		}
	}
	return found
}

// destroy destroys what a state records and removes the workspace. An interrupted creation is finished first, as it was begun: a
// resource whose creation was never recorded is then adopted by providers that can.
func (b *Binder) destroy(ctx context.Context, r *Request, space *tofu.Workspace, state *tofu.State, record *recorded) error {
	installation, missing, err := b.installationFor(ctx, r.Pak, record)
	if err != nil {
		return err
	}
	prepared, err := b.Engine.Prepare(ctx, installation, record.template())
	if err != nil {
		// A missing provider that the template does not use does no harm.
		return fmt.Errorf("preparing the recorded template of service %q: %w", record.Service, errors.Join(missing, err))
	}
	inputs := b.currentInputs(r, record)
	if !state.Complete {
		if err := b.complete(ctx, space, prepared, inputs, record); err != nil {
			return err
		}
	}
	if err := space.Destroy(ctx, prepared, inputs); err != nil {
		return err
	}
	return space.Remove(ctx, installation)
}

// complete finishes an interrupted creation, or at least tries: the greater part of the budget is left for the destruction. The
// error is not nil when the command itself has ended, or OpenTofu was killed and the state may lack what it made: then the record
// must stay.
func (b *Binder) complete(
	ctx context.Context, space *tofu.Workspace, prepared *tofu.Prepared, inputs map[string]any, record *recorded,
) error {
	trying, stop := context.WithTimeout(ctx, b.Budget/rollbackShare)
	defer stop()
	err := space.Apply(trying, prepared, inputs)
	if err != nil && ctx.Err() == nil && !wasKilled(err) {
		b.Logger.Warn("finishing an interrupted creation before deleting it: a resource that was being created may be left outside",
			"binding", record.BindingID, "error", err)
		return nil
	}
	return err
}

// currentInputs are the recorded inputs, with those that depend on the running instance as they are now.
func (b *Binder) currentInputs(r *Request, record *recorded) map[string]any {
	if len(record.Live) == 0 {
		return record.Inputs
	}
	past := *r
	past.BindingID, past.ServiceID, past.PlanID, past.Body = record.BindingID, record.ServiceID, record.PlanID, record.Request
	past.past = record
	service := b.service(record)
	if service == nil {
		service = &brokerpak.Service{} // the outputs that the manifest records are known all the same
	}
	details, err := r.Instance.Details(service, r.Environment)
	if err != nil {
		b.Logger.Warn("the instance's outputs are not known any more", "error", err)
	}
	scope := past.scope(details, vars.Generated(record.Generated))
	for _, err := range record.refresh(scope) {
		b.Logger.Warn("evaluating inputs for the deletion", "error", err)
	}
	return scope.Values
}

// installationFor returns the OpenTofu of the pak that made the binding: of the same version when it is still installed, else the
// newest; without that pak the request's. The binding's providers come from whatever pak has them; missing names those that
// none has.
func (b *Binder) installationFor(
	ctx context.Context, current *brokerpak.Pak, record *recorded,
) (installation tofu.Installation, missing, err error) {
	chosen := current
	if own := b.pakOf(record); own != nil {
		chosen = own
	}
	if installation, err = b.Installation(ctx, chosen); err != nil {
		return tofu.Installation{}, nil, err
	}
	var absent []error
	for _, needed := range record.Providers {
		if slices.ContainsFunc(installation.Providers, needed.is) {
			continue
		}
		found, err := b.findProvider(ctx, needed)
		if err != nil {
			absent = append(absent, err)
			continue
		}
		installation.Providers = append(installation.Providers, found)
	}
	return installation, errors.Join(absent...), nil
}

// pakOf is the pak that made a binding; nil when none of its name is installed.
func (b *Binder) pakOf(record *recorded) *brokerpak.Pak {
	var newest *brokerpak.Pak
	var newestTofu string
	for _, pak := range b.Paks {
		tofu, ok := pak.Manifest.DefaultTofu()
		if !ok || pak.Manifest.Name != record.Pak {
			continue
		}
		if pak.Manifest.Version == record.PakVersion {
			return pak
		}
		if newest == nil || newer(tofu.Version, newestTofu) {
			newest, newestTofu = pak, tofu.Version
		}
	}
	return newest
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
			if !needed.is(candidate) {
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
