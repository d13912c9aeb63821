package scratch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/value"
)

// erroredState is the name that OpenTofu gives to the file with a state that it could not save in the backend.
const erroredState = "errored.tfstate"

// UnsavedState returns the path of a state of a workspace that OpenTofu could not save in the backend. It returns "" if
// there is none, or if the directories cannot be read. If several working directories contain such a state, the first
// of these directories by name counts. The scratch directory of the workspace does not have to be open. An error means
// that the name of the workspace or the path of the cache directory is not a valid pattern of filepath.Glob.
func (r *Root) UnsavedState(workspace string) (string, error) {
	paths, err := filepath.Glob(filepath.Join(r.dir, workspace, "*", erroredState))
	if err != nil || len(paths) == 0 {
		return "", err
	}
	return paths[0], nil
}

// UnsavedWorkspaces returns the sorted names of the workspaces that have an UnsavedState. The result is empty if there
// are none or if the directories cannot be read. It returns an error only if the path of the cache directory contains
// an invalid pattern of filepath.Glob, such as a single bracket.
func (r *Root) UnsavedWorkspaces() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(r.dir, "*", "*", erroredState))
	if err != nil {
		return nil, fmt.Errorf("listing states that were not saved: %w", err)
	}
	names := value.Convert(files, func(file string) string { return filepath.Base(filepath.Dir(filepath.Dir(file))) })
	slices.Sort(names)
	return slices.Compact(names), nil
}

// DecryptState returns the text of an encrypted state file that OpenTofu wrote, such as an UnsavedState. The path must
// be absolute, because OpenTofu reads the file through a symbolic link in the scratch directory. The file stays as it
// is. The error is an *opentofu.Error if no key of this Root fits or OpenTofu fails for another reason, and a plain
// error if the file is empty or a file in the scratch directory cannot be created.
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
