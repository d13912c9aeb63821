package manifestgen

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
	"service-adapter/internal/instance"
)

// checkVersions checks the versions in the deployment against the constraints of the definition, and against those of
// the deployed manifest where the definition forbids downgrades. It returns all violations, joined, as
// *fault.UserErrors, and nil if there are none. A required release or stemcell that the deployment lacks, and a
// required job that no release or several provide, are violations as well. A constraint that cannot be parsed and a
// deployed manifest that cannot be read are other errors.
func checkVersions(
	requires brokerpak.Requires, deployment serviceadapter.ServiceDeployment, previous *deployedInstance,
) error {
	versions := releaseVersions(deployment.Releases)
	var failed []error
	for _, constraint := range requires.Releases {
		failed = append(failed, checkConstraint("release", constraint, versions))
	}
	for _, constraint := range requires.Jobs {
		release, err := releaseOf(constraint.Name, deployment.Releases)
		if err == nil {
			err = checkConstraint("the release of job", constraint,
				map[string]string{constraint.Name: versions[release]})
		}
		failed = append(failed, err)
	}
	systems := map[string]string{}
	for _, stemcell := range deployment.Stemcells {
		systems[stemcell.OS] = stemcell.Version
	}
	for _, constraint := range requires.Stemcells {
		failed = append(failed, checkConstraint("stemcell", constraint, systems))
	}
	return errors.Join(append(failed, checkDowngrades(requires, deployment.Releases, previous))...)
}

// checkConstraint checks one constraint. The versions are those of the releases, jobs or stemcells by name; kind
// describes them in the error. It returns a *fault.UserError if the name is missing, or if its version cannot be
// compared or does not meet the constraint. A constraint that cannot be parsed is another error.
func checkConstraint(kind string, constraint brokerpak.Constraint, versions map[string]string) error {
	version, ok := versions[constraint.Name]
	if !ok {
		return fault.Operatorf("the service requires %s %q %s; the deployment has none of that name",
			kind, constraint.Name, constraint.Constraint)
	}
	conditions, err := brokerpak.ParseConstraint(constraint.Constraint)
	if err != nil {
		return err
	}
	ok, err = conditions.Match(version)
	if err != nil {
		return fault.Operatorf("%s %q: %s", kind, constraint.Name, err)
	}
	if !ok {
		return fault.Operatorf("the service requires %s %q %s; the deployment has version %s",
			kind, constraint.Name, constraint.Constraint, version)
	}
	return nil
}

// checkDowngrades returns a *fault.UserError for each release that the definition protects from downgrades if its
// version is lower than the deployed version or cannot be compared with it. A protected release that is new or no
// longer in the deployment is not checked. A release that the definition identifies by one of its jobs may have any
// name; it is an error if no release or several provide the job, or if the deployed manifest has no release of the
// current name. On create, checkDowngrades returns nil. It returns another error if the deployed manifest cannot be
// read.
func checkDowngrades(
	requires brokerpak.Requires, releases []serviceadapter.ServiceRelease, previous *deployedInstance,
) error {
	if !previous.exists() || len(requires.NoDowngrade)+len(requires.NoDowngradeJobs) == 0 {
		return nil
	}
	root, err := previous.root()
	if err != nil {
		return err
	}
	deployed, versions := instance.DeployedReleases(root), releaseVersions(releases)
	var failed []error
	for _, release := range releases {
		if _, ok := deployed[release.Name]; ok && slices.Contains(requires.NoDowngrade, release.Name) {
			failed = append(failed, notLower(release.Name, release.Version, deployed[release.Name]))
		}
	}
	for _, job := range requires.NoDowngradeJobs {
		name, err := releaseOf(job, releases)
		switch _, ok := deployed[name]; {
		case err != nil:
			failed = append(failed, err)
		case !ok:
			failed = append(failed, fault.Operatorf(
				"release %q, which provides the job %q, is not in the previous manifest", name, job))
		default:
			failed = append(failed, notLower(name, versions[name], deployed[name]))
		}
	}
	return errors.Join(failed...)
}

// notLower returns a *fault.UserError if the version of the release is lower than the deployed version or cannot be
// compared with it. A deployed version that ends with "latest" accepts every version.
func notLower(release, version, deployed string) error {
	if strings.HasSuffix(deployed, "latest") {
		return nil
	}
	comparison, err := brokerpak.CompareVersions(version, deployed)
	if err != nil {
		return fault.Operatorf("release %q: %s", release, err)
	}
	if comparison < 0 {
		return fault.Operatorf("release %q: version %s is lower than the deployed version %s",
			release, version, deployed)
	}
	return nil
}

// checkScaleIn returns a *fault.UserError if a group that the definition lists under no_scale_in would have fewer
// instances in the plan, whose groups are sized; a group that the plan lacks has none. The size is compared with that
// in the previous plan, or, if the definition computes it, with that in the deployed manifest; a group that is missing
// there is not checked. The message for the user blames the plan only if this request changes it. checkScaleIn returns
// another error if the deployed manifest cannot be read. It reports only the first group.
func checkScaleIn(r *resolution, plan *serviceadapter.Plan) error {
	for _, name := range r.bosh.Requires.NoScaleIn {
		before, now := instance.FindGroup(r.PreviousPlan, name), instance.FindGroup(plan, name)
		if r.bosh.Group(name) != nil {
			root, err := r.previous.root()
			if err != nil {
				return err
			}
			before = instance.FindGroup(instance.DeployedPlan(root), name)
		}
		if before == nil || now != nil && now.Instances >= before.Instances {
			continue
		}
		if now == nil {
			now = &serviceadapter.InstanceGroup{}
		}
		if !changesPlan(r) {
			return fault.Userf("the service instance has %d instances of %q and cannot be reduced to %d",
				before.Instances, name, now.Instances)
		}
		return &fault.UserError{
			Message: "cannot migrate to a smaller plan",
			Err: fmt.Errorf("instance group %q would shrink from %d to %d instances",
				name, before.Instances, now.Instances),
		}
	}
	return nil
}

// changesPlan reports whether the ID of the plan differs from that in the record, or whether the broker's plan differs
// in any way from the previous plan that the broker sends. The first comparison is omitted if the record has no ID, as
// for a manifest of another adapter, and the second one without a previous plan.
func changesPlan(r *resolution) bool {
	recorded := r.previous.record.PlanID
	return recorded != "" && recorded != r.identity.PlanID ||
		r.PreviousPlan != nil && !reflect.DeepEqual(*r.PreviousPlan, r.BrokerPlan)
}
