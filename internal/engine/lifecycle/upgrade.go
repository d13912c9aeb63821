package lifecycle

import (
	"context"
	"errors"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/workspace"
)

// OlderPak returns one of the installed paks with the recorded name of a binding or an instance, the one with the
// newest default OpenTofu, if they are all older than the pak that last applied it: if none of them has the recorded
// version or a newer one, or none has the recorded OpenTofu version or a newer one as its default. The cause is
// probably that the newer pak was removed. A version that is missing or cannot be compared counts as new enough.
//
// OlderPak returns nil if that is not so, if the default OpenTofu of that pak is newer than the one that wrote the
// state, so that an upgrade is possible, if no installed pak with an OpenTofu has the name, if a pak is unreadable, or
// if the condition is Unreadable. Of stored it reads only the Entry, so that State and Record may be nil.
func OlderPak(m *Manager, stored *Stored) *brokerpak.Pak {
	newest := m.findPak(stored.Pak, "")
	if m.Unreadable != nil || stored.Condition == Unreadable || newest == nil {
		return nil
	}
	var newTofu, newVersion bool
	for _, pak := range m.Paks {
		if pak.Manifest.Name == stored.Pak {
			tofu, _ := pak.Manifest.DefaultVersion() // "" is not older than any version
			newTofu = newTofu || !opentofu.Older(tofu, stored.Tofu)
			newVersion = newVersion || !opentofu.Older(pak.Manifest.Version, stored.PakVersion)
		}
	}
	newestTofu, _ := newest.Manifest.DefaultVersion()
	if newTofu && newVersion || opentofu.Older(stored.Tofu, newestTofu) {
		return nil
	}
	return newest
}

// UpgradeTarget returns the OpenTofu version, such as "1.10.6", to which UpgradeStored would upgrade a binding or an
// instance: the default one of the installed pak with the recorded name, of several the newest such version. It
// returns "" without an error if there is nothing to upgrade. There is something to upgrade if an older OpenTofu
// wrote the state, or if that default OpenTofu wrote it and the condition is Changing, which also follows a failed
// upgrade. UpgradeTarget reads no state, uses only the Entry of stored, and changes nothing.
//
// It returns an error, after which the version must not be used, if the condition is Unreadable, if a pak is
// unreadable, if no installed pak with an OpenTofu has the recorded name, if an older OpenTofu wrote the state and
// the upgrade path of the pak does not lead from it to the default OpenTofu, or if there is something to upgrade and
// the condition is neither Complete nor Changing.
func UpgradeTarget(m *Manager, stored *Stored) (string, error) {
	if stored.Condition == Unreadable {
		return "", errors.New(stored.Error)
	}
	_, versions, err := m.upgradePlan(stored)
	if err != nil || len(versions) == 0 {
		return "", err
	}
	return versions[len(versions)-1], checkUpgradable(stored.Condition)
}

// recordUpgradeFailure stores the text of failure, the error of a failed ApplyUpgrade with a version of the pak, as the
// Failure of the record in the state, so that lists show it. space is the open workspace. A state that OpenTofu could
// not save is saved first. recordUpgradeFailure may take ErrandGrace (8 seconds), even if the limit of ctx was reached.
//
// It does nothing and returns nil in these cases:
//   - ctx was canceled, or failure means that OpenTofu or a provider was killed, so that the state may lack
//     resources.
//   - failure means that another run took over the workspace or that resources are in no state.
//
// Apart from saving such an unsaved state, it also does nothing and returns nil in these cases:
//   - The workspace does not exist or is empty. An empty workspace is deleted.
//   - The state is complete, because the failed step changed no resource or failed only after it had applied
//     everything.
//
// It returns an error if no pak has a usable OpenTofu, if the state or its record cannot be read or stored, or if the
// pak does not contain the OpenTofu version that wrote the state.
func recordUpgradeFailure(
	ctx context.Context, m *Manager, space *workspace.Workspace, pak *brokerpak.Pak, failure error,
) error {
	if errors.Is(ctx.Err(), context.Canceled) || WasKilled(failure) || IsLost(failure) ||
		errors.Is(failure, workspace.ErrTakenOver) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ErrandGrace)
	defer cancel()
	reader, err := m.StateReader(ctx, pak)
	if err != nil {
		return err
	}
	state, err := space.State(ctx, reader)
	if err != nil || state == nil || state.Complete {
		return err
	}
	record, err := DecodeRecord(state.Record)
	if err != nil {
		return err
	}
	// Another OpenTofu than the one that wrote the state would replace the version in it, as if the upgrade had
	// succeeded.
	installation, err := m.Installation(ctx, pak, state.TofuVersion)
	if err != nil {
		return err
	}
	record.Failure = &Failure{Operator: failure.Error()}
	if err := record.AssignTo(space, m.AdapterVersion); err != nil {
		return err
	}
	return space.StoreRecord(ctx, installation)
}
