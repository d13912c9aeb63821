package build

import (
	"fmt"
	"slices"
	"strings"

	"service-adapter/internal/author/release"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// InitRelease writes a pak that deploys jobs of BOSH releases into a directory. The manifest template has one instance
// group, named after the first job, with all jobs and their properties; see jobManifest for what becomes of each
// property. See Init for the directory, the files and the errors of writing them. The notes are sentences, without a
// final period, about what the author should check or decide. InitRelease returns a *fault.UserError if there are no
// jobs, if a job is named twice, if not exactly one of the releases has it, or if plainName does not match its name.
func InitRelease(dir string, releases []*release.Release, jobs []string) (files, notes []string, err error) {
	m := &jobManifest{names: variableNames{taken: map[string]bool{}, suffixes: map[string]int{}}}
	if len(jobs) == 0 {
		return nil, nil, fault.Userf("which jobs? set --job for each; %s", jobsOf(releases))
	}
	var selected []*release.Job
	for i, name := range jobs {
		job, err := findJob(releases, name)
		if err != nil {
			return nil, nil, err
		}
		if slices.Contains(jobs[:i], name) {
			return nil, nil, fault.Userf("the job %q is named twice", name)
		}
		selected = append(selected, job)
	}
	m.line(0, "instance_groups:")
	m.line(0, "- name: "+jobs[0])
	m.line(1, "jobs:")
	for _, job := range selected {
		m.addJob(job)
	}
	m.writeVariables()
	m.noteLinks(selected)
	files, err = fillIn("adopted", dir, map[string]any{
		"Template": strings.TrimRight(m.text.String(), "\n"), "Group": jobs[0], "Inputs": m.inputs,
		"Secrets": m.secrets, "Carried": nil, "References": nil, "Releases": usedReleases(releases, jobs),
	})
	return files, m.notes, err
}

// findJob returns the job with a name in the only release that has it. Otherwise it returns a *fault.UserError, which
// lists the jobs of the releases or the releases with the job. It also returns a *fault.UserError if plainName does not
// match the name.
func findJob(releases []*release.Release, name string) (*release.Job, error) {
	var found []*release.Job
	var owners, names []string
	for _, candidate := range releases {
		if job := candidate.Job(name); job != nil {
			found, owners = append(found, job), append(owners, candidate.Name)
		}
		names = append(names, jobNames(candidate)...)
	}
	switch {
	case len(found) == 0:
		return nil, fault.Userf("no release has a job %q%s; %s", name, diag.Suggest(name, names), jobsOf(releases))
	case len(found) > 1:
		return nil, fault.Userf("the job %q is in several releases, %s, so the adapter could not choose one; "+
			"name only one of them with --release", name, diag.Names(owners))
	case !plainName.MatchString(name):
		return nil, fault.Userf("the name of the job %q may contain only letters, digits and the characters - _ .",
			name)
	}
	return found[0], nil
}

// jobNames returns the names of the jobs of a release, sorted.
func jobNames(r *release.Release) []string {
	return value.Convert(r.Jobs, func(job release.Job) string { return job.Name })
}

// jobsOf returns a part of a sentence for messages, which names the jobs of each release. It is "" if there are no
// releases.
func jobsOf(releases []*release.Release) string {
	return strings.Join(value.Convert(releases, func(r *release.Release) string {
		return fmt.Sprintf("the release %s has %s", r.Name, diag.Names(jobNames(r)))
	}), "; ")
}

// A usedRelease is a release in the defaults of the test cases of a new pak. Version is "" if it is not known.
type usedRelease struct {
	Name, Version string
	Jobs          []string
}

// usedReleases returns the releases that have some of the jobs, each with these jobs, in the order of the arguments. It
// returns nil if there is none.
func usedReleases(releases []*release.Release, jobs []string) (used []usedRelease) {
	for _, candidate := range releases {
		entry := usedRelease{Name: candidate.Name, Version: candidate.Version}
		for _, name := range jobs {
			if candidate.Job(name) != nil {
				entry.Jobs = append(entry.Jobs, name)
			}
		}
		if len(entry.Jobs) > 0 {
			used = append(used, entry)
		}
	}
	return used
}

// noteLinks adds a note to m.notes for each link that one of the jobs consumes, that is not optional, and whose type
// none of the jobs provides.
func (m *jobManifest) noteLinks(jobs []*release.Job) {
	provided := map[string]bool{} // by type
	for _, job := range jobs {
		for _, link := range job.Provides {
			provided[link.Type] = true
		}
	}
	for _, job := range jobs {
		for _, link := range job.Consumes {
			if !link.Optional && !provided[link.Type] {
				m.notef("decide: the job %s consumes the link %s of type %s, which no job of the pak provides",
					job.Name, link.Name, link.Type)
			}
		}
	}
}
