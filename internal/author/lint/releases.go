package lint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/author/release"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// unresolvedRelease is the release of the jobs in generated manifests that none or several of the given releases have.
// It contains a blank, so that no real release and no template has the name.
const unresolvedRelease = "no single release"

// givenReleases returns the releases of a simulated deployment with the given jobs: the releases that the author gave,
// each with the jobs that only it has, and unresolvedRelease with all other jobs. Each also gets a job with an invented
// name, because a release must have at least one. The version of a release without one is 1.0.0.
func (l *linter) givenReleases(jobs []string) serviceadapter.ServiceReleases {
	all := make(serviceadapter.ServiceReleases, 0, len(l.releases)+1)
	for _, given := range l.releases {
		// A release has at least one job.
		owned := serviceadapter.ServiceRelease{
			Name: given.Name, Version: cmp.Or(given.Version, "1.0.0"), Jobs: []string{"of-" + given.Name},
		}
		for _, job := range jobs {
			if owners := l.owners(job); len(owners) == 1 && owners[0] == given {
				owned.Jobs = append(owned.Jobs, job)
			}
		}
		all = append(all, owned)
	}
	unresolved := slices.DeleteFunc(slices.Clone(jobs), func(job string) bool { return len(l.owners(job)) == 1 })
	return append(all, serviceadapter.ServiceRelease{
		Name: unresolvedRelease, Version: "1.0.0", Jobs: append(unresolved, "of-"+unresolvedRelease),
	})
}

// namedReleases returns the names of releases that jobs of the templates name by the key release. A name may be
// contained several times.
func (c *serviceCheck) namedReleases() []string {
	var names []string
	var walk func(node *yaml.Node)
	walk = func(node *yaml.Node) {
		_, name := yamltree.Get(node, "name")
		_, owner := yamltree.Get(node, "release")
		if name != nil && owner != nil && owner.Kind == yaml.ScalarNode && !isVariable(owner.Value) {
			names = append(names, owner.Value)
		}
		for _, child := range node.Content {
			walk(child)
		}
	}
	for _, document := range c.documentTrees {
		walk(document.root)
	}
	return names
}

// owners returns the given releases that have a job.
func (l *linter) owners(job string) []*release.Release {
	return slices.DeleteFunc(slices.Clone(l.releases), func(r *release.Release) bool { return r.Job(job) == nil })
}

// checkReleases adds an error to l.diags for each release whose name an earlier release has. The position is the
// manifest of the pak.
func (l *linter) checkReleases() {
	names := map[string]bool{}
	for _, given := range l.releases {
		if names[given.Name] {
			l.diags.Errorf(diag.Pos{File: l.pak.Display("manifest.yml"), Line: 1}, "release-job",
				"--release was given two releases with the name %q; a deployment has one version of a release",
				given.Name)
		}
		names[given.Name] = true
	}
}

// A finding is a finding about a manifest, without the plans that it concerns.
type finding struct {
	severity diag.Severity
	pos      diag.Pos
	rule     string
	message  string
	hint     diag.Hint
}

// A comparison compares the generated manifests of a service with the given releases.
type comparison struct {
	*player
	locator *locator
	// plans are the names of the plans whose manifests have a finding.
	plans map[finding]map[string]bool
	reads map[*release.Job][]release.Read
}

// compareReleases compares the generated manifests with the given releases and adds the findings to c.diags. A finding
// that concerns some plans only names them. A plan for which no manifest could be generated gets a note in c.notes.
// Without releases or BOSH templates, compareReleases does nothing. The error is not nil only if ctx ended.
func (c *player) compareReleases(ctx context.Context) error {
	if len(c.releases) == 0 || len(c.documentTrees) == 0 {
		return nil
	}
	comparison := &comparison{
		player: c, locator: &locator{c.documentTrees}, plans: map[finding]map[string]bool{},
		reads: map[*release.Job][]release.Read{},
	}
	possible, err := c.possibleManifests(ctx)
	if err != nil {
		return err
	}
	compared := map[string]bool{}
	for _, manifest := range possible {
		compared[manifest.plan] = true
		comparison.compare(manifest)
	}
	for _, manifest := range c.manifests {
		manifest.forced = true
		comparison.compare(manifest)
	}
	for found, plans := range comparison.plans {
		if names := value.Keys(plans); len(plans) > 0 && len(plans) < len(compared) {
			found.message += "; the plans with this finding are " + diag.Names(names)
		}
		c.diags.Add(diag.Diagnostic{
			Severity: found.severity, Rule: found.rule, Message: found.message, Hint: found.hint, Pos: found.pos,
		})
	}
	for _, plan := range c.service.Plans {
		if !compared[plan.Name] {
			c.notes = append(c.notes, fmt.Sprintf("service %q: links and properties without values of plan %q were "+
				"not compared with the releases, because its manifest could not be generated with sample values",
				c.service.Name, plan.Name))
		}
	}
	return nil
}

