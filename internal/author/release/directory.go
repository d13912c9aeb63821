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

// A directory is the source of a release. Symbolic links that lead outside of it cannot be opened.
type directory struct {
	path  string
	files fs.FS
}

// openDirectory reads the source of a release. Its version is that of the latest final release, or "". The jobs of the
// result are not sorted. It returns an error if path cannot be opened, if config/final.yml, the directory jobs or a
// job's spec is missing or invalid, if the index of final releases or a template cannot be read, if a limit is
// exceeded, or if ctx ended.
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

// display returns the path of a file of the release for errors.
func (d directory) display(name string) string {
	return filepath.Join(d.path, filepath.FromSlash(name))
}

// read returns the content of a regular file. It returns an error if there is none, or if it is larger than maxText.
// The error wraps fs.ErrNotExist if the file does not exist.
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

// withoutPath returns the cause of a file system error, for messages that contain the path already, and any other error
// itself.
func withoutPath(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

// releaseName returns the name of the release, which config/final.yml has under name or final_name. It returns an error
// if the file is missing or invalid, or has no name.
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

// latestVersion returns the highest version of the final releases in the index of the release, or "" if there is no
// index or it lists none. It returns an error if the index cannot be read, is larger than maxText or is not a YAML
// mapping. Versions that BOSH cannot compare are ignored. release is the name of the release.
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

// job reads the spec and the templates of the job in a directory. A template that is missing or not a regular file is
// left out. The sizes of the templates are subtracted from the budget, which is the number of bytes that the templates
// of the release may still have. It returns an error if the spec is missing or invalid, if a template cannot be read or
// is too large, or if the budget is exceeded.
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
