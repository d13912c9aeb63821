package manifestgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/fault"
)

// checkVersions holds the definition's rules about versions. The user reads what is not met.
func checkVersions(requires brokerpak.Requires, deployment serviceadapter.ServiceDeployment, before *previous) error {
	versions := releaseVersions(deployment.Releases)
	var failed []error
	for _, constraint := range requires.Releases {
		failed = append(failed, meets("release", constraint, versions))
	}
	for _, constraint := range requires.Jobs {
		release, err := releaseOf(constraint.Name, deployment.Releases)
		if err == nil {
			err = meets("the release of job", constraint, map[string]string{constraint.Name: versions[release]})
		}
		failed = append(failed, err)
	}
	systems := map[string]string{}
	for _, stemcell := range deployment.Stemcells {
		systems[stemcell.OS] = stemcell.Version
	}
	for _, constraint := range requires.Stemcells {
		failed = append(failed, meets("stemcell", constraint, systems))
	}
	return errors.Join(append(failed, checkDowngrades(requires, deployment.Releases, before))...)
}

// meets holds a constraint on one of the versions, which are by name.
func meets(what string, constraint brokerpak.Constraint, versions map[string]string) error {
	version, ok := versions[constraint.Name]
	if !ok {
		return fault.Operatorf("the service requires %s %q %s; the deployment has none of that name", what, constraint.Name, constraint.Constraint)
	}
	conditions, err := brokerpak.ParseConstraint(constraint.Constraint)
	if err != nil {
		return err
	}
	ok, err = conditions.Match(version)
	if err != nil {
		return fault.Operatorf("%s %q: %s", what, constraint.Name, err)
	}
	if !ok {
		return fault.Operatorf("the service requires %s %q %s; the deployment has version %s", what, constraint.Name, constraint.Constraint, version)
	}
	return nil
}

// checkDowngrades refuses releases whose versions are lower than the deployed ones. Those that are known by a job of theirs have
// whatever name the operator gives them: where the deployment has no release of that name, nobody can tell which version is lower.
func checkDowngrades(requires brokerpak.Requires, releases []serviceadapter.ServiceRelease, before *previous) error {
	if !before.exists() || len(requires.NoDowngrade)+len(requires.NoDowngradeJobs) == 0 {
		return nil
	}
	root, err := before.root()
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
			failed = append(failed, fault.Operatorf("release %q, which provides the job %q, is not in the previous manifest", name, job))
		default:
			failed = append(failed, notLower(name, versions[name], deployed[name]))
		}
	}
	return errors.Join(failed...)
}

// notLower refuses a release whose version is lower than the deployed one.
func notLower(release, version, deployed string) error {
	if strings.HasSuffix(deployed, "latest") {
		return nil
	}
	comparison, err := brokerpak.CompareVersions(version, deployed)
	if err != nil {
		return fault.Operatorf("release %q: %s", release, err)
	}
	if comparison < 0 {
		return fault.Operatorf("release %q: version %s is lower than the deployed version %s", release, version, deployed)
	}
	return nil
}

// checkScaleIn refuses fewer instances than the previous plan had, or, of a group that the definition sizes, than are deployed.
func checkScaleIn(in *input) error {
	for _, name := range in.bosh.Requires.NoScaleIn {
		before, now := instance.FindGroup(in.PreviousPlan, name), instance.FindGroup(in.plan, name)
		if in.bosh.Group(name) != nil {
			root, err := in.before.root()
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
		return &fault.UserError{
			Message: "cannot migrate to a smaller plan",
			Err:     fmt.Errorf("instance group %q would shrink from %d to %d instances", name, before.Instances, now.Instances),
		}
	}
	return nil
}
