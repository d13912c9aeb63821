package release

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/ctxio"
	"service-adapter/internal/yamltree"
)

// manifestName is the name of the manifest of a release in its tarball, and jobManifestName that of the manifest of a
// job in the job's archive.
const (
	manifestName    = "release.MF"
	jobManifestName = "job.MF"
)

// openTarball reads the release tarball at path, which must be compressed with gzip, and closes the file. It returns
// nil and an error if the file cannot be opened or read, if it is not a valid release, if a limit on sizes or counts is
// exceeded, or if ctx ended. See readTarball for the result and for all errors.
func openTarball(ctx context.Context, path string) (*Release, error) {
	file, err := os.Open(path) //nolint:gosec // the operator or author names the release
	if err != nil {
		return nil, fmt.Errorf("opening the release: %w", err)
	}
	defer func() { _ = file.Close() }() // opened for reading only, so that closing loses no data
	return readTarball(ctx, path, file)
}

// readTarball reads release.MF and the archives of the jobs that it lists from the release tarball file, and ignores
// all other entries. Archives of jobs in front of release.MF are always read, but the result contains only those that
// it lists. readTarball stops at the entry where all of these have been read, so that packages after them are not even
// decompressed. name is that of the tarball in errors. The jobs of the result have the order of release.MF; a job that
// it lists twice is contained twice.
//
// readTarball returns nil and an error if the tarball cannot be read or is broken, has no release.MF or lacks a job
// that release.MF lists, if one of the files that it reads is invalid or occurs again before it stops, if a limit on
// sizes or counts is exceeded, or if ctx ended.
func readTarball(ctx context.Context, name string, file io.Reader) (*Release, error) {
	release := &Release{}
	var listed []string // the jobs of release.MF; nil until it was read
	jobs, budget := map[string]Job{}, maxTemplates
	visit := func(entry string, content io.Reader) (more bool, err error) {
		job, isJob := jobOf(entry)
		switch {
		case entry == manifestName:
			if listed != nil {
				return false, fmt.Errorf("%s: the tarball contains two files %s", name, manifestName)
			}
			var text string
			if text, err = readText(name+"!/"+entry, content); err == nil {
				listed, err = parseManifest(name+"!/"+entry, text, release)
			}
		case isJob && (listed == nil || slices.Contains(listed, job)):
			switch _, exists := jobs[job]; {
			case exists:
				return false, fmt.Errorf("%s: the tarball contains two files %s", name, entry)
			case len(jobs) >= maxJobs:
				return false, fmt.Errorf("%s: the tarball contains more than %d jobs", name, maxJobs)
			}
			jobs[job], err = readJob(name+"!/"+entry, job, content, &budget)
		}
		missing := func(job string) bool { _, ok := jobs[job]; return !ok }
		return err == nil && (listed == nil || slices.ContainsFunc(listed, missing)), err
	}
	if err := readArchive(ctxio.Reader(ctx, file), name, maxTarball, visit); err != nil {
		return nil, err
	}
	if listed == nil {
		return nil, fmt.Errorf("%s: the tarball has no %s, so it is not a BOSH release", name, manifestName)
	}
	for _, job := range listed {
		if _, ok := jobs[job]; !ok {
			return nil, fmt.Errorf("%s: %s lists the job %q, and the tarball has no file jobs/%s.tgz",
				name, manifestName, job, job)
		}
		release.Jobs = append(release.Jobs, jobs[job])
	}
	return release, nil
}

// jobOf returns the name of the job if an entry of a release tarball is the archive of a job: "redis" and true for
// "jobs/redis.tgz". entry is the path of the entry without "./" in front. The second result is false for any other
// entry; the first must then be ignored.
func jobOf(entry string) (string, bool) {
	file, inJobs := strings.CutPrefix(entry, "jobs/")
	job, isArchive := strings.CutSuffix(file, ".tgz")
	return job, inJobs && isArchive && job != "" && !strings.Contains(job, "/")
}

// readArchive decompresses a tar archive that was compressed with gzip, and calls visit for each regular file, with its
// path and its content, until visit returns false or an error. The path has no "./" in front, but may be absolute or
// contain "..". The content can be read only during the call. What follows the entry at which visit ends the iteration,
// or the end of the tar archive, is not read, so that the checksum of the compressed data is usually not verified.
//
// readArchive returns nil if visit returned false or the archive ended. It returns the error of visit unchanged, and
// another error if the archive cannot be read, is not compressed with gzip, is broken, has more than maxEntries entries
// or unpacks to more than limit bytes, headers included. name is that of the archive in errors.
func readArchive(
	compressed io.Reader, name string, limit int64, visit func(entry string, content io.Reader) (more bool, err error),
) error {
	unzipped, err := gzip.NewReader(compressed)
	if err != nil {
		return fmt.Errorf("%s: not an archive that was compressed with gzip: %w", name, err)
	}
	archive := tar.NewReader(&boundedReader{unzipped, limit, limit})
	for count := 0; ; count++ {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, tar.ErrInsecurePath): // no file is written, so the name is only compared
			return fmt.Errorf("%s: the archive is broken: %w", name, err)
		case count >= maxEntries:
			return fmt.Errorf("%s: the archive has more than %d entries", name, maxEntries)
		case header.Typeflag != tar.TypeReg:
			continue
		}
		if more, err := visit(strings.TrimPrefix(header.Name, "./"), archive); err != nil || !more {
			return err
		}
	}
}

