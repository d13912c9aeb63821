package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
)

// StateReader returns an OpenTofu that can read states: that of the preferred pak, or else the newest one that can be
// installed. preferred may be nil. A defect of one pak therefore does not prevent the deletion of a binding of
// another pak. StateReader returns an error only if no pak has a usable OpenTofu. Without any pak, it returns the zero
// Installation and no error.
func (m *Manager) StateReader(ctx context.Context, preferred *brokerpak.Pak) (opentofu.Installation, error) {
	paks := slices.SortedStableFunc(slices.Values(m.Paks), func(a, b *brokerpak.Pak) int { return compareTofu(b, a) })
	if preferred != nil {
		otherPaks := slices.DeleteFunc(paks, func(pak *brokerpak.Pak) bool { return pak == preferred })
		paks = append([]*brokerpak.Pak{preferred}, otherPaks...)
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

// Service returns the service of a record from the installed paks. It prefers the recorded pak and version, then paks
// of the same name, then all others. It returns nil if no installed pak has the service. The record must not be nil.
func (m *Manager) Service(record *StateRecord) *brokerpak.Service {
	hasOtherName := func(pak *brokerpak.Pak) bool { return pak.Manifest.Name != record.Pak }
	sameName := slices.DeleteFunc(slices.Clone(m.Paks), hasOtherName)
	for _, pak := range slices.Concat([]*brokerpak.Pak{m.findPak(record.Pak, record.PakVersion)}, sameName, m.Paks) {
		if pak != nil && pak.Service(record.Service) != nil {
			return pak.Service(record.Service)
		}
	}
	return nil
}

// installationFor returns the OpenTofu of the pak that applied a record: of the recorded version if that is installed,
// and else of the newest pak with that name. If no pak has that name, it is the newest OpenTofu of all paks. The
// recorded providers that this pak lacks are taken from any pak that has them; see AddRecorded, also for the PATH.
// missing names the providers that no pak has; it is nil if all exist.
//
// installationFor returns an error if OpenTofu cannot be installed. While a pak is unreadable, it also returns an error
// unless a pak with that name is readable in the recorded or a newer version.
func (m *Manager) installationFor(
	ctx context.Context, record *StateRecord,
) (installation opentofu.Installation, missing, err error) {
	recordedPak := m.findPak(record.Pak, record.PakVersion)
	if m.Unreadable != nil && (recordedPak == nil || recordedPak.Manifest.Version != record.PakVersion &&
		opentofu.Compare(recordedPak.Manifest.Version, record.PakVersion) <= 0) {
		return opentofu.Installation{}, nil, fmt.Errorf("pak %s %s, which the record names, is not among the readable "+
			"ones: %w", record.Pak, record.PakVersion, m.Unreadable)
	}
	if recordedPak != nil {
		installation, err = m.Installation(ctx, recordedPak, "")
	} else {
		installation, err = m.StateReader(ctx, nil)
		installation.Path = nil // the pak was not chosen for its executables
	}
	if err != nil {
		return opentofu.Installation{}, nil, err
	}
	missing = m.AddRecorded(ctx, &installation, record)
	return installation, missing, nil
}

// AddRecorded adds to the installation what the recorded template may need and the installation lacks, from the paks of
// the manager: the recorded providers, and the directories with the other executables of paks. A recorded provider that
// the installation has in another version is not added. See findProvider for the version that is added. The directories
// follow those that the installation already has: that of the pak that the record names first, then those of all paks
// in the order of the configuration.
//
// AddRecorded returns an error that names the providers that no pak has, after it has added everything else. Paks whose
// binaries cannot be used are skipped.
func (m *Manager) AddRecorded(ctx context.Context, installation *opentofu.Installation, record *StateRecord) error {
	addExecutables(ctx, m, installation, record)
	var absent []error
	for _, needed := range record.Providers {
		if slices.ContainsFunc(installation.Providers, needed.SameProvider) {
			continue
		}
		provider, err := m.findProvider(ctx, needed)
		if err != nil {
			absent = append(absent, err)
			continue
		}
		installation.Providers = append(installation.Providers, provider)
	}
	return errors.Join(absent...)
}

// addExecutables adds the directories with the other executables of all paks to the PATH of the installation, in the
// order that AddRecorded describes. The recorded template may have been applied with another pak than the recorded one,
// for example before an upgrade, so its programs may be in any of them. A pak whose binaries cannot be used is skipped,
// and a warning is logged.
func addExecutables(ctx context.Context, m *Manager, installation *opentofu.Installation, record *StateRecord) {
	for _, pak := range append([]*brokerpak.Pak{m.findPak(record.Pak, record.PakVersion)}, m.Paks...) {
		if pak == nil || !pak.Manifest.HasOtherBinaries() {
			continue // unpacking its binaries would be in vain
		}
		bundled, err := m.Installation(ctx, pak, "")
		if err != nil {
			m.Logger.Warn("leaving out the executables of a pak", "pak", pak.Path, "error", err)
			continue
		}
		for _, dir := range bundled.Path {
			if !slices.Contains(installation.Path, dir) {
				installation.Path = append(installation.Path, dir)
			}
		}
	}
}

// findPak returns the installed pak with this name and version, another one of that name, or nil; see FindPak for the
// choice.
func (m *Manager) findPak(name, version string) *brokerpak.Pak { return FindPak(m.Paks, name, version) }

// FindPak returns the pak with this name and version. If no pak has that version, or the version is "", it returns the
// pak with that name that has the newest OpenTofu, and the newest of several paks with that OpenTofu. Paks without a
// default OpenTofu are ignored. FindPak returns nil if no remaining pak has that name.
func FindPak(paks []*brokerpak.Pak, name, version string) *brokerpak.Pak {
	named := slices.DeleteFunc(slices.Clone(paks), func(pak *brokerpak.Pak) bool {
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

// TofuFor returns the default version of the OpenTofu that reads and destroys what a pak of this name and version
// applied, if these paks are installed: that of FindPak, or else the newest one of all paks. It returns "" if no pak
// has an OpenTofu.
func TofuFor(paks []*brokerpak.Pak, name, version string) string {
	pak := FindPak(paks, name, version)
	if pak == nil && len(paks) > 0 {
		pak = slices.MaxFunc(paks, compareTofu)
	}
	if pak == nil {
		return ""
	}
	tofu, _ := pak.Manifest.DefaultVersion() // "" for a pak without OpenTofu
	return tofu
}

// findProvider returns the needed provider from the paks: in the recorded version, or else in the newest one. Paks
// whose installation fails are skipped. findProvider returns an error if no pak has the provider. While a pak is
// unreadable, it is also an error if only another version exists, because the unreadable pak may have the recorded one.
func (m *Manager) findProvider(ctx context.Context, needed opentofu.Provider) (opentofu.Provider, error) {
	var candidates []opentofu.Provider
	var failed []error
	for _, pak := range m.Paks {
		installation, err := m.Installation(ctx, pak, "")
		failed = append(failed, err)
		for _, candidate := range installation.Providers {
			if !needed.SameProvider(candidate) {
				continue
			}
			if candidate.Version == needed.Version {
				return candidate, nil
			}
			candidates = append(candidates, candidate)
		}
	}
	if len(candidates) == 0 || m.Unreadable != nil {
		absent := fmt.Errorf("no installed pak bundles the provider %s %s that its record names; "+
			"keep the old pak in `paks`",
			needed.FQN, needed.Version)
		return opentofu.Provider{}, errors.Join(append(failed, m.Unreadable, absent)...)
	}
	return slices.MaxFunc(candidates, func(a, b opentofu.Provider) int {
		return opentofu.Compare(a.Version, b.Version)
	}), nil
}

// compareTofu compares two paks by their default OpenTofu version, as slices.SortFunc expects. A pak without one sorts
// first.
func compareTofu(a, b *brokerpak.Pak) int {
	va, _ := a.Manifest.DefaultVersion()
	vb, _ := b.Manifest.DefaultVersion()
	return opentofu.Compare(va, vb)
}

// ApplyUpgrade applies the template of a record with each OpenTofu of the pak's terraform_upgrade_path that is newer
// than the one that wrote the state, up to the pak's default version. The record must describe the binding or the
// instance after the upgrade; ApplyUpgrade does not change it. The stored record names the versions of the last step
// that began, and has no Failure.
//
// space is the open workspace, and state its stored state, which must not be nil. If there is nothing to upgrade,
// ApplyUpgrade applies nothing and returns nil. If a step fails, its error is returned with the versions, and the next
// ApplyUpgrade begins with that step. The errors are those of Manager.Installation, of preparing the template and of
// ApplyNewRecord, and an error if the pak has no default version or the upgrade path does not lead to it.
func (m *Manager) ApplyUpgrade(
	ctx context.Context, space *workspace.Workspace, state *statestore.State, pak *brokerpak.Pak, record *StateRecord,
) error {
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

// upgradeTo applies the template of a record with one OpenTofu version of a pak. The stored record names that version
// and the providers, and has no Failure; the caller's record does not change. The errors are those of Installation, of
// preparing the template, and of ApplyNewRecord. An error of preparing the template also names the recorded providers
// that no pak has.
func (m *Manager) upgradeTo(
	ctx context.Context, space *workspace.Workspace, pak *brokerpak.Pak, record StateRecord, version string,
) error {
	installation, err := m.Installation(ctx, pak, version)
	if err != nil {
		return err
	}
	missing := m.AddRecorded(ctx, &installation, &record)
	prepared, err := m.Engine.Prepare(ctx, installation, record.Template())
	if err != nil {
		if missing != nil {
			return fmt.Errorf("%w; %w", err, missing)
		}
		return err
	}
	record.SetInstallation(pak, installation)
	record.Failure = nil
	return m.ApplyNewRecord(ctx, space, prepared, &record, pak)
}

// ApplyNewRecord replaces provider addresses in the state according to the pak's terraform_state_provider_replacements,
// stores a record in the open workspace space, and applies its prepared template as ApplyRecord does with a record that
// is already stored. If the apply of the template fails, the new addresses and the record stay in the state. A record
// that names lost resources is not stored. The errors are those of Workspace.ReplaceProviders, StateRecord.Encode and
// ApplyRecord.
func (m *Manager) ApplyNewRecord(
	ctx context.Context, space *workspace.Workspace, prepared *templates.Prepared,
	record *StateRecord, pak *brokerpak.Pak,
) error {
	if err := space.ReplaceProviders(ctx, prepared.Installation(), pak.Manifest.ProviderReplacements); err != nil {
		return err
	}
	if err := record.AssignTo(space, m.AdapterVersion); err != nil {
		return err
	}
	return m.ApplyRecord(ctx, space, prepared, record)
}

// upgradePath returns the OpenTofu versions of a pak with which a state must be applied that the version from wrote, in
// order. These are the versions of terraform_upgrade_path above from, and from itself if it is in that path and the
// condition of the binding or the instance is not Complete. If from is the pak's default version, the result is only
// that version if the condition is Changing, because the last apply then failed, and empty otherwise. It is also empty
// if from is newer. upgradePath returns an error if the pak has no default version or the upgrade path does not lead to
// it.
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