// maxOptionalGroups is the number of optional instance groups whose combinations are tried.
const maxOptionalGroups = 4

// possibleManifests generates the manifests that the plans can have: with each combination of the optional instance
// groups that the checks of the definition allow. For a plan without such a combination, because sample values do not
// pass the checks, they are the manifests of the plan in c.manifests that were generated without forced ops files. The
// error is not nil only if ctx ended.
func (c *player) possibleManifests(ctx context.Context) ([]simulation, error) {
	var all []simulation
	allowed := map[string]bool{}
	for _, attempt := range c.deployments() {
		attempt.service.Provision.Bosh.Checks = c.service.Provision.Bosh.Checks
		generator := c.generator(&attempt)
		generator.CheckManifest = func(map[string]any) error { return nil } // play checks the manifests
		for _, request := range c.requests(attempt) {
			groups := request.BrokerPlan.InstanceGroups
			for _, omitted := range combinations(c.service.Provision.Bosh.OptionalInstanceGroups) {
				request.BrokerPlan.InstanceGroups = slices.DeleteFunc(slices.Clone(groups),
					func(group serviceadapter.InstanceGroup) bool { return slices.Contains(omitted, group.Name) })
				result, err := generator.Generate(ctx, request)
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				if err == nil { // play reports errors
					all = append(all, newSimulation(attempt, result.Manifest))
					allowed[attempt.plan.Name] = true
				}
			}
		}
	}
	for _, manifest := range c.manifests {
		if !allowed[manifest.plan] && !manifest.forced {
			all = append(all, manifest)
		}
	}
	return all, nil
}

// combinations returns all subsets of names, including the empty one, which is nil. Of more than maxOptionalGroups
// names, it returns only the empty one and all names.
func combinations(names []string) [][]string {
	if len(names) > maxOptionalGroups {
		return [][]string{nil, names}
	}
	all := [][]string{nil}
	for _, name := range names {
		for _, subset := range slices.Clone(all) {
			all = append(all, append(slices.Clone(subset), name))
		}
	}
	return all
}

// A deployedJob is a job of a generated manifest.
type deployedJob struct {
	name  string
	group string // the instance group, or the addon
	// path leads to the job in the manifest.
	path []string
	// manifest is the job's mapping in the manifest.
	manifest map[string]any
	// legacy are the properties of the group and of the manifest, which BOSH uses for a job without properties.
	legacy map[string]any
	// spec is nil if none or several of the releases have the job.
	spec *release.Job
}

// at returns the path of a part of the job.
func (j *deployedJob) at(steps ...string) []string { return slices.Concat(j.path, steps) }

// properties returns the properties that BOSH uses for the job. own is true if the manifest has properties for the job
// itself; otherwise BOSH uses those of the instance group and of the manifest. The properties are nil if those of the
// job are not a mapping.
func (j *deployedJob) properties() (properties map[string]any, own bool) {
	item, exists := j.manifest["properties"]
	if !exists || item == nil {
		return j.legacy, false
	}
	properties, _ = item.(map[string]any)
	return properties, true
}

// A manifestCheck compares one generated manifest with the releases.
type manifestCheck struct {
	*comparison
	simulation
	// complete means that the releases have all jobs, so that all links are known.
	complete bool
}

// report records a finding at the location of a path of the manifest in the templates, for the plan of the manifest
// unless conditional ops files were forced. A finding that was recorded before only gets another plan. A hint among the
// arguments, which is also part of the message, becomes the hint of the finding.
func (m *manifestCheck) report(severity diag.Severity, path []string, rule, format string, args ...any) {
	found := finding{
		severity: severity, pos: m.locator.locate(path).pos, rule: rule, message: fmt.Sprintf(format, args...),
	}
	for _, arg := range args {
		if hint, ok := arg.(diag.Hint); ok {
			found.hint = hint
		}
	}
	if m.plans[found] == nil {
		m.plans[found] = map[string]bool{}
	}
	if !m.forced {
		m.plans[found][m.plan] = true
	}
}

// compare compares a manifest with the releases. Links and properties without values are only checked in manifests that
// a plan can have.
func (c *comparison) compare(manifest simulation) {
	m := &manifestCheck{comparison: c, simulation: manifest, complete: true}
	jobs := m.jobsOf("instance_groups")
	addons := m.jobsOf("addons")
	for _, job := range slices.Concat(jobs, addons) {
		m.resolve(job)
		if job.spec != nil {
			m.declared(job)
		}
	}
	if manifest.forced {
		return
	}
	for _, job := range slices.Concat(jobs, addons) {
		if job.spec != nil {
			m.unset(job)
		}
	}
	m.links(append(jobs, m.colocated(addons)...))
}

