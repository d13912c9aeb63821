package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/ctxio"
	"service-adapter/internal/yamltree"
)

// A directory is a file system directory that contains the source of a release: its path, as the caller passed it,
// for errors, and the files in it. Its methods take names of files relative to it, with slashes, such as
// "config/final.yml". Symbolic links that have an absolute target or lead outside of the directory cannot be opened.
// The zero value is not usable.
type directory struct {
	path  string
	files fs.FS
}

// openDirectory reads the source of a release from the directory at path. The version of the result is that of the
// highest final release, or "" if the source has none. It has a job for each directory in jobs, also behind a
// symbolic link; files in jobs are ignored. The jobs are not sorted, and two of them may have the same name. It is
// not an error if the index of final releases or a template is missing; see the method job for other templates that
// are left out.
//
// The result must not be used after an error. openDirectory returns an error in these cases:
//   - The path or the directory jobs in it cannot be opened as a directory.
//   - A symbolic link in jobs is broken, has an absolute target, or leads out of the directory at path.
//   - The file config/final.yml or a job's spec is missing or invalid.
//   - The index of final releases is invalid or exists but cannot be read.
//   - A template or monit file that the method job does not leave out cannot be read.
//   - A limit on sizes or on the number of jobs is exceeded, or ctx ended.
func openDirectory(ctx context.Context, path string) (release *Release, err error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("opening the release: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	source := directory{path, root.FS()}
	release = &Release{}
	if release.Name, err = source.releaseName(); err != nil {
		return nil, err
	}
	if release.Version, err = source.latestVersion(release.Name); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(source.files, "jobs")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source.display("jobs"), withoutPath(err))
	}
	budget := maxTemplates
	for _, entry := range entries {
		if ctx.Err() != nil {
			return nil, ctxio.Err(ctx)
		}
		info, err := fs.Stat(source.files, "jobs/"+entry.Name()) // a job may be a symbolic link
		if err == nil && !info.IsDir() {
			continue // such as .gitkeep
		}
		if len(release.Jobs) >= maxJobs {
			return nil, fmt.Errorf("%s: the release has more than %d jobs", source.display("jobs"), maxJobs)
		}
		job, err := source.job("jobs/"+entry.Name(), &budget)
		if err != nil {
			return nil, err
		}
		release.Jobs = append(release.Jobs, job)
	}
	return release, nil
}

// display returns the path of a file for errors: the path of the release's directory, as the caller passed it, joined
// with name, which is relative to the directory.
func (d directory) display(name string) string {
	return filepath.Join(d.path, filepath.FromSlash(name))
}

// read returns the content of a regular file. name is relative to the directory of the release, with slashes. read
// returns an error, which contains the path, if the file does not exist, is not a regular file, cannot be read or is
// larger than maxText (4 MiB). The error wraps fs.ErrNotExist if the file does not exist.
func (d directory) read(name string) (string, error) {
	info, err := fs.Stat(d.files, name)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", d.display(name), withoutPath(err))
	}
	file, err := d.files.Open(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", d.display(name), withoutPath(err))
	}
	defer func() { _ = file.Close() }() // opened for reading only, so that closing loses no data
	return readText(d.display(name), file)
}

// withoutPath returns the cause of a *fs.PathError in err, for messages that contain the path already. It returns any
// other error, and nil, unchanged.
func withoutPath(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

// releaseName returns the name of the release: the value of name in config/final.yml or, if that is missing, null or
// empty, of final_name. It returns an error if the file cannot be read, is not a YAML mapping or has neither value, or
// if the value is not a scalar.
func (d directory) releaseName() (string, error) {
	const file = "config/final.yml"
	text, err := d.read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w; the source of a release has its name in this file", err)
	}
	if err != nil {
		return "", err
	}
	root, err := parseYAML(d.display(file), text)
	if err != nil {
		return "", err
	}
	for _, key := range []string{"name", "final_name"} {
		if name, err := optionalText(d.display(file), root, "", key); err != nil || name != "" {
			return name, err
		}
	}
	return "", fieldError(d.display(file), root, "name", "it must be set")
}

// latestVersion returns the highest version of the final releases in releases/NAME/index.yml, where NAME is the
// argument release. It returns "" if the file does not exist, if it lists no version that BOSH can compare, or if a
// NAME with ".." leads to a path outside of the directory. It returns an error if the file is not a regular file,
// cannot be read, is larger than maxText (4 MiB) or is not a YAML mapping.
func (d directory) latestVersion(release string) (string, error) {
	file := path.Join("releases", release, "index.yml")
	if !fs.ValidPath(file) {
		return "", nil
	}
	text, err := d.read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	root, err := parseYAML(d.display(file), text)
	if err != nil {
		return "", err
	}
	var versions []string
	_, builds := yamltree.Get(root, "builds")
	for _, build := range yamltree.Pairs(builds) {
		_, version := yamltree.Get(build, "version")
		if version == nil || version.Kind != yaml.ScalarNode {
			continue
		}
		if _, err := brokerpak.CompareVersions(version.Value, version.Value); err == nil {
			versions = append(versions, version.Value)
		}
	}
	if len(versions) == 0 {
		return "", nil
	}
	return slices.MaxFunc(versions, func(a, b string) int {
		order, _ := brokerpak.CompareVersions(a, b) // each was compared with itself without an error
		return order
	}), nil
}

// job reads the spec, the templates and the monit file of a job. dir is the directory of the job relative to that of
// the release, such as "jobs/redis". The name of the result is that in the spec, which need not be that of the
// directory. A template or monit file is left out if the release has no regular file at its path, if the attributes
// of that file cannot be read, or if the path of a template leads out of the directory templates.
//
// The sizes of the templates and of the monit file are subtracted from *budget, the number of bytes that those of the
// release may still have. job returns an empty Job and an error if the spec is missing or invalid, if the content of
// a file cannot be read or is larger than maxText (4 MiB), or if the budget is exceeded; *budget may then be reduced
// or negative.
func (d directory) job(dir string, budget *int) (Job, error) {
	file := dir + "/spec"
	text, err := d.read(file)
	if err != nil {
		return Job{}, err
	}
	job, templates, err := parseSpec(d.display(file), text)
	if err != nil {
		return Job{}, err
	}
	paths := map[string]string{monitName: dir + "/" + monitName}
	for _, template := range templates {
		paths[template] = dir + "/templates/" + template
	}
	for template, name := range paths {
		info, err := fs.Stat(d.files, name)
		if !fs.ValidPath(name) || err != nil || !info.Mode().IsRegular() {
			continue
		}
		if job.Templates[template], err = d.read(name); err != nil {
			return Job{}, err
		}
		if err := spend(budget, d.display(dir), job.Templates[template]); err != nil {
			return Job{}, err
		}
	}
	return job, nil
}
