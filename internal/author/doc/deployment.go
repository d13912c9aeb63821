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

// A deployment contains the data of service_deployment for the catalog template, without the release of the adapter.
type deployment struct {
	// Unused are the names of the releases that have none of the jobs of the service, and are therefore left out.
	Unused    []string
	Releases  []deployedRelease
	Stemcells []deployedStemcell
}

// A deployedRelease is an entry of service_deployment.releases. A name or version that only the operator knows is a
// placeholder.
type deployedRelease struct {
	Name, Version string
	Jobs          []string
	// Notes are comments on the entry, without "#".
	Notes []string
}

// A deployedStemcell is an entry of service_deployment.stemcells. Note is a comment on it, or "".
type deployedStemcell struct{ OS, Note string }

// newDeployment returns the releases and stemcells for the manifests of a service. Each job that these may contain,
// unless an input determines its name, is assigned to the first release that has it. A release without any of the jobs
// is only listed in Unused. Jobs that no release has are in an entry of their own, whose name is that of the only other
// release that the definition requires, or a placeholder. newDeployment returns nil if the service deploys no jobs.
func newDeployment(service *brokerpak.Service, releases []*release.Release) *deployment {
	if service.Provision.Bosh == nil {
		return nil
	}
	bosh := service.Provision.Bosh
	jobs := slices.Compact(slices.Sorted(slices.Values(bosh.JobNames())))
	jobs = slices.DeleteFunc(jobs, vars.Reference.MatchString) // inputs determine these names
	if len(jobs) == 0 {
		return nil
	}
	d := &deployment{Stemcells: deployedStemcells(bosh.Requires.Stemcells)}
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

// unknownRelease returns the entry of service_deployment.releases for the jobs that no release has. Its name is that of
// the only release in required, or a placeholder; its version is a placeholder. required are the version constraints,
// by name, of the releases that the definition requires and that were not given; each becomes a note. given means that
// releases were given, which another note then says.
func unknownRelease(jobs []string, required map[string]string, given bool) deployedRelease {
	entry := deployedRelease{Name: placeholder + "release", Version: placeholder + "release_version", Jobs: jobs}
	names := value.Keys(required)
	switch {
	case given:
		entry.Notes = []string{"None of the given releases has these jobs."}
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

// requiredVersions returns the version constraints by the names of the releases. Of several constraints on a release,
// it returns the last one.
func requiredVersions(constraints []brokerpak.Constraint) map[string]string {
	required := map[string]string{}
	for _, constraint := range constraints {
		required[constraint.Name] = constraint.Constraint
	}
	return required
}

// constraintNotes returns a comment with the version constraint on a release, or nil if there is none.
func constraintNotes(name string, required map[string]string) []string {
	if required[name] == "" {
		return nil
	}
	return []string{fmt.Sprintf("The pak requires the release %s %s.", name, required[name])}
}

// deployedStemcells returns the stemcells that a definition requires, each with its version constraint as its note. If
// there are none, it returns one without a note, whose operating system is a placeholder.
func deployedStemcells(constraints []brokerpak.Constraint) []deployedStemcell {
	if len(constraints) == 0 {
		return []deployedStemcell{{OS: placeholder + "stemcell_os"}}
	}
	return value.Convert(constraints, func(constraint brokerpak.Constraint) deployedStemcell {
		return deployedStemcell{constraint.Name, strings.TrimSpace("The pak requires " + constraint.Constraint)}
	})
}

// Computed returns the keys of an instance group that the definition computes, so that the value of a plan has no
// effect. The key at_most, which only limits the value of the plan, is not among them. Computed returns nil if there
// are none.
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