// get returns the value at a top-level key of the manifest, or nil if the manifest does not have the key.
func (m *manifestCheck) get(key string) any {
	item, err := m.GetRaw("/" + key)
	if err != nil {
		return nil // the manifest does not have the key
	}
	return item
}

// jobsOf returns the jobs of the list at a key of the manifest, "instance_groups" or "addons", in its order. Their
// specs are not set; see resolve.
func (m *manifestCheck) jobsOf(key string) []*deployedJob {
	var all []*deployedJob
	global, _ := m.get("properties").(map[string]any)
	for _, owner := range value.Mappings(m.get(key)) {
		own, _ := owner["properties"].(map[string]any)
		for _, job := range value.Mappings(owner["jobs"]) {
			name, group := value.Text(job["name"]), value.Text(owner["name"])
			all = append(all, &deployedJob{
				name: name, group: group, manifest: job, legacy: value.Merge(global, own),
				path: []string{key, "name=" + group, "jobs", "name=" + name},
			})
		}
	}
	return all
}

// colocated returns a copy of each job of an addon for each instance group that the addon applies to.
func (m *manifestCheck) colocated(jobs []*deployedJob) []*deployedJob {
	var all []*deployedJob
	addons := map[string]map[string]any{}
	for _, addon := range value.Mappings(m.get("addons")) {
		addons[value.Text(addon["name"])] = addon
	}
	for _, job := range jobs {
		for _, group := range value.Mappings(m.get("instance_groups")) {
			if addonApplies(addons[job.group], group) {
				added := *job
				added.group = value.Text(group["name"])
				all = append(all, &added)
			}
		}
	}
	return all
}

// addonApplies reports whether the filters of an addon select an instance group: it matches include, and it does not
// match exclude. The keys instance_groups, lifecycle and jobs of a filter are evaluated, and must all match. All other
// keys, such as networks, which the operator chooses, are ignored. A missing filter, and one with ignored keys only,
// selects every group as include and none as exclude.
func addonApplies(addon, group map[string]any) bool {
	matches := func(filter map[string]any) (result, known bool) {
		result = true
		if names, ok := filter["instance_groups"].([]any); ok {
			known, result = true, result && slices.Contains(names, group["name"])
		}
		if lifecycle, ok := filter["lifecycle"]; ok {
			known, result = true, result && lifecycle == cmp.Or[any](group["lifecycle"], "service")
		}
		if jobs, ok := filter["jobs"].([]any); ok {
			known, result = true, result && slices.ContainsFunc(value.Mappings(jobs), func(wanted map[string]any) bool {
				return slices.ContainsFunc(value.Mappings(group["jobs"]), func(job map[string]any) bool {
					return job["name"] == wanted["name"]
				})
			})
		}
		return result, known
	}
	include, _ := addon["include"].(map[string]any)
	exclude, _ := addon["exclude"].(map[string]any)
	included, _ := matches(include)
	excluded, known := matches(exclude)
	return included && (!known || !excluded)
}

// resolve sets the spec of a job. It reports errors: a job that none or several of the releases have, and one whose
// release the template names although it was not given or does not have the job. After such a report, the spec of the
// job is nil and m.complete is false.
func (m *manifestCheck) resolve(job *deployedJob) {
	name := value.Text(job.manifest["release"])
	names := value.Convert(m.releases, func(given *release.Release) string { return given.Name })
	if index := slices.Index(names, name); index >= 0 {
		given := m.releases[index]
		if job.spec = given.Job(job.name); job.spec == nil {
			m.complete = false
			existing := jobNames([]*release.Release{given})
			m.report(diag.Error, job.at("name"), "release-job", "the release %q has no job %q%s; it has %s",
				name, job.name, diag.Suggest(job.name, existing), diag.Names(existing))
		}
		return
	}
	m.complete = false
	owners := value.Convert(m.owners(job.name), func(given *release.Release) string { return given.Name })
	switch {
	case name != unresolvedRelease:
		m.report(diag.Error, job.at("release"), "release-job",
			"job %q is from the release %q, which --release does not give%s; it gives %s",
			job.name, name, diag.Suggest(name, names), diag.Names(names))
	case len(owners) == 0:
		existing := jobNames(m.releases)
		m.report(diag.Error, job.at("name"), "release-job", "no given release has a job %q%s; the jobs of %s are %s",
			job.name, diag.Suggest(job.name, existing), diag.Names(names), diag.Names(existing))
	default:
		m.report(diag.Error, job.at("name"), "release-several",
			"the releases %s have a job %q; name one of them by the key release of the job",
			strings.Join(owners, " and "), job.name)
	}
}

// jobNames returns the names of the jobs of releases, in their order. A name may be contained several times.
func jobNames(releases []*release.Release) []string {
	var names []string
	for _, given := range releases {
		for _, job := range given.Jobs {
			names = append(names, job.Name)
		}
	}
	return names
}
