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

// complete changes the interpolated template, in place, into the manifest of the deployment and returns it. It sets the
// name, the releases, the stemcells, the instance groups and the update block from what the broker sends, and the
// releases of jobs that name none; other keys of the template are kept, except empty lists of variables and addons. It
// returns an error if the template does not fit the deployment or the plan, if the deployment has no stemcell or a
// version that is not exact, or if an expression of the update block fails; the template may then be partly changed.
// See instanceGroups and fillJobs for the causes that are *fault.UserErrors.
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

// releases returns the deployment's releases with their versions, in the order of the deployment. The template argument
// is the list in the template; further keys of a release there are kept, and its mappings are changed in place.
// Releases that only the template has are dropped. It returns an error for each version that is not exact; see
// checkExact.
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

// checkExact returns an error if the version is "latest" or ends with it, because the broker requires exact versions.
// The kind and the name describe the release or stemcell in the error.
func checkExact(kind, name, version string) error {
	if strings.HasSuffix(version, "latest") {
		return fmt.Errorf("%s %q has the version %q; the broker needs an exact version", kind, name, version)
	}
	return nil
}

// entriesNamed returns a list with one mapping for each of the names, in their order. If the template's list has a
// mapping with that name, it is used, and changed in place. Entries of the template with other names are dropped.
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

// byName returns the mappings in a list by their key "name", without copying them. Of several with the same name it
// returns the last; a mapping without a name has the name "". Other entries are ignored. A value that is not a list
// gives an empty map.
func byName(list any) map[string]map[string]any {
	index := map[string]map[string]any{}
	for _, entry := range value.Mappings(list) {
		index[value.Text(entry["name"])] = entry
	}
	return index
}

// fillJobs sets, in place, the release of each job that names none, to the release of the deployment that provides the
// job. The owners are instance groups or addons; the kind names them in errors. It returns an error for each job that
// is not a mapping, and a *fault.UserError for each whose release cannot be determined; the other jobs are set
// nevertheless.
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

// releaseOf returns the name of the release that provides the job. It returns a *fault.UserError if none or several do.
// The message contains nothing secret, so the user can pass it on to the operator.
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
