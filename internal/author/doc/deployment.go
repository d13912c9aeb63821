package doc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/release"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// A deployment contains the entries of service_deployment, its releases and stemcells, for the catalog template. It
// does not contain the release of the adapter, which the template adds for lifecycle errands. The zero value is that of
// a service that deploys no jobs.
type deployment struct {
	// Unused are the names of the releases that are left out, because they have no job of the service, or only jobs
	// that earlier releases provide.
	Unused    []string
	Releases  []deployedRelease
	Stemcells []deployedStemcell
}

// A deployedRelease is an entry of service_deployment.releases: the name and the version of a BOSH release, the jobs
// that it provides, and comments on the entry. A name or version that only the operator knows is a placeholder, such as
// REPLACE_ME_release_version.
type deployedRelease struct {
	Name, Version string
	Jobs          []string
	// Notes are comments on the entry, without "#".
	Notes []string
}

// A deployedStemcell is an entry of service_deployment.stemcells. OS is the operating system, such as "ubuntu-jammy",
// or a placeholder; the version is not a field, because only the operator knows it. Note is the text of a comment on
// the entry, without "#", or "" for no comment.
type deployedStemcell struct{ OS, Note string }

// newDeployment returns the releases and stemcells for the manifests of a service. Only jobs with fixed names count:
// those whose names contain a ((variable)) are left out. The result is the zero value if the service has no
// provision.bosh section or no such job.
//
// Each job that a manifest may contain is assigned to the first of the releases that has it. A release that gets no
// job has no entry, and is only listed in Unused. An entry has a note for the version constraint in the definition,
// if there is one, and a note for each job that its release also has but that is assigned to an earlier release. Jobs
// that no release has are in a last entry of their own. If exactly one of the releases that the definition requires
// is not among releases, the last entry has its name; otherwise the name is a placeholder. releases may be empty, but
// must not contain nil.
func newDeployment(service *brokerpak.Service, releases []*release.Release) deployment {
	if service.Provision.Bosh == nil {
		return deployment{}
	}
	bosh := service.Provision.Bosh
	jobs := slices.Compact(slices.Sorted(slices.Values(bosh.JobNames())))
	jobs = slices.DeleteFunc(jobs, vars.Reference.MatchString) // inputs determine these names
	if len(jobs) == 0 {
		return deployment{}
	}
	d := deployment{Stemcells: deployedStemcells(bosh.Requires.Stemcells)}
	required := requiredVersions(bosh.Requires.Releases)
	providers := map[string][]string{} // of each job
	for _, available := range releases {
		entry := deployedRelease{
			Name: available.Name, Version: cmp.Or(available.Version, placeholder+"release_version"),
			Notes: constraintNotes(available.Name, required),
		}
		delete(required, available.Name)
		for _, job := range jobs {
			if available.Job(job) == nil {
				continue
			}
			if providers[job] == nil {
				entry.Jobs = append(entry.Jobs, job)
			} else {
				note := fmt.Sprintf("The job %s is also in the release %s, which provides it.", job, providers[job][0])
				entry.Notes = append(entry.Notes, note)
			}
			providers[job] = append(providers[job], available.Name)
		}
		if len(entry.Jobs) == 0 {
			d.Unused = append(d.Unused, available.Name)
			continue
		}
		d.Releases = append(d.Releases, entry)
	}
	missing := slices.DeleteFunc(jobs, func(job string) bool { return providers[job] != nil })
	if len(missing) > 0 {
		d.Releases = append(d.Releases, unknownRelease(missing, required, len(releases) > 0))
	}
	return d
}

// unknownRelease returns the entry of service_deployment.releases for the jobs that no release has. required contains
// the version constraints, by name, of the releases that the definition requires and that the author did not name on
// the command line. The name of the entry is that of the only release in required, or a placeholder; its version is a
// placeholder. Each constraint that is not empty becomes a note of the entry. If anyNamed is true, the author named
// other releases, and a note says that none of these has the jobs. If it is false and required does not have exactly
// one release, a note explains how to name releases.
func unknownRelease(jobs []string, required map[string]string, anyNamed bool) deployedRelease {
	entry := deployedRelease{Name: placeholder + "release", Version: placeholder + "release_version", Jobs: jobs}
	names := value.Keys(required)
	switch {
	case anyNamed:
		entry.Notes = []string{"No release of --release contains these jobs."}
	case len(names) == 1:
	default:
		entry.Notes = []string{
			"The jobs of the service. Name the releases that provide them, as pak catalog --release PATH does.",
		}
	}
	if len(names) == 1 {
		entry.Name = names[0]
	}
	for _, name := range names {
		entry.Notes = append(entry.Notes, constraintNotes(name, required)...)
	}
	return entry
}

// requiredVersions returns the version constraints, such as ">= 4.1, < 6", by the names of the releases. Of several
// constraints on a release, it returns the last one. The result is never nil.
func requiredVersions(constraints []brokerpak.Constraint) map[string]string {
	required := map[string]string{}
	for _, constraint := range constraints {
		required[constraint.Name] = constraint.Constraint
	}
	return required
}

// constraintNotes returns a list with one comment, without "#", such as "The pak requires the release redis >= 4.1.".
// name is that of a release, and required maps names of releases to version constraints. The result is nil if required
// has no constraint for the release, or an empty one.
func constraintNotes(name string, required map[string]string) []string {
	if required[name] == "" {
		return nil
	}
	return []string{fmt.Sprintf("The pak requires the release %s %s.", name, required[name])}
}

// deployedStemcells returns an entry for each stemcell that a definition requires, in their order. The note of an entry
// is "The pak requires " and the version constraint, without a period. If the definition requires no stemcell, the
// result is one entry without a note, whose operating system is a placeholder.
func deployedStemcells(constraints []brokerpak.Constraint) []deployedStemcell {
	if len(constraints) == 0 {
		return []deployedStemcell{{OS: placeholder + "stemcell_os"}}
	}
	return value.Convert(constraints, func(constraint brokerpak.Constraint) deployedStemcell {
		return deployedStemcell{constraint.Name, strings.TrimSpace("The pak requires " + constraint.Constraint)}
	})
}

// Computed returns the keys of an instance group, such as "vm_type" or "azs", that the definition computes, so that the
// values of a plan have no effect. The key at_most, which only limits the value of the plan, is not among them. group
// is the name of the group. Computed returns nil if the definition computes no key of it. The service must have a
// provision.bosh section.
func (c catalog) Computed(group string) (keys []string) {
	size := c.Provision.Bosh.Group(group)
	if size == nil {
		return nil
	}
	for _, computed := range size.Sizes {
		if computed.Template != nil && computed.Key != "at_most" {
			keys = append(keys, computed.Key)
		}
	}
	return keys
}
