package manifestgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// complete changes tree, the interpolated manifest template, in place into the manifest of the deployment and returns
// it. It sets the name, the releases and the stemcells of the deployment, completes the instance groups from the plan
// (see instanceGroups), which includes the jobs of lifecycle errands, sets the update block (see updateBlock) and
// max_in_flight in the update blocks of groups that lack it, and sets the release of each job that names none. Empty
// lists of variables and addons are removed; all other top-level keys of the template are kept.
//
// complete returns an error in these cases, of which those with (U) are or contain a *fault.UserError:
//
//   - The deployment has no stemcell, or the version of a release or a stemcell of it is "latest" or ends with it.
//   - The groups of the template and of the plan do not match, or the plan's group for the errands of this adapter is
//     missing, ambiguous or unused (U).
//   - The plan places an errand on a missing group, or an errand that it does not place is neither a group nor a job.
//   - A group, or a job in a group or an addon, is not a mapping.
//   - No release or several releases of the deployment provide a job that names none (U).
//   - An expression of the update block fails (U only if the user's parameters are the cause), or the plan's
//     max_in_flight is not valid; see updateBlock.
//
// After an error the tree may be partly changed and must not be used. An unknown instance group or errand that the
// previous plan had as well is only logged as a warning; see instanceGroups.
func complete(d *decisions, tree map[string]any) (map[string]any, error) {
	tree["name"] = d.Deployment.DeploymentName
	var err error
	if tree["releases"], err = releases(tree["releases"], d.Deployment.Releases); err != nil {
		return nil, err
	}
	listed, alias, err := stemcells(tree["stemcells"], tree["instance_groups"], d.Deployment.Stemcells, d.previous)
	if err != nil {
		return nil, err
	}
	tree["stemcells"] = listed
	if tree["instance_groups"], err = instanceGroups(d, tree["instance_groups"], alias); err != nil {
		return nil, err
	}
	scope := d.scope.With(previousNames(d.resolution))
	if tree["update"], err = updateBlock(tree["update"], d.bosh.Update, d.BrokerPlan.Update, scope); err != nil {
		return nil, err
	}
	completeUpdates(tree)
	for _, key := range []string{"variables", "addons"} {
		if list, ok := tree[key].([]any); ok && len(list) == 0 {
			delete(tree, key)
		}
	}
	return tree, fillJobs("addon", tree["addons"], d.Deployment.Releases)
}

// releases returns one mapping with name and version for each release of the deployment, in the order of the
// deployment; the list is empty, but not nil, if the deployment has none. template is the list of releases in the
// manifest template; any other value counts as an empty list. A mapping of the template with the name of a release is
// used for it and changed in place, so its further keys are kept. Releases that only the template has are dropped. If
// versions are not exact (see checkExact), the error joins one error for each of them; the list is returned
// nevertheless.
func releases(template any, deployed []serviceadapter.ServiceRelease) ([]any, error) {
	names := value.Convert(deployed, func(release serviceadapter.ServiceRelease) string { return release.Name })
	all := entriesNamed(template, names)
	var failed []error
	for i, entry := range value.Mappings(all) {
		entry["version"] = deployed[i].Version
		failed = append(failed, checkExact("release", names[i], deployed[i].Version))
	}
	return all, errors.Join(failed...)
}

// checkExact returns an error if the version is "latest" or ends with it, as "621.latest" does, because the broker
// requires exact versions. kind is "release" or "stemcell" and name is its name; both only serve the message of the
// error.
func checkExact(kind, name, version string) error {
	if strings.HasSuffix(version, "latest") {
		return fmt.Errorf("%s %q has the version %q; the broker needs an exact version", kind, name, version)
	}
	return nil
}

// entriesNamed returns a list with one mapping for each of the names, in their order, whose key "name" is that name. If
// the template's list has a mapping with the name, that mapping itself is in the result, with its other keys, and of
// several such mappings the last; otherwise the result has a new mapping with only the name. Entries of the template
// with other names are dropped. A template that is not a list counts as an empty list. The result is never nil.
func entriesNamed(template any, names []string) []any {
	declared := byName(template)
	all := make([]any, len(names))
	for i, name := range names {
		entry := declared[name]
		if entry == nil {
			entry = map[string]any{}
		}
		entry["name"] = name
		all[i] = entry
	}
	return all
}

// byName returns the mappings in a list by the text of their key "name", without copying them. Of several mappings with
// the same name, it returns the last; a mapping without a name has the name "". Entries that are not mappings are
// ignored. If the value is not a list, the result is an empty map. The result is never nil.
func byName(list any) map[string]map[string]any {
	index := map[string]map[string]any{}
	for _, entry := range value.Mappings(list) {
		index[value.Text(entry["name"])] = entry
	}
	return index
}

// fillJobs sets, in place, the release of each job whose key release is missing or null to the release of the
// deployment that provides the job. owners is the list of instance groups or addons that contain the jobs; a value that
// is not a list has none, and entries that are not mappings or have no list of jobs are ignored. kind, "instance group"
// or "addon", names them in errors. releases are the releases of the deployment.
//
// The error joins one error for each job that is not a mapping, and one that wraps a *fault.UserError for each job that
// no release or several releases provide; the release of such a job is set to "". All other jobs are filled
// nevertheless. fillJobs returns nil if there is no such job.
func fillJobs(kind string, owners any, releases []serviceadapter.ServiceRelease) error {
	var failed []error
	for _, owner := range value.Mappings(owners) {
		jobs, _ := owner["jobs"].([]any)
		for _, item := range jobs {
			job, ok := item.(map[string]any)
			err := errors.New("every job must be a mapping")
			if ok && job["release"] != nil {
				continue
			}
			if ok {
				job["release"], err = releaseOf(value.Text(job["name"]), releases)
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("%s %s: %w", kind, value.Text(owner["name"]), err))
			}
		}
	}
	return errors.Join(failed...)
}

// releaseOf returns the name of the only release of the deployment that provides the job of this name. It returns ""
// and a *fault.UserError for the operator if no release or several releases provide the job. The message contains no
// secrets, so the user can pass it on to the operator.
func releaseOf(job string, releases []serviceadapter.ServiceRelease) (string, error) {
	var providers []string
	for _, release := range releases {
		if slices.Contains(release.Jobs, job) {
			providers = append(providers, release.Name)
		}
	}
	switch len(providers) {
	case 1:
		return providers[0], nil
	case 0:
		return "", fault.Operatorf("job '%s' not provided by any release of the deployment", job)
	default:
		return "", fault.Operatorf("job '%s' is provided by several releases of the deployment: %s",
			job, diag.Names(providers))
	}
}
