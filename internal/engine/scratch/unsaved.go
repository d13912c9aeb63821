package scratch

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/value"
)

// erroredState is the name that OpenTofu gives to the file with a state that it could not save in the backend.
const erroredState = "errored.tfstate"

// UnsavedState returns the path of a state of a workspace that OpenTofu could not save in the backend,
// CACHE/runs/WORKSPACE/WORKING_DIRECTORY/errored.tfstate. It returns "" if there is none, or if the directories cannot
// be read. If several working directories contain such a state, the first of these directories by name counts. The file
// is not read, and the scratch directory of the workspace does not have to be open.
func (r *Root) UnsavedState(workspace string) string {
	paths := glob(filepath.Join(r.dir, workspace), "*/"+erroredState)
	if len(paths) == 0 {
		return ""
	}
	return paths[0]
}

// UnsavedWorkspaces returns the sorted names of the workspaces that have a state in their scratch directory that
// OpenTofu could not save in the backend. A temporary scratch directory with such a state is listed by its own name.
// The result is empty, possibly nil, if there are none or if the directories cannot be read.
func (r *Root) UnsavedWorkspaces() []string {
	files := glob(r.dir, "*/*/"+erroredState)
	names := value.Convert(files, func(file string) string { return filepath.Base(filepath.Dir(filepath.Dir(file))) })
	slices.Sort(names)
	return slices.Compact(names)
}

// glob returns the sorted paths of the files and directories below the directory dir whose relative names match a
// pattern of path.Match, such as "*/errored.tfstate". Only the pattern has special characters; dir may contain any, as
// the operator chooses its name. The pattern must be valid. The result is nil if nothing matches. A directory that
// cannot be read counts as empty.
func glob(dir, pattern string) []string {
	names, _ := fs.Glob(os.DirFS(dir), pattern) // the only error is that of an invalid pattern
	return value.Convert(names, func(name string) string { return filepath.Join(dir, name) })
}

// DecryptState returns the unencrypted text of a state file that OpenTofu wrote, such as an UnsavedState. It runs "tofu
// state pull" of the OpenTofu i in the subdirectory "unsaved" of the scratch directory, which it replaces and in which
// the file is the state of the local backend. path is the path of the file. It must be absolute, because that
// subdirectory contains a symbolic link to the file. The file is not changed, and may be unencrypted.
//
// The error is an *opentofu.Error if no key of this Root fits or OpenTofu fails for another reason, also because ctx
// ended. It is a plain error if the file is missing or empty, if a file in the scratch directory or the lease cannot be
// written, if OpenTofu cannot be started, or if ctx ended before that. The text must not be used with an error.
func (d *Directory) DecryptState(ctx context.Context, i opentofu.Installation, path string) ([]byte, error) {
	// OpenTofu reads such a file only as the state of the local backend, in a directory without configuration.
	dir := d.Path("unsaved")
	err := errors.Join(
		os.RemoveAll(dir), os.Mkdir(dir, 0o700), os.Symlink(path, filepath.Join(dir, "terraform.tfstate")),
	)
	if err != nil {
		return nil, err
	}
	env, err := d.environment(false)
	if err != nil {
		return nil, err
	}
	text, err := d.runWaiting(ctx, i, d.command(dir, env, []string{"state", "pull", "-no-color"}))
	if err == nil && len(bytes.TrimSpace(text)) == 0 {
		err = errors.New("it is empty")
	}
	return text, err
}
