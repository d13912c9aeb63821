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

// checkVersions checks the versions of releases, jobs and stemcells in the deployment against requires, the rules of
// the definition. The version of a job is that of the release that provides it; a stemcell is identified by its
// operating system. A constraint on a release or stemcell that the deployment has several times applies to the last
// one. Where the rules forbid downgrades, checkVersions also checks releases against the versions in the manifest of
// previous, the deployed instance. previous must not be nil; on create it has no manifest, and downgrades are not
// checked.
//
// checkVersions returns all violations, joined, as *fault.UserErrors for the operator, and nil if there are none. A
// required release or stemcell that the deployment lacks, and a required job that no release or several releases
// provide, are violations as well; see checkDowngrades for those of the rules against downgrades. A constraint that
// cannot be parsed and a deployed manifest that cannot be read are other errors, joined with the violations.
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

// checkConstraint checks the version of one release, job or stemcell against a constraint such as ">= 4.1, < 6".
// versions maps names to versions; the name is that in the constraint. kind describes the names in errors: "release",
// "the release of job" or "stemcell". checkConstraint returns a *fault.UserError for the operator if versions does not
// contain the name, or if the version is not a BOSH version or does not meet the constraint. A constraint that cannot
// be parsed is another error. The result is nil if the version meets the constraint.
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

// checkDowngrades checks that releases, those of the deployment, are not older than in the manifest of previous, the
// deployed instance, if requires protects them from downgrades. previous must not be nil; on create it has no manifest,
// and checkDowngrades returns nil, as it does without such rules.
//
//   - For a rule with the name of a release, it is a violation if the version of the release is lower than the deployed
//     version or cannot be compared with it (see notLower). A release that is new or no longer in the deployment is not
//     checked.
//   - For a rule with the name of a job, the same applies to the release that provides the job. It is also a violation
//     if no release or several releases provide the job, or if the deployed manifest does not have the release, which
//     is then new.
//
// All violations are returned, joined, as *fault.UserErrors for the operator. If the deployed manifest cannot be read,
// the result is that error alone.
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

// notLower returns a *fault.UserError for the operator if version, that of the release in the deployment, is lower than
// deployed, its version in the deployed manifest, or if one of them is not a BOSH version. Otherwise it returns nil. If
// deployed ends with "latest", every version is accepted. release is the name for the error.
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

// checkScaleIn returns a *fault.UserError for the first group under no_scale_in of the definition that would have fewer
// instances in plan than before, and nil if there is none. plan is the broker's plan with the sizes that the definition
// computes; a group that it lacks counts as a group with 0 instances. The earlier size is that in the previous plan of
// the request or, if provision.bosh.instance_groups has an entry for the group, that in the deployed manifest. A group
// without an earlier size, as on create, is not checked.
//
// The message for the user is "cannot migrate to a smaller plan" if this request changes the plan, and otherwise names
// the group and the sizes. checkScaleIn returns another error if the deployed manifest is needed and cannot be read.
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

// changesPlan reports whether this request changes the plan of the instance: whether the ID of the plan differs from
// that in the record, or the broker's plan differs in any way from the previous plan in the request. The first
// comparison is omitted if the record has no ID, as for a manifest of another adapter and on create, and the second one
// if the request has no previous plan. Without both, the result is false.
func changesPlan(r *resolution) bool {
	recorded := r.previous.record.PlanID
	return recorded != "" && recorded != r.identity.PlanID ||
		r.PreviousPlan != nil && !reflect.DeepEqual(*r.PreviousPlan, r.BrokerPlan)
}
