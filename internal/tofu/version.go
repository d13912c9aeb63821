package tofu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"service-adapter/internal/opentofu"

	"github.com/hashicorp/go-version"
)

// checkVersion refuses a binary that is of another version than the pak says: what a version can do, and which states it can read, is
// decided by that label. dir is an empty home for the run.
func (e *Engine) checkVersion(ctx context.Context, i opentofu.Installation, dir string, lock *os.File) error {
	output := filepath.Join(dir, "version")
	text, err := e.runner.Run(ctx, i, opentofu.Command{
		Args: []string{"version", "-json"}, Dir: dir, Output: output, Lock: lock, Mask: e.mask(),
		Env: map[string]string{"HOME": dir, "TMPDIR": dir, "TF_CLI_CONFIG_FILE": os.DevNull},
	})
	if err != nil {
		return err
	}
	var said struct {
		Version string `json:"terraform_version"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return fmt.Errorf("OpenTofu %s does not tell its version: %w", i.Binary, err)
	}
	label, labelErr := version.NewVersion(i.Version)
	found, foundErr := version.NewVersion(said.Version)
	if err := errors.Join(labelErr, foundErr); err != nil {
		return fmt.Errorf("comparing the version of OpenTofu %s: %w", i.Binary, err)
	}
	if !label.Equal(found) {
		return fmt.Errorf("the manifest of the pak calls OpenTofu %s version %s, and it says that it is %s; bundle the version that terraform_binaries names",
			i.Binary, i.Version, said.Version)
	}
	return nil
}
