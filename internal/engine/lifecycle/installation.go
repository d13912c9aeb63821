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

// StateReader returns an OpenTofu that can read states: the default version of the preferred pak, or else the newest
// default version of m.Paks that can be installed. preferred may be nil, which means no preference. The fallback
// keeps a defect of one pak from preventing the deletion of a binding of another pak. StateReader calls
// Manager.Installation, which may unpack files. It returns an error, which joins those of all paks, only if
// Manager.Installation fails for all of them, for example because they have no default version or the context has
// ended. Without any pak, it returns the zero Installation and no error.
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

// Service returns the service of a record from the installed paks: the service with the recorded name in the pak that
// FindPak selects for the recorded pak and version, else in another pak of the same name, else in any pak. It returns
// nil if no installed pak has a service of that name. The record must not be nil.
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

// installationFor returns the OpenTofu that can work on the state of a record. It is the default OpenTofu of the
// first of these paks that exists; a pak without a default OpenTofu does not count:
//   - the installed pak with the recorded name and version
//   - the pak with the recorded name that has the newest OpenTofu
//   - of all paks whose OpenTofu can be installed, the one with the newest OpenTofu
//
// If m has no paks, the installation is the zero Installation, and err is nil unless a pak is unreadable. Recorded
// providers that the chosen pak lacks, and the directories with executables for the PATH, are added from the paks of
// m as AddRecorded describes. missing is an error that names the recorded providers that no pak can supply, which are
// all of them if m has no paks. It is nil if all can be supplied. A template that needs none of the missing providers
// still works.
//
// installationFor returns an error, with the zero Installation and a nil missing, if the OpenTofu of the chosen pak
// cannot be installed, or if m has paks but none of them has an OpenTofu that can be installed. While a pak is
// unreadable, it also returns an error unless the chosen pak has the recorded name and the recorded or a newer
// version.
func (m *Manager) installationFor(
	ctx context.Context, record *StateRecord,
) (installation opentofu.Installation, missing, err error) {
	recordedPak := m.findPak(record.Pak, record.PakVersion)
	if m.Unreadable != nil && (recordedPak == nil || recordedPak.Manifest.Version != record.PakVersion &&
		opentofu.Compare(recordedPak.Manifest.Version, record.PakVersion) <= 0) {
		return opentofu.Installation{}, nil, fmt.Errorf("pak %s %s, which the record names, is not among the paks "+
			"that can be read: %w", record.Pak, record.PakVersion, m.Unreadable)
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

// AddRecorded adds to the installation, from the paks of the manager, what the recorded template may need and the
// installation lacks: the recorded providers, and the directories with the other executables of the paks, which are
// neither OpenTofu nor providers.
//
// A recorded provider is not added if the installation has it, in whichever version. Otherwise it is added in the
// recorded version or, if no pak has that, in the newest version of all paks. While a pak is unreadable, no other
// version is added, because the unreadable pak may contain the recorded one. The directories follow those that the
// installation already has: that of the pak that the record names first, then those of all paks in the order of the
// configuration.
//
// A pak whose binaries cannot be used is skipped, and a warning is logged if it has such executables. After it has
// added everything else, AddRecorded returns an error that names the recorded providers that it could not add. The
// error is nil if there are none.
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

// addExecutables adds the directories with the other executables of all paks to the PATH of the installation, unless it
// contains them: first that of the pak that the record names, then those of m.Paks in their order. Other executables
// are those that are neither OpenTofu nor providers. The recorded template may have been applied with another pak than
// the recorded one, for example before an upgrade, so its programs may be in any of them. A pak whose binaries cannot
// be used is skipped, and a warning is logged.
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

// findPak returns the installed pak with this name and version. If no pak has that version, or the version is "", it
// returns the pak with that name that has the newest default OpenTofu. Paks without a default OpenTofu are ignored,
// even if they have the version. findPak returns nil if no pak with a default OpenTofu has that name. See FindPak.
func (m *Manager) findPak(name, version string) *brokerpak.Pak { return FindPak(m.Paks, name, version) }

// FindPak returns the one of paks with this name and version, for example "postgres" and "1.2.0". If no pak has that
// version, or the version is "", it returns the pak with that name that has the newest default OpenTofu, and the one
// with the highest version of several paks with that OpenTofu. A pak without a default OpenTofu is never returned, not
// even if it has the name and the version. FindPak returns nil if no remaining pak has that name. It does not change
// paks.
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

// TofuFor returns the version of the OpenTofu, such as "1.10.6", that would destroy the bindings and instances of the
// pak with this name and version if exactly these paks were installed and usable. Only paks with a default OpenTofu
// count: the result is the default version of the one that FindPak selects or, if none of them has the name, the
// newest default version. TofuFor returns "" if no pak has a default OpenTofu.
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

// findProvider returns the needed provider from the installed paks, with the path of its executable: in the version
// of needed, or else in the highest version. The same provider in the two public registries counts as equal. Paks
// whose installation fails are skipped. findProvider returns the zero Provider and an error if no pak has the
// provider; the error contains those of the skipped paks. If m.Unreadable is set, because a configured pak cannot be
// read, it is also an error if only another version exists, because that pak may have the needed one. A skipped pak
// has no such effect.
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

// compareTofu compares two paks by their default OpenTofu version, as slices.SortFunc expects: the result is negative
// if that of a is older than that of b, positive if it is newer, and 0 if both are equal. A pak without a default
// OpenTofu is older than every pak that has one.
func compareTofu(a, b *brokerpak.Pak) int {
	va, errA := a.Manifest.DefaultVersion()
	vb, errB := b.Manifest.DefaultVersion()
	switch {
	case errA != nil && errB != nil:
		return 0
	case errA != nil:
		return -1
	case errB != nil:
		return 1
	}
	return opentofu.Compare(va, vb)
}

// ApplyUpgrade applies the template of a record with OpenTofu versions of the pak's terraform_upgrade_path, one after
// the other, up to the pak's default version. If no apply is necessary, ApplyUpgrade returns nil. The first version
// depends on the one that wrote the state and on the condition (see ConditionOf):
//   - A version older than the default one wrote the state: the next version in the path or, unless the condition is
//     Complete, the version that wrote the state, if it is in the path.
//   - The default version wrote the state: that version alone if the condition is Changing, because the last apply
//     failed, and otherwise none.
//   - A newer or an unknown version wrote the state: none.
//
// space is the open workspace, and state is its stored state, which must not be nil. The record must describe the
// binding or the instance after the upgrade; ApplyUpgrade does not change it. The record that is stored in the state
// afterwards names the versions of the last step whose apply began, and has no Failure; it is unchanged if no apply
// began.
//
// If a step fails, its error is returned with the versions, later steps are not run, and the next ApplyUpgrade begins
// with the failed step. The errors are those of Manager.Installation, of preparing the template and of ApplyNewRecord,
// for example a *LostResourcesError. It is also an error if the pak has no default version, whichever version wrote the
// state, or if an upgrade is necessary and the upgrade path does not lead to the default version.
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

// upgradeTo applies the template of a record in the open workspace with the OpenTofu of the pak that has this version,
// such as "1.10.6". The record that it stores in the state names the pak, that version and its providers, and has no
// Failure; the caller's record does not change, because it is passed by value. upgradeTo returns an error if the
// OpenTofu cannot be installed or the template cannot be prepared, and the errors of ApplyNewRecord. An error of
// preparing the template also names the recorded providers that no pak has.
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

// ApplyNewRecord stores a new record in the open workspace space, and applies the prepared template of the record
// with the recorded inputs. Before that, it replaces provider addresses in the state according to the
// terraform_state_provider_replacements of the pak, which must not be nil and is used for nothing else. The caller
// must have reserved the workspace or read its state with space. ApplyNewRecord sets the record's Format, Adapter and
// UpdatedAt, as StateRecord.Encode does. ApplyRecord, by contrast, expects a record that the workspace already has.
//
// If the apply of the template fails, the new addresses and the record stay in the state. If the record names lost
// resources, only the addresses are replaced, and the error is a *LostResourcesError. The other errors are those of
// Workspace.ReplaceProviders, of StateRecord.Encode and of ApplyRecord.
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

// upgradePath returns the OpenTofu versions of a pak, such as "1.10.6", with which a state must be applied that the
// version from wrote, in ascending order. condition is that of the binding or the instance.
//
// If from is older than the pak's default version, these are the versions of terraform_upgrade_path above from, and
// from itself if it is in that path and condition is not Complete. If the default version is not among them,
// upgradePath returns nil and an error. If from is the default version and condition is Changing, because the last
// apply failed, the result is only that version. Otherwise, also if from is not a version, the result is nil without an
// error, and the path is not checked.
//
// It is always an error if the pak has no default version.
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
