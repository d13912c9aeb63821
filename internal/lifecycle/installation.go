package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tofu"
)

// Reader returns an OpenTofu that can read states: the one of the preferred pak, which may be nil, else the newest that works. What is
// wrong with one pak must not keep anybody from deleting what another one made.
func (m *Manager) Reader(ctx context.Context, preferred *brokerpak.Pak) (opentofu.Installation, error) {
	paks := slices.SortedStableFunc(slices.Values(m.Paks), func(a, b *brokerpak.Pak) int { return compareTofu(b, a) })
	if preferred != nil {
		others := slices.DeleteFunc(paks, func(pak *brokerpak.Pak) bool { return pak == preferred })
		paks = append([]*brokerpak.Pak{preferred}, others...)
	}
	var failed []error
	for _, pak := range paks {
		installation, err := m.Installation(ctx, pak, "")
		if err == nil {
			return installation, nil
		}
		failed = append(failed, err)
	}
	return opentofu.Installation{}, errors.Join(failed...)
}

// Service is the one that made a binding or instance, as the installed paks have it now, those of the same name before others; nil when
// they do not have it any more.
func (m *Manager) Service(record *Record) *brokerpak.Service {
	other := func(pak *brokerpak.Pak) bool { return pak.Manifest.Name != record.Pak }
	same := slices.DeleteFunc(slices.Clone(m.Paks), other)
	for _, pak := range slices.Concat([]*brokerpak.Pak{m.pakOf(record.Pak, record.PakVersion)}, same, m.Paks) {
		if pak != nil && pak.Service(record.Service) != nil {
			return pak.Service(record.Service)
		}
	}
	return nil
}

// installationFor returns the OpenTofu of the pak that made the binding or instance: of the same version when it is still installed,
// else the newest; without that pak any. The providers come from whatever pak has them; missing names those that none has.
func (m *Manager) installationFor(ctx context.Context, record *Record) (installation opentofu.Installation, missing, err error) {
	if own := m.pakOf(record.Pak, record.PakVersion); own != nil {
		installation, err = m.Installation(ctx, own, "")
	} else {
		installation, err = m.Reader(ctx, nil)
	}
	if err != nil {
		return opentofu.Installation{}, nil, err
	}
	missing = m.AddProviders(ctx, &installation, record)
	return installation, missing, nil
}

// AddProviders adds those of a record's providers that an installation lacks, and names those that no pak has.
func (m *Manager) AddProviders(ctx context.Context, installation *opentofu.Installation, record *Record) error {
	var absent []error
	for _, needed := range record.Providers {
		if slices.ContainsFunc(installation.Providers, needed.Is) {
			continue
		}
		found, err := m.findProvider(ctx, needed)
		if err != nil {
			absent = append(absent, err)
			continue
		}
		installation.Providers = append(installation.Providers, found)
	}
	return errors.Join(absent...)
}

// pakOf is the pak of a name and version; else the one of that name with the newest OpenTofu, and of several with the same one the newest
// pak; nil when there is none.
func (m *Manager) pakOf(name, version string) *brokerpak.Pak {
	named := slices.DeleteFunc(slices.Clone(m.Paks), func(pak *brokerpak.Pak) bool {
		_, err := pak.Manifest.DefaultVersion()
		return err != nil || pak.Manifest.Name != name
	})
	if len(named) == 0 {
		return nil
	}
	if n := slices.IndexFunc(named, func(pak *brokerpak.Pak) bool { return pak.Manifest.Version == version }); n >= 0 {
		return named[n]
	}
	return slices.MaxFunc(named, func(a, b *brokerpak.Pak) int {
		return cmp.Or(compareTofu(a, b), opentofu.Compare(a.Manifest.Version, b.Manifest.Version))
	})
}