// A boundedReader reads from another reader, which decompresses an archive, up to a limit in bytes. It returns an error
// as soon as more than limit bytes were read, because a small archive can unpack to any size. left is the number of
// bytes that may still be read; it must initially equal limit.
type boundedReader struct {
	reader io.Reader
	left   int64
	limit  int64 // the initial value of left, for the error
}

// Read implements io.Reader. It passes on the results of the underlying reader, errors included. Once more than the
// limit was read in total, it returns 0 and an error instead.
func (r *boundedReader) Read(buffer []byte) (int, error) {
	count, err := r.reader.Read(buffer)
	if r.left -= int64(count); r.left < 0 {
		return 0, fmt.Errorf("it unpacks to more than %d MB", r.limit>>20)
	}
	return count, err
}

// readText returns all of content as a text. name is the name of the file in errors. It returns "" and an error if
// content cannot be read or is larger than maxText (4 MiB).
func readText(name string, content io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(content, maxText+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", name, err)
	case len(text) > maxText:
		return "", fmt.Errorf("%s: the file is larger than %d MB", name, maxText>>20)
	default:
		return string(text), nil
	}
}

// spend subtracts the length of the text of a template from *budget, the number of bytes that the templates of a
// release may still have. It returns an error if the budget is exceeded; *budget is then negative. file is the name in
// the error, such as that of the archive of the job.
func spend(budget *int, file, template string) error {
	if *budget -= len(template); *budget < 0 {
		return fmt.Errorf("%s: the templates of the release are larger than %d MB", file, maxTemplates>>20)
	}
	return nil
}

// readJob reads the archive of a job, a tar archive compressed with gzip: its spec job.MF, the templates that the
// spec lists, and monit. Templates and monit are left out if the archive lacks them; of files with the same name, the
// last one counts. file is the name of the archive in errors, and name the name of the job in release.MF. The sizes
// of monit and of all files below templates/, listed or not, are subtracted from *budget, the number of bytes that
// these files of the release may still have.
//
// readJob returns an empty Job and an error if the archive is broken, exceeds a limit or the budget, or has no job.MF,
// and if job.MF is invalid or contains another name. *budget may then be reduced or negative.
func readJob(file, name string, content io.Reader, budget *int) (Job, error) {
	manifest, hasManifest := "", false
	templates := map[string]string{}
	err := readArchive(content, file, maxJob, func(entry string, content io.Reader) (more bool, err error) {
		template, isTemplate := strings.CutPrefix(entry, "templates/")
		switch {
		case entry == jobManifestName:
			hasManifest = true
			manifest, err = readText(file+"!/"+entry, content)
		case entry == monitName || isTemplate:
			if !isTemplate {
				template = monitName
			}
			var text string
			if text, err = readText(file+"!/"+entry, content); err == nil {
				templates[path.Clean(template)], err = text, spend(budget, file, text)
			}
		}
		return err == nil, err
	})
	if err != nil {
		return Job{}, err
	}
	if !hasManifest {
		return Job{}, fmt.Errorf("%s: the archive of the job has no %s", file, jobManifestName)
	}
	job, listed, err := parseSpec(file+"!/"+jobManifestName, manifest)
	if err != nil {
		return Job{}, err
	}
	if job.Name != name {
		return Job{}, fmt.Errorf("%s!/%s: name: the job has the name %q, and its archive is that of the job %q",
			file, jobManifestName, job.Name, name)
	}
	unused := func(template, _ string) bool { return template != monitName && !slices.Contains(listed, template) }
	maps.DeleteFunc(templates, unused)
	job.Templates = templates
	return job, nil
}

// parseManifest sets the name and the version of a release from the text of its release.MF and returns the names of its
// jobs, in their order and with repetitions. The names are empty but not nil if it lists no jobs. The version is "" if
// the text has none. file is the name of the text in errors.
//
// parseManifest returns nil and an error if the text is not a YAML mapping or has no name, if its version is not a
// scalar, or if its jobs are not a list, are more than maxJobs (2,000) or include one without a name. The name and the
// version may be set nevertheless.
func parseManifest(file, text string, release *Release) ([]string, error) {
	root, err := parseYAML(file, text)
	if err != nil {
		return nil, err
	}
	if release.Name, err = requiredText(file, root, "", "name"); err != nil {
		return nil, err
	}
	if release.Version, err = optionalText(file, root, "", "version"); err != nil {
		return nil, err
	}
	names := []string{}
	_, list := yamltree.Get(root, "jobs")
	if list == nil || yamltree.IsNull(list) {
		return names, nil
	}
	if list.Kind != yaml.SequenceNode {
		return nil, fieldError(file, list, "jobs", "it must be a list, not "+yamltree.Kind(list))
	}
	if len(list.Content) > maxJobs {
		return nil, fieldError(file, list, "jobs", fmt.Sprintf("the release has more than %d jobs", maxJobs))
	}
	for i, entry := range list.Content {
		name, err := requiredText(file, entry, fmt.Sprintf("jobs[%d]", i), "name")
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}
