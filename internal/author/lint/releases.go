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

// unresolvedRelease is the release, in generated manifests, of the jobs that none or several of the releases have that
// the author passed. It contains a blank, so that no real release and no template has the name.
const unresolvedRelease = "no single release"

// deploymentReleases returns the releases of a simulated deployment that provide the jobs with these names. The first
// ones are the releases that the author passed, each with those of the jobs that only it has. The last one is always
// unresolvedRelease, with the jobs that none or several of the releases have. Each release also gets a job with an
// invented name, because a release must have at least one, and the version 1.0.0 if it has none. jobs is not modified.
func (l *linter) deploymentReleases(jobs []string) serviceadapter.ServiceReleases {
	all := make(serviceadapter.ServiceReleases, 0, len(l.releases)+1)
	for _, passed := range l.releases {
		// A release has at least one job.
		owned := serviceadapter.ServiceRelease{
			Name: passed.Name, Version: cmp.Or(passed.Version, "1.0.0"), Jobs: []string{"of-" + passed.Name},
		}
		for _, job := range jobs {
			if owners := l.owners(job); len(owners) == 1 && owners[0] == passed {
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

// namedReleases returns the names of releases that the BOSH templates in c.documentTrees, which the method documents
// sets, contain under the key release of a mapping that also has the key name, such as a job. Names that contain a
// variable are left out. The result may contain a name several times, and is nil if there are none.
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

// owners returns those of the releases that the author passed that have a job with this name. The result is empty if
// none has it.
func (l *linter) owners(job string) []*release.Release {
	return slices.DeleteFunc(slices.Clone(l.releases), func(r *release.Release) bool { return r.Job(job) == nil })
}

// checkReleases adds an error to l.diags for each release that the author passed and whose name an earlier one has. The
// position is the first line of the pak's manifest.yml.
func (l *linter) checkReleases() {
	names := map[string]bool{}
	for _, passed := range l.releases {
		if names[passed.Name] {
			l.diags.Errorf(diag.Pos{File: l.pak.Display("manifest.yml"), Line: 1}, "release-job",
				"--release names two releases with the name %q; a deployment has one version of a release",
				passed.Name)
		}
		names[passed.Name] = true
	}
}

// A finding is a finding about generated manifests, without the plans that it concerns. It is a key of
// comparison.plans, so that equal findings about several manifests are reported once.
type finding struct {
	severity diag.Severity
	pos      diag.Pos
	rule     string
	message  string
	hint     diag.Hint
}

// A comparison compares all generated manifests of one service with the releases that the author passed. Its map plans
// collects the findings with the names of the plans that they concern; the set of names is empty for a finding in
// forced manifests only. The map reads caches, for each job, the calls of p in its templates that release.Job.Reads
// returns. The locator finds the positions of findings. Neither map may be nil.
type comparison struct {
	*player
	locator *locator
	// plans are the names of the plans whose manifests have a finding.
	plans map[finding]map[string]bool
	reads map[*release.Job][]release.Read
}

// compareReleases compares the generated manifests of the service with the releases that the author passed, and adds
// the findings to c.diags. It must be called after play, which sets c.manifests. Without releases, or if no BOSH
// template is valid YAML, it does nothing and returns nil.
//
// It checks the manifests that possibleManifests returns and those in c.manifests for jobs and names of properties.
// It checks links and properties without values only in the former. A finding in the former names its plans in the
// message unless it concerns all plans for which possibleManifests returns a manifest. For each other plan of the
// service, whose manifest could not be generated with sample values, a note is added to c.notes.
//
// If ctx ended while manifests were generated, compareReleases adds nothing and returns the error of ctx. It returns no
// other error.
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
	for item, plans := range comparison.plans {
		if names := value.Keys(plans); len(plans) > 0 && len(plans) < len(compared) {
			item.message += "; the plans with this finding are " + diag.Names(names)
		}
		c.diags.Add(diag.Diagnostic{
			Severity: item.severity, Rule: item.rule, Message: item.message, Hint: item.hint, Pos: item.pos,
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

// possibleManifests generates and returns manifests that the plans can have. It generates them for each plan without
// parameters and with those of each of its examples, for each request that the method requests returns, and for each
// combination of optional instance groups to leave out (see combinations). The key checks of the bosh section applies,
// unlike in play; its key requires does not. Manifests that the checks reject, or that cannot be generated for another
// reason, are left out without a finding, because play reports errors.
//
// For a plan for which none remains, because sample values do not pass the checks, the result contains instead its
// manifests in c.manifests that were generated without forced ops files. possibleManifests returns nil and the error of
// ctx if ctx ended, and no other error.
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

// combinations returns all subsets of names, beginning with the empty one, which is nil. For more than
// maxOptionalGroups (4) names, it returns only the empty subset and names itself.
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

// A deployedJob is a job of an instance group or addon in a generated manifest, with its spec from the releases. The
// spec is nil until resolve sets it, and remains nil if resolve reports an error. group is the name of the instance
// group or addon; in a copy that colocated returns, it is that of the instance group to which the addon adds the job,
// and path still leads to the addon.
type deployedJob struct {
	name  string
	group string // the instance group, or the addon
	// path leads to the job in the manifest.
	path []string
	// manifest is the job's mapping in the manifest.
	manifest map[string]any
	// legacy are the properties of the group and of the manifest, which BOSH uses for a job without properties.
	legacy map[string]any
	// spec is that of the release that the manifest names for the job; see resolve.
	spec *release.Job
}

// at returns the path of a part of the job in the manifest, in the form that locator.locate uses: "instance_groups",
// "name=GROUP", "jobs", "name=JOB" (or "addons" instead of "instance_groups"), followed by steps. The result is a new
// slice.
func (j *deployedJob) at(steps ...string) []string { return slices.Concat(j.path, steps) }

// properties returns the properties that BOSH uses for the job. own is true if the manifest has properties, other
// than null, for the job itself; the result is nil if they are not a mapping. Otherwise own is false, and the result
// consists of the properties of the whole manifest and those of the instance group or addon, which replace those of
// the manifest with the same top-level key. It is then empty, not nil, if there are none. The result must not be
// modified.
func (j *deployedJob) properties() (properties map[string]any, own bool) {
	item, exists := j.manifest["properties"]
	if !exists || item == nil {
		return j.legacy, false
	}
	properties, _ = item.(map[string]any)
	return properties, true
}

// A manifestCheck compares one generated manifest, the simulation that it embeds, with the releases that the author
// passed, and records its findings in the comparison that it embeds. complete must be true at first; resolve sets it to
// false if it does not find the spec of a job, which may then provide unknown links.
type manifestCheck struct {
	*comparison
	simulation
	// complete means that resolve found the specs of all jobs so far, so that all links are known.
	complete bool
}

// report records a finding in m.plans, for the plan of the manifest. format and args result in the message, as by
// fmt.Sprintf. A diag.Hint among args, which needs a verb in format like every other argument, also becomes the hint of
// the finding. path leads to the part of the manifest that the finding concerns, in the form that locator.locate uses.
// The position of the finding is the location of that part in the templates, or of its nearest ancestor there.
//
// If an equal finding was recorded before, it only gets another plan. If the field forced of the manifest is true, the
// finding is recorded, but gets no plan.
func (m *manifestCheck) report(severity diag.Severity, path []string, rule, format string, args ...any) {
	item := finding{
		severity: severity, pos: m.locator.locate(path).pos, rule: rule, message: fmt.Sprintf(format, args...),
	}
	for _, arg := range args {
		if hint, ok := arg.(diag.Hint); ok {
			item.hint = hint
		}
	}
	if m.plans[item] == nil {
		m.plans[item] = map[string]bool{}
	}
	if !m.forced {
		m.plans[item][m.plan] = true
	}
}

// compare compares a manifest with the releases that the author passed, and records the findings in c.plans. It checks
// that the release that each job of an instance group or addon names was passed and has the job. If the template names
// no release for a job, exactly one of the passed releases must have it (see resolve). compare also checks that the
// specs declare the properties of jobs (see declared). In a manifest that a plan can have, whose field forced is false,
// it also checks links and properties without values; see links and unset. A job without a spec is only checked by
// resolve.
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

// get returns the value at a top-level key of the manifest, such as "instance_groups". It returns nil if the manifest
// does not have the key or cannot be decoded.
func (m *manifestCheck) get(key string) any {
	item, err := m.GetRaw("/" + key)
	if err != nil {
		return nil // the manifest does not have the key
	}
	return item
}

// jobsOf returns the jobs of the instance groups or addons in the manifest, in its order. key is "instance_groups" or
// "addons". The field spec of each job is nil; see resolve. Entries that are not mappings are left out, and a missing
// name is "". The result is nil if there are none.
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

// colocated returns the jobs that addons add to instance groups: for each of jobs, which must be those of the
// manifest's addons, one copy per instance group that the addon applies to. The field group of a copy is the name of
// the instance group; all other fields, such as spec and path, are those of the job. If several addons have the same
// name, the jobs of all of them go to the instance groups to which the last one applies. jobs is not modified. The
// result is nil if there are none.
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

// addonApplies reports whether an addon applies to an instance group, both as mappings from a manifest: the group
// matches the filter include of the addon, and does not match its filter exclude. A group matches a filter if it
// matches each of these keys that the filter has: instance_groups, which lists its name; lifecycle, which is its
// lifecycle, "service" by default; and jobs, which lists the name of at least one of its jobs; the release of a listed
// job is not compared.
//
// All other keys of a filter, such as networks, which the operator chooses, are ignored. A missing filter, and one with
// ignored keys only, matches every group as include and none as exclude.
func addonApplies(addon, group map[string]any) bool {
	matches := func(filter map[string]any) (result, isSet bool) {
		result = true
		if names, ok := filter["instance_groups"].([]any); ok {
			isSet, result = true, result && slices.Contains(names, group["name"])
		}
		if lifecycle, ok := filter["lifecycle"]; ok {
			isSet, result = true, result && lifecycle == cmp.Or[any](group["lifecycle"], "service")
		}
		if jobs, ok := filter["jobs"].([]any); ok {
			isSet, result = true, result && slices.ContainsFunc(value.Mappings(jobs), func(wanted map[string]any) bool {
				return slices.ContainsFunc(value.Mappings(group["jobs"]), func(job map[string]any) bool {
					return job["name"] == wanted["name"]
				})
			})
		}
		return result, isSet
	}
	include, _ := addon["include"].(map[string]any)
	exclude, _ := addon["exclude"].(map[string]any)
	included, _ := matches(include)
	excluded, isSet := matches(exclude)
	return included && (!isSet || !excluded)
}

// resolve sets the spec of a job to that of the release that the job names. It reports an error if the author did not
// pass this release, or if the release does not have the job. For a job whose release is unresolvedRelease, it reports
// an error because none or several of the releases have the job. After such an error, the spec of the job is nil and
// m.complete is false.
func (m *manifestCheck) resolve(job *deployedJob) {
	name := value.Text(job.manifest["release"])
	names := value.Convert(m.releases, func(r *release.Release) string { return r.Name })
	if index := slices.Index(names, name); index >= 0 {
		named := m.releases[index]
		if job.spec = named.Job(job.name); job.spec == nil {
			m.complete = false
			existing := jobNames([]*release.Release{named})
			m.report(diag.Error, job.at("name"), "release-job", "the release %q has no job %q%s; it has %s",
				name, job.name, diag.Suggest(job.name, existing), diag.Names(existing))
		}
		return
	}
	m.complete = false
	owners := value.Convert(m.owners(job.name), func(r *release.Release) string { return r.Name })
	switch {
	case name != unresolvedRelease:
		m.report(diag.Error, job.at("release"), "release-job",
			"job %q is from the release %q, which is not one of the releases of --release%s; they are %s",
			job.name, name, diag.Suggest(name, names), diag.Names(names))
	case len(owners) == 0:
		existing := jobNames(m.releases)
		m.report(diag.Error, job.at("name"), "release-job",
			"no release of --release contains a job %q%s; the jobs of %s are %s",
			job.name, diag.Suggest(job.name, existing), diag.Names(names), diag.Names(existing))
	default:
		m.report(diag.Error, job.at("name"), "release-several",
			"the releases %s have a job %q; name one of them by the key release of the job",
			strings.Join(owners, " and "), job.name)
	}
}

// jobNames returns the names of all jobs of the releases, in their order. The result may contain a name several times,
// and is nil if there are none.
func jobNames(releases []*release.Release) []string {
	var names []string
	for _, source := range releases {
		for _, job := range source.Jobs {
			names = append(names, job.Name)
		}
	}
	return names
}
