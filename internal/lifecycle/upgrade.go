package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tofu"
)

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
