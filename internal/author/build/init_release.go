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

// InitRelease writes a pak that deploys jobs of BOSH releases into the directory dir, which must be empty or not
// exist; it is created with its parent directories. jobs are the names of the jobs, each of which must be in exactly
// one of the releases. The manifest template has one instance group, named after the first job, with all jobs and
// their properties; a property becomes a comment, a generated secret, a BOSH variable or a plan input, see
// jobManifest. The JSON Schemas to which the files refer are not written; see SchemaFile.
//
// files are the sorted, slash-separated paths of the written files, relative to dir. The notes are sentences, without
// a final period, about points that the author should check or decide. InitRelease returns a *fault.UserError,
// without files and notes, if jobs is empty, if a job is named twice, if no release or several have it, or if its
// name has other characters than letters, digits and - _ . (plainName). Other errors are that dir is not empty,
// cannot be read or cannot be written, and that the working directory cannot be determined; files is nil then, but
// the notes are returned, and files that were written before the error remain.
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
	m.line(0, "- name: "+quotedKey(jobs[0]))
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

// findJob returns the job with a name in the only release that has it; the job is part of the release and not a copy.
// It returns nil and a *fault.UserError if no release has the job (the message then lists jobs of each release), if
// several releases have it, or if the name has other characters than letters, digits and - _ . (plainName).
func findJob(releases []*release.Release, name string) (*release.Job, error) {
	var matching []*release.Job
	var owners, names []string
	for _, candidate := range releases {
		if job := candidate.Job(name); job != nil {
			matching, owners = append(matching, job), append(owners, candidate.Name)
		}
		names = append(names, jobNames(candidate)...)
	}
	switch {
	case len(matching) == 0:
		return nil, fault.Userf("no release has a job %q%s; %s", name, diag.Suggest(name, names), jobsOf(releases))
	case len(matching) > 1:
		return nil, fault.Userf("the job %q is in several releases, %s, so the adapter could not choose one; "+
			"name only one of them with --release", name, diag.Names(owners))
	case !plainName.MatchString(name):
		return nil, fault.Userf("the name of the job %q may contain only letters, digits and the characters - _ .",
			name)
	}
	return matching[0], nil
}

// jobNames returns the names of the jobs of a release, sorted. It returns nil if the release has no jobs.
func jobNames(r *release.Release) []string {
	return value.Convert(r.Jobs, func(job release.Job) string { return job.Name })
}

// jobsOf returns a clause for messages that names the jobs of each release, such as "the release redis has a, b". At
// most nine jobs of a release are named. Clauses for several releases are separated by semicolons. The result is "" if
// there are no releases.
func jobsOf(releases []*release.Release) string {
	return strings.Join(value.Convert(releases, func(r *release.Release) string {
		return fmt.Sprintf("the release %s has %s", r.Name, diag.Names(jobNames(r)))
	}), "; ")
}

// A usedRelease is a release in the defaults of the test cases of a new pak: its name, its version, or "" if that is
// not known, and the names of those of its jobs that the pak deploys.
type usedRelease struct {
	Name, Version string
	Jobs          []string
}

// usedReleases returns an entry for each release that has some of the jobs with the names in jobs. The entries are in
// the order of releases, and the jobs of each entry in the order of jobs. It returns nil if no release has one of the
// jobs.
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
// none of the jobs provides. The author has to decide on such a link. jobs are all jobs of the pak; only the types of
// links are compared, not their names.
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
