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

// An upgradeEffect is the combined effect of an upgrade on all compared instances of one service: their number, the
// worst effect of the changes of their manifests and secrets, whether BOSH changes several VMs at a time, and whether
// an instance could not be compared. The zero value means that no instance was compared.
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

// add counts an instance as compared, and adds the effects of its changes. deployed is its deployed manifest as YAML,
// which determines whether BOSH changes several VMs at a time; see changesSeveralVMs, also for a manifest that cannot
// be decoded. Changes of OpenTofu resources are ignored, because the broker offers no upgrade for them: they happen
// with the next update. Without other changes, only the number of compared instances increases.
func (e *upgradeEffect) add(deployed string, changes []manifestdiff.Change) {
	e.compared++
	for i := range changes {
		if changes[i].OpenTofu == "" {
			e.worst = max(e.worst, changes[i].Effect)
			e.several = e.several || changesSeveralVMs(deployed)
		}
	}
}

// changesSeveralVMs reports whether BOSH may change more than one VM of an instance group at the same time, because a
// group with several instances, other than an errand, has a max_in_flight other than 1. The value is that of the
// group's own update block or, if the group has no such block, that of the manifest's top-level update block. A block
// without max_in_flight counts as one with another value than 1. manifest is a YAML text. The result is also true if it
// cannot be decoded or has no top-level update block.
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

// description returns the effect of the upgrade for users, as the description of maintenance_info. By the worst effect,
// the result is:
//
//   - "restarts no server" for no effect, and for an effect on metadata alone.
//   - "restarts servers PACE" or "recreates servers PACE and keeps their disks". PACE is "several at a time" if BOSH
//     changes several VMs at a time, and else "one at a time".
//   - "changes credentials: apps must be bound again" for changed credentials.
//   - "may delete servers, disks or data" for every other effect.
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

// proposeMaintenance adds at most one finding about the maintenance_info of the broker's service_catalog. effect is
// the combined effect of an upgrade on the instances of a service, and pos the position of the service in the new
// pak. Changes of OpenTofu resources do not count, because the broker offers no upgrade for them.
//
// If the manifest or a secret of an instance changes, the verdict is "needs upgrade". The finding then proposes the
// version of the new pak and the description of the effect. If both paks have the same version, it asks for a new
// version instead, and if the version of the new pak is not a semantic version, for one that is.
//
// If no manifest and no secret changes, the verdict is "safe", and the finding advises to keep the version in
// maintenance_info. There is no finding then if both paks have the same version, if no instance was compared, or if
// effect is incomplete, because the comparison of an instance failed or was not possible.
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
			"manifests change and the pak's version %s is not a semantic version: give it one for `maintenance_info` "+
				"of the broker's `service_catalog`, with the description %q, to offer the upgrade to users",
			after, effect.description())
	default:
		c.add(needsUpgrade, upgradeRule, pos, "to offer the upgrade to users, set `maintenance_info` of the broker's "+
			"`service_catalog` to {version: %s, description: %q}", proposed.Version, effect.description())
	}
}
