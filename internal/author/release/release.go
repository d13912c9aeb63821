// Package release reads BOSH releases: the jobs of a release, their properties, links and templates. It reads a
// release tarball, compiled or not, and a directory with the source of a release. Packages and blobs are not read, so
// that a directory can be used without its blobs.
//
// Releases come from others, so every size and count is limited, no file is written, and no path leads outside of the
// release. An error names the file and, where there is one, the field.
package release

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// The limits of a release. The largest public releases have about 100 jobs, and job specs and templates of 100 KB.
const (
	maxText      = 4 << 20   // bytes of a manifest, a spec or a template
	maxTemplates = 64 << 20  // bytes of all templates
	maxJobs      = 2_000     // jobs of a release
	maxEntries   = 100_000   // entries of an archive
	maxJob       = 256 << 20 // bytes of the unpacked archive of a job
	maxTarball   = 64 << 30  // bytes of an unpacked release, with the compiled packages that are skipped
)

// A Release is the part of a BOSH release that manifests refer to: its name, its version and its jobs.
type Release struct {
	// Name is never empty.
	Name string
	// Version is "" if the release has no version and the caller of Open provided none.
	Version string
	// Jobs are sorted by name, and their names are unique.
	Jobs []Job
}

// Job returns the job of the release with this name, or nil if the release does not have it. The result points into
// r.Jobs, which must be sorted by name, as Open returns them.
func (r *Release) Job(name string) *Job {
	index, ok := slices.BinarySearchFunc(r.Jobs, name, func(job Job, name string) int {
		return strings.Compare(job.Name, name)
	})
	if !ok {
		return nil
	}
	return &r.Jobs[index]
}

// A Job is a job of a release: the properties and links that its spec declares, and the texts of its templates.
type Job struct {
	// Name is never empty.
	Name string
	// Properties are the declared properties by their dotted names, such as "tls.enabled". The map is never nil.
	Properties map[string]Property
	// Consumes are the links that the job needs from other jobs, in the order of the spec. Their names are unique.
	Consumes []Link
	// Provides are the links that the job offers to other jobs, in the order of the spec. Their names are unique.
	Provides []Link
	// Templates are the texts of the job's templates by their paths below templates/. The monit file has the key
	// "monit". A template that the release does not contain is left out, because the Director reports it. The map is
	// never nil.
	Templates map[string]string
}

// A Property is the declaration of a property of a job in its spec: its description, default, example and type. A
// default of null counts as none. The zero Property is declared without any of these.
type Property struct {
	// Description is the text of the spec, which may have several lines, or "".
	Description string
	// Default is the default value, as package value defines values. It is nil if HasDefault is false.
	Default any
	// HasDefault reports whether the spec declares a default other than null. BOSH treats a default of null as none.
	HasDefault bool
	// Example is the example of the spec, as package value defines values, or nil.
	Example any
	// Type is the type that the spec states, such as "certificate", or "". BOSH does not define types; few specs have
	// them.
	Type string
}

// A Link is a BOSH link that a job provides or consumes, as its spec declares it: the name, the type, whether a
// consumer works without it, and the names of the properties that a provider publishes.
type Link struct {
	Name string
	Type string
	// Optional reports whether a consumer works without the link. It is false for a provider.
	Optional bool
	// Properties are the dotted names of the properties that a provider publishes. It is nil for a consumer.
	Properties []string
}

// Open reads the release at path: a tarball that was compressed with gzip, or a directory with the source of a release,
// which contains the directory jobs and the file config/final.yml. The version of a directory is that of its highest
// final release. The argument version, which may be "", is the version of a release that has none itself. The jobs of
// the result are sorted by name. Open does not check packages, and templates that are missing are not an error.
//
// Open returns a nil release and an error in these cases:
//   - The path does not exist, cannot be read, or is neither a release tarball nor such a directory.
//   - The spec of a job, or the archive of a job in a tarball, is missing.
//   - A file of the release that Open reads is invalid, for example a spec that a Director rejects.
//   - A limit on sizes or counts is exceeded, two jobs have the same name, or ctx ended.
func Open(ctx context.Context, path, version string) (*Release, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("opening the release: %w", err)
	}
	var release *Release
	switch {
	case info.IsDir():
		release, err = openDirectory(ctx, path)
	case info.Mode().IsRegular():
		release, err = openTarball(ctx, path)
	default:
		return nil, fmt.Errorf("%s is neither a release tarball nor a directory with the source of a release", path)
	}
	if err != nil {
		return nil, err
	}
	release.Version = cmp.Or(release.Version, version)
	slices.SortFunc(release.Jobs, func(a, b Job) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(release.Jobs); i++ {
		if release.Jobs[i].Name == release.Jobs[i-1].Name {
			return nil, fmt.Errorf("%s: the release has two jobs with the name %q", path, release.Jobs[i].Name)
		}
	}
	return release, nil
}
