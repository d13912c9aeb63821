package preview

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/internal/record"
)

// ofReplacedAdapter checks an instance whose manifest, the YAML text deployed, has no record of this adapter, because
// an adapter that was replaced generated it. It tries the plans in broker, the broker's configuration, that have one of
// the manifest's instance groups, provided that the broker has one of its releases. It returns the result for the plan
// with the fewest pending changes, or the first of several such plans, with PlanGuessed set; a plan with which the
// changes cannot be determined is skipped.
//
// ofReplacedAdapter returns ErrOtherService if the manifest refers to secrets of another service, and another error if
// the manifest cannot be decoded or no plan fits. If the changes cannot be determined with any of the plans, it returns
// the error for the first one. The result is the zero Instance after an error.
func (c *Check) ofReplacedAdapter(
	ctx context.Context, deployed string, broker *odb.BrokerConfig,
) (best Instance, err error) {
	manifest, err := odb.Compared(deployed)
	if err != nil {
		return Instance{}, fmt.Errorf("reading the deployed manifest: %w", err)
	}
	if service := secretsOwner(deployed, manifest.Name); service != "" && service != broker.Catalog.ID {
		return Instance{}, ErrOtherService
	}
	fitting := slices.DeleteFunc(slices.Clone(broker.Catalog.Plans), func(plan *odb.BrokerPlan) bool {
		return !sharesRelease(manifest, &broker.Deployment) || !sharesGroup(manifest, plan)
	})
	if len(fitting) == 0 {
		return Instance{}, fmt.Errorf("this adapter did not generate its manifest: it has no record %q, "+
			"and no plan in the broker's catalog has one of its instance groups and releases", record.Key)
	}
	for _, plan := range fitting {
		pending, failure := c.changes(ctx, deployed, plan.JSON, &broker.Deployment)
		switch {
		case failure != nil && err == nil:
			err = failure
		case failure == nil && (!best.PlanGuessed || len(pending) < len(best.Changes)):
			best = Instance{Plan: plan.Name, PlanGuessed: true, Changes: pending}
		}
	}
	if best.PlanGuessed {
		return best, nil
	}
	return Instance{}, err
}

// secretsOwner returns the id of the service for which the broker stores the secrets of a deployment, or "" if the
// manifest contains no reference to such a secret. manifest is its YAML text, and deployment the name of the
// deployment, such as "service-instance_<id>". The broker stores secrets in CredHub, so that the references have the
// form ((/odb/SERVICE/DEPLOYMENT/NAME)). The first such reference counts.
func secretsOwner(manifest, deployment string) string {
	path := regexp.MustCompile(`\(\(/odb/([^/()\s]+)/` + regexp.QuoteMeta(deployment) + `/`)
	match := path.FindStringSubmatch(manifest)
	if match == nil {
		return ""
	}
	return match[1]
}

// sharesRelease reports whether a manifest and deployment, the deployment in the broker's configuration, have a release
// of the same name; versions are not compared. It returns false if one of them has no releases. Neither may be nil.
func sharesRelease(manifest *bosh.BoshManifest, deployment *serviceadapter.ServiceDeployment) bool {
	return slices.ContainsFunc(manifest.Releases, func(release bosh.Release) bool {
		return slices.ContainsFunc(deployment.Releases, func(configured serviceadapter.ServiceRelease) bool {
			return configured.Name == release.Name
		})
	})
}

// sharesGroup reports whether a plan of the broker has one of the instance groups of a manifest: a group of the same
// name, or one that names the manifest's group in migrated_from. It returns false if the manifest or the plan has no
// groups. Neither may be nil.
func sharesGroup(manifest *bosh.BoshManifest, plan *odb.BrokerPlan) bool {
	return slices.ContainsFunc(manifest.InstanceGroups, func(deployed bosh.InstanceGroup) bool {
		return slices.ContainsFunc(plan.InstanceGroups, func(group serviceadapter.InstanceGroup) bool {
			return group.Name == deployed.Name ||
				slices.ContainsFunc(group.MigratedFrom, func(from serviceadapter.Migration) bool {
					return from.Name == deployed.Name
				})
		})
	})
}
