package doc

import (
	"github.com/hashicorp/go-version"

	"service-adapter/brokerpak"
)

// MaintenanceInfo is the maintenance_info of a service_catalog. Cloud Foundry offers an upgrade of instances with
// another version.
type MaintenanceInfo struct {
	Version     string `yaml:"version"`
	Description string `yaml:"description"`
}

// NewMaintenanceInfo returns the maintenance_info for a pak: its version, and a description that names the version. It
// returns nil if the version is not a semantic version, which the broker requires.
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