// findProvider looks for a provider in all paks: in the recorded version, else in the newest.
func (m *Manager) findProvider(ctx context.Context, needed opentofu.Provider) (opentofu.Provider, error) {
	var found []opentofu.Provider
	var failed []error
	for _, pak := range m.Paks {
		installation, err := m.Installation(ctx, pak, "")
		failed = append(failed, err)
		for _, candidate := range installation.Providers {
			if !needed.Is(candidate) {
				continue
			}
			if candidate.Version == needed.Version {
				return candidate, nil
			}
			found = append(found, candidate)
		}
	}
	if len(found) == 0 {
		return opentofu.Provider{}, errors.Join(append(failed, fmt.Errorf("no installed pak bundles the provider %s %s that made this; "+
			"keep the old pak in `paks`", needed.FQN, needed.Version))...)
	}
	return slices.MaxFunc(found, func(a, b opentofu.Provider) int { return opentofu.Compare(a.Version, b.Version) }), nil
}

// compareTofu orders paks by their OpenTofu.
func compareTofu(a, b *brokerpak.Pak) int {
	va, _ := a.Manifest.DefaultVersion()
	vb, _ := b.Manifest.DefaultVersion()
	return opentofu.Compare(va, vb)
}

// Upgrade applies a template with each OpenTofu of the pak's terraform_upgrade_path that is newer than the one that wrote the state, up to
// the pak's default one. The record describes the binding or instance after the upgrade. An upgrade that failed on the way is taken up where
// it failed.
func (m *Manager) Upgrade(ctx context.Context, space *tofu.Workspace, state *statestore.State, pak *brokerpak.Pak, record *Record) error {
	versions, err := upgradePath(pak, state.TofuVersion, ConditionOf(state, record))
	if err != nil {
		return err
	}
	for _, version := range versions {
		if err := m.upgradeTo(ctx, space, pak, *record, version); err != nil {
			return fmt.Errorf("upgrading from OpenTofu %s to %s: %w", state.TofuVersion, version, err)
		}
	}
	return nil
}

func (m *Manager) upgradeTo(ctx context.Context, space *tofu.Workspace, pak *brokerpak.Pak, record Record, version string) error {
	installation, err := m.Installation(ctx, pak, version)
	if err != nil {
		return err
	}
	missing := m.AddProviders(ctx, &installation, &record)
	prepared, err := m.Engine.Prepare(ctx, installation, record.Template())
	if err != nil {
		if missing != nil {
			return fmt.Errorf("%w; %w", err, missing)
		}
		return err
	}
	record.MadeBy(pak, installation)
	return record.Apply(ctx, space, installation, prepared, pak)
}

// Apply applies the template of the record and stores the record with it. Providers that the pak replaces in states are replaced first.
func (r *Record) Apply(
	ctx context.Context, space *tofu.Workspace, installation opentofu.Installation, prepared *tofu.Prepared, pak *brokerpak.Pak,
) error {
	if err := space.ReplaceProviders(ctx, installation, pak.Manifest.ProviderReplacements); err != nil {
		return err
	}
	if err := r.StoreWith(space); err != nil {
		return err
	}
	return space.Apply(ctx, prepared, r.Inputs)
}

// upgradePath returns the OpenTofu versions of a pak that a state, written by some version, has to be applied with, in order: those of
// terraform_upgrade_path above that version, and that version itself where its last apply failed. It is empty when there is nothing
// to upgrade.
func upgradePath(pak *brokerpak.Pak, from string, condition Condition) ([]string, error) {
	target, err := pak.Manifest.DefaultVersion()
	if err != nil {
		return nil, err
	}
	if !opentofu.Older(from, target) {
		if condition == Changing && from == target {
			return []string{target}, nil
		}
		return nil, nil
	}
	var versions []string
	for _, version := range pak.Manifest.UpgradePath {
		if opentofu.Older(from, version) || condition != Complete && !opentofu.Older(version, from) {
			versions = append(versions, version)
		}
	}
	if !slices.Contains(versions, target) {
		return nil, fmt.Errorf("pak %s has OpenTofu %s and no terraform_upgrade_path that leads to it from %s",
			pak.Manifest.Name, target, from)
	}
	return versions, nil
}
