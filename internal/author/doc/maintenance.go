package doc

import (
	"github.com/hashicorp/go-version"

	"service-adapter/brokerpak"
)

// A MaintenanceInfo is the maintenance_info of a service_catalog: a semantic version, such as "1.2.0", and a
// description of the upgrade for users. Cloud Foundry offers users the upgrade of an instance whose own version
// differs.
type MaintenanceInfo struct {
	Version     string `yaml:"version"`
	Description string `yaml:"description"`
}

// NewMaintenanceInfo returns the maintenance_info for a pak with this manifest: the version of the pak, and the
// description "Upgrade to version VERSION of NAME". It returns nil if the version is not a semantic version with three
// numbers, such as "1.2.0" or "1.2.0-rc.1", which the broker requires. "v1.2.0" and "1.2" also result in nil.
func NewMaintenanceInfo(manifest *brokerpak.Manifest) *MaintenanceInfo {
	const segments = 3
	parsed, err := version.NewSemver(manifest.Version)
	// The library accepts and completes versions such as v1 and 1.2, which the broker rejects.
	if err != nil || parsed.String() != manifest.Version || len(parsed.Segments()) != segments {
		return nil
	}
	return &MaintenanceInfo{
		Version: manifest.Version, Description: "Upgrade to version " + manifest.Version + " of " + manifest.Name,
	}
}
