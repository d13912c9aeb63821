package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/internal/opentofu"
)

// Reader returns an OpenTofu that can read states: the one of the preferred pak, which may be nil, else the newest that works. What is
// wrong with one pak must not keep anybody from deleting what another one made.
func (m *Manager) Reader(ctx context.Context, preferred *brokerpak.Pak) (opentofu.Installation, error) {
	paks := slices.SortedStableFunc(slices.Values(m.Paks), func(a, b *brokerpak.Pak) int {
		switch {
		case a == preferred:
			return -1
		case b == preferred:
			return 1
		}
		return compareTofu(b, a)
	})
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

// Service is the one that made a binding or instance, as the installed paks have it now; nil when they do not have it any more.
func (m *Manager) Service(record *Record) *brokerpak.Service {
	var found *brokerpak.Service
	for _, pak := range m.Paks {
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

// installationFor returns the OpenTofu of the pak that made the binding or instance: of the same version when it is still installed,
// else the newest; without that pak any. The providers come from whatever pak has them; missing names those that none has.
func (m *Manager) installationFor(ctx context.Context, record *Record) (installation opentofu.Installation, missing, err error) {
	if own := m.pakOf(record); own != nil {
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
		if slices.ContainsFunc(installation.Providers, needed.is) {
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

// pakOf is the pak that made a binding or instance; else the one of its name with the newest OpenTofu; nil when there is none.
func (m *Manager) pakOf(record *Record) *brokerpak.Pak {
	for _, pak := range m.Paks {
		if _, err := pak.Manifest.DefaultVersion(); err == nil && pak.Manifest.Name == record.Pak && pak.Manifest.Version == record.PakVersion {
			return pak
		}
	}
	return m.newest(record.Pak)
}

// newest is the pak of a name with the newest OpenTofu, and of several with the same one the newest pak; nil when there is none.
func (m *Manager) newest(name string) *brokerpak.Pak {
	named := slices.DeleteFunc(slices.Clone(m.Paks), func(pak *brokerpak.Pak) bool {
		_, err := pak.Manifest.DefaultVersion()
		return err != nil || pak.Manifest.Name != name
	})
	if len(named) == 0 {
		return nil
	}
	return slices.MaxFunc(named, func(a, b *brokerpak.Pak) int {
		return cmp.Or(compareTofu(a, b), opentofu.Compare(a.Manifest.Version, b.Manifest.Version))
	})
}

// findProvider looks for a provider in all paks: in the recorded version, else in the newest.
func (m *Manager) findProvider(ctx context.Context, needed Provider) (opentofu.Provider, error) {
	var best opentofu.Provider
	var failed []error
	for _, pak := range m.Paks {
		installation, err := m.Installation(ctx, pak, "")
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
			if best.FQN == "" || opentofu.Older(best.Version, candidate.Version) {
				best = candidate
			}
		}
	}
	if best.FQN == "" {
		return best, errors.Join(append(failed, fmt.Errorf("no installed pak bundles the provider %s %s that made this; "+
			"keep the old pak in `paks`", needed.FQN, needed.Version))...)
	}
	return best, nil
}

// compareTofu orders paks by their OpenTofu.
func compareTofu(a, b *brokerpak.Pak) int {
	va, _ := a.Manifest.DefaultVersion()
	vb, _ := b.Manifest.DefaultVersion()
	return opentofu.Compare(va, vb)
}
