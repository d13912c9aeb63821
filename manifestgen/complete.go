package manifestgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak/vars"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// complete makes the tree of a template that of the deployment: what the broker sends replaces, or is added to, what the template has.
func complete(in *input, scope *vars.Scope, tree map[string]any) (map[string]any, error) {
	tree["name"] = in.Deployment.DeploymentName
	var err error
	if tree["releases"], err = releases(tree["releases"], in.Deployment.Releases); err != nil {
		return nil, err
	}
	listed, alias, err := stemcells(tree["stemcells"], tree["instance_groups"], in.Deployment.Stemcells, in.before)
	if err != nil {
		return nil, err
	}
	tree["stemcells"] = listed
	if tree["instance_groups"], err = instanceGroups(in, tree["instance_groups"], alias); err != nil {
		return nil, err
	}
	scope = scope.With(previousNames(in))
	if tree["update"], err = update(tree["update"], in.bosh.Update, in.BrokerPlan.Update, scope); err != nil {
		return nil, err
	}
	completeUpdates(tree)
	for _, key := range []string{"variables", "addons"} {
		if list, ok := tree[key].([]any); ok && len(list) == 0 {
			delete(tree, key)
		}
	}
	return tree, fillJobs("addon", tree["addons"], in.Deployment.Releases)
}

// releases lists the deployment's releases; further keys that the template has for one are kept.
func releases(template any, deployed []serviceadapter.ServiceRelease) ([]any, error) {
	names := value.Each(deployed, func(release serviceadapter.ServiceRelease) string { return release.Name })
	all := listed(template, names)
	var failed []error
	for i, entry := range value.Mappings(all) {
		entry["version"] = deployed[i].Version
		failed = append(failed, checkExact("release", names[i], deployed[i].Version))
	}
	return all, errors.Join(failed...)
}

// checkExact refuses versions such as latest.
func checkExact(what, name, version string) error {
	if strings.HasSuffix(version, "latest") {
		return fmt.Errorf("%s %q has the version %q; the broker needs an exact version", what, name, version)
	}
	return nil
}

// listed makes a list of mappings with these names. What the template has besides for one of that name is kept.
func listed(template any, names []string) []any {
	kept := byName(template)
	all := make([]any, len(names))
	for i, name := range names {
		entry := kept[name]
		if entry == nil {
			entry = map[string]any{}
		}
		entry["name"] = name
		all[i] = entry
	}
	return all
}

// byName indexes a list of mappings.
func byName(list any) map[string]map[string]any {
	index := map[string]map[string]any{}
	for _, entry := range value.Mappings(list) {
		index[value.Text(entry["name"])] = entry
	}
	return index
}

// fillJobs sets the release of each job of instance groups or addons: the one of the deployment that provides it, unless the template
// names one.
func fillJobs(what string, owners any, releases []serviceadapter.ServiceRelease) error {
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
				failed = append(failed, fmt.Errorf("%s %s: %w", what, value.Text(owner["name"]), err))
			}
		}
	}
	return errors.Join(failed...)
}

// releaseOf is the release that provides a job. The user reads an error of it: as with a version that is not admitted, there is nothing
// secret in it, and who created the instance can pass it on.
func releaseOf(job string, releases []serviceadapter.ServiceRelease) (string, error) {
	var found []string
	for _, release := range releases {
		if slices.Contains(release.Jobs, job) {
			found = append(found, release.Name)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fault.Operatorf("job '%s' not provided by any release of the deployment", job)
	default:
		return "", fault.Operatorf("job '%s' is provided by several releases of the deployment: %s", job, diag.Names(found))
	}
}
