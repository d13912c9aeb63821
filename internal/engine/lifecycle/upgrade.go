package lifecycle

import (
	"context"
	"errors"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/workspace"
)

// OlderPak returns the newest installed pak with the recorded name if only older ones than the recorded pak are
// installed: if none of the installed paks with that name has the recorded version or a newer one, or none of them has
// the recorded OpenTofu version or a newer one as its default. The cause is probably that the newer pak was removed. A
// version that cannot be compared counts as new enough.
//
// OlderPak returns nil if that is not so, if the newest of these paks has a newer OpenTofu to upgrade to, if no
// installed pak has the name, if a pak is unreadable, or if the condition is Unreadable. Of stored it reads only the
// Entry, so that State and Record may be nil.
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

// UpgradeTarget returns the OpenTofu version to which UpgradeStored would upgrade a binding or an instance, or "" if
// there is nothing to upgrade. It returns the errors that UpgradeStored returns before it runs OpenTofu, and changes
// nothing. After an error the version must not be used. It uses only the entry.
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

// recordUpgradeFailure stores failure, the error of a failed ApplyUpgrade with a version of the pak, as the Failure of
// the record in the state, for lists. It may take ErrandGrace for that, even if the limit of ctx was reached.
//
// It does nothing if the workspace does not exist or its state is complete, which means that the upgrade changed
// nothing; if OpenTofu was killed or ctx was canceled, so that the state may lack resources; and if another run owns
// the workspace or resources are in no state. It returns an error if no pak has a usable OpenTofu, if the state or its
// record cannot be read or stored, or if the pak does not contain the OpenTofu version that wrote the state.
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
