package diff

import (
	"fmt"

	"gopkg.in/yaml.v2"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"

	"service-adapter/internal/author/doc"
	"service-adapter/internal/diag"
	"service-adapter/internal/operate/manifestdiff"
)

// upgradeRule is the rule of the findings about maintenance_info.
const upgradeRule = "maintenance-info"

// An upgradeEffect is the effect of an upgrade on the instances of one service.
type upgradeEffect struct {
	// compared is the number of instances that were compared.
	compared int
	// incomplete reports that an instance could not be compared.
	incomplete bool
	// worst is the worst effect of the changes of manifests, and NoEffect without any.
	worst manifestdiff.Effect
	// several reports that BOSH changes several VMs of an instance at the same time.
	several bool
}

// add adds the changes of an instance with a deployed manifest. Resources of OpenTofu do not count, because the broker
// offers no upgrade for them: they change with the next update.
func (e *upgradeEffect) add(deployed string, changes []manifestdiff.Change) {
	e.compared++
	for i := range changes {
		if changes[i].OpenTofu == "" {
			e.worst = max(e.worst, changes[i].Effect)
			e.several = e.several || changesSeveralVMs(deployed)
		}
	}
}

// changesSeveralVMs reports whether BOSH changes more than one VM of an instance group at the same time, according to
// the update blocks of a manifest. It returns true for a manifest that cannot be decoded or has no update block.
func changesSeveralVMs(manifest string) bool {
	var decoded bosh.BoshManifest
	if yaml.Unmarshal([]byte(manifest), &decoded) != nil || decoded.Update == nil {
		return true // the comparison reports the error
	}
	for _, group := range decoded.InstanceGroups {
		update := decoded.Update
		if group.Update != nil {
			update = group.Update
		}
		if group.Lifecycle != "errand" && group.Instances > 1 && fmt.Sprint(update.MaxInFlight) != "1" {
			return true
		}
	}
	return false
}

// description returns the effect of the upgrade for users, as the description of maintenance_info. It says that the
// upgrade restarts no server, for no effect or one on metadata alone; that it restarts or recreates servers, one or
// several at a time; that it changes credentials; and for every other effect that servers, disks or data may be
// deleted.
func (e *upgradeEffect) description() string {
	pace := "one at a time"
	if e.several {
		pace = "several at a time"
	}
	switch e.worst {
	case manifestdiff.NoEffect, manifestdiff.Metadata:
		return "restarts no server"
	case manifestdiff.Restart:
		return "restarts servers " + pace
	case manifestdiff.Recreate:
		return "recreates servers " + pace + " and keeps their disks"
	case manifestdiff.Credentials:
		return "changes credentials: apps must be bound again"
	default:
		return "may delete servers, disks or data"
	}
}

// proposeMaintenance adds a finding about the maintenance_info of the broker's service_catalog: that it needs a new
// version, with the effect of the upgrade as its description, if the manifest of an instance changes; or that the
// version must stay, if none of them changes although the pak has a new version. If no manifest changes, it adds
// nothing when the version is the same, when no instance was compared, or when one could not be compared. pos is the
// position of the service in the new pak.
func (c *comparison) proposeMaintenance(pos diag.Pos, effect *upgradeEffect) {
	before, after := c.old.Manifest.Version, c.new.Manifest.Version
	proposed := doc.NewMaintenanceInfo(&c.new.Manifest)
	switch {
	case effect.worst == manifestdiff.NoEffect && (before == after || effect.compared == 0 || effect.incomplete):
	case effect.worst == manifestdiff.NoEffect:
		c.add(safe, upgradeRule, pos, "no manifest changes, so keep the version in `maintenance_info` of the broker's "+
			"`service_catalog` as it is")
	case before == after:
		c.add(needsUpgrade, upgradeRule, pos,
			"manifests change and the pak still has version %s: give it a new version for `maintenance_info` of the "+
				"broker's `service_catalog`, with the description %q, to offer the upgrade to users",
			before, effect.description())
	case proposed == nil:
		c.add(needsUpgrade, upgradeRule, pos,
			"manifests change and the pak's version %s is no semantic version: give it one for `maintenance_info` of "+
				"the broker's `service_catalog`, with the description %q, to offer the upgrade to users",
			after, effect.description())
	default:
		c.add(needsUpgrade, upgradeRule, pos, "to offer the upgrade to users, set `maintenance_info` of the broker's "+
			"`service_catalog` to {version: %s, description: %q}", proposed.Version, effect.description())
	}
}
