package tofu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

// Backend is an OpenTofu state backend with workspaces. Config becomes the content of a -backend-config file, so it may
// hold secrets.
type Backend struct {
	Type   string
	Config map[string]any
}

// The settings of the local backend, as OpenTofu names them.
const (
	localType         = "local"
	localPath         = "path"
	localWorkspaceDir = "workspace_dir"
)

// backendType is what a backend's name may look like; it becomes part of a configuration file.
var backendType = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// Local returns the backend that keeps all states as files below one directory.
func Local(dir string) Backend {
	return Backend{Type: localType, Config: map[string]any{
		localPath:         filepath.Join(dir, "default.tfstate"),
		localWorkspaceDir: filepath.Join(dir, "workspaces"),
	}}
}

// check refuses backends that cannot work and, for the local one, a directory that cannot be written.
func (b Backend) check() error {
	switch {
	case !backendType.MatchString(b.Type):
		return fmt.Errorf("state.type must be the name of an OpenTofu backend, found %q", b.Type)
	case b.Type == "http" || b.Type == "remote" || b.Type == "cloud":
		return fmt.Errorf("state.type %q cannot be used: it must be a backend with workspaces, such as local, pg, s3, gcs or azurerm", b.Type)
	case b.Type != localType:
		return nil
	}
	dir, ok := b.Config[localWorkspaceDir].(string)
	if !ok || !filepath.IsAbs(dir) {
		return errors.New("state.config.dir must be an absolute path")
	}
	if err := writable(dir); err != nil {
		return fmt.Errorf("using state directory %q: %w; state.config.dir must be a writable, durable directory", filepath.Dir(dir), err)
	}
	return nil
}

// writable creates a directory and tells whether files can be made in it.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	const writeAndSearch = 0x2 | 0x1
	if err := syscall.Access(dir, writeAndSearch); err != nil {
		return &os.PathError{Op: "access", Path: dir, Err: err}
	}
	return nil
}
