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

// Upgrading is what is to be upgraded, and to what.
type Upgrading struct {
	Space *tofu.Workspace
	State *statestore.State
	// Pak has the OpenTofu versions to walk through.
	Pak *brokerpak.Pak
	// Record describes the binding or instance after the upgrade.
	Record *Record
}

// Upgrade applies the record's template with each OpenTofu of the pak's terraform_upgrade_path that is newer than the one that wrote
// the state, up to the pak's default one. An upgrade that failed on the way is taken up where it failed. Providers that the pak
// replaces in states are replaced first.
func (m *Manager) Upgrade(ctx context.Context, u Upgrading) error {
	versions, err := upgradePath(u.Pak, u.State.TofuVersion, ConditionOf(u.State, u.Record))
	if err != nil {
		return err
	}
	for _, version := range versions {
		if err := m.upgradeTo(ctx, u, version); err != nil {
			return fmt.Errorf("upgrading from OpenTofu %s to %s: %w", u.State.TofuVersion, version, err)
		}
	}
	return nil
}

func (m *Manager) upgradeTo(ctx context.Context, u Upgrading, version string) error {
	installation, err := m.Installation(ctx, u.Pak, version)
	if err != nil {
		return err
	}
	missing := m.AddProviders(ctx, &installation, u.Record)
	prepared, err := m.Engine.Prepare(ctx, installation, u.Record.Template())
	if err != nil {
		if missing != nil {
			return fmt.Errorf("%w; %w", err, missing)
		}
		return err
	}
	if err := u.Space.ReplaceProviders(ctx, installation, u.Pak.Manifest.ProviderReplacements); err != nil {
		return err
	}
	record := *u.Record
	record.MadeBy(u.Pak, installation)
	if err := record.StoreWith(u.Space); err != nil {
		return err
	}
	return u.Space.Apply(ctx, prepared, u.Record.Inputs)
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
