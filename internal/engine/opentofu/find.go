package opentofu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"

	"github.com/hashicorp/go-version"
)

// FindVersion returns the first of the candidates that is an executable OpenTofu of the wanted version, such as
// "1.12.6". Each candidate is the path of an executable, or a name without a slash, which is searched in the PATH of
// this process; the result is the path that was run. FindVersion runs each existing candidate with "version -json" and
// an environment of its own to learn its version, and ignores those that fail or do not report one. It returns "" if no
// candidate has the version, if wanted is not a version, or if ctx ends. ctx is the only time limit.
func FindVersion(ctx context.Context, wanted string, candidates []string) string {
	for _, candidate := range candidates {
		binary, err := exec.LookPath(candidate)
		if err != nil {
			continue
		}
		command := exec.CommandContext(ctx, binary, "version", "-json") //nolint:gosec // the user's OpenTofu
		// The CLI configuration of the user could name a mirror or print warnings.
		command.Env = []string{"TF_CLI_CONFIG_FILE=/dev/null", "CHECKPOINT_DISABLE=1"}
		text, err := command.Output()
		if err == nil && (Installation{Binary: binary, Version: wanted}).CheckVersion(text) == nil {
			return binary
		}
	}
	return ""
}

// CheckVersion compares the version that an OpenTofu reports with i.Version, the version in the manifest of the pak.
// reported is the output of "tofu version -json". CheckVersion returns nil if both are equal as versions, and an error
// if they differ, if reported is not JSON, or if one of them is not a version. The version in the manifest decides
// which features the adapter uses and which states it lets this OpenTofu read.
func (i Installation) CheckVersion(reported []byte) error {
	var output struct {
		Version string `json:"terraform_version"`
	}
	if err := json.Unmarshal(reported, &output); err != nil {
		return fmt.Errorf("OpenTofu %s does not report its version: %w", i.Binary, err)
	}
	label, labelErr := version.NewVersion(i.Version)
	actual, actualErr := version.NewVersion(output.Version)
	if err := errors.Join(labelErr, actualErr); err != nil {
		return fmt.Errorf("comparing the version of OpenTofu %s: %w", i.Binary, err)
	}
	if !label.Equal(actual) {
		return fmt.Errorf("the manifest of the pak says that OpenTofu %s has version %s, but it reports %s; "+
			"bundle the version that terraform_binaries names",
			i.Binary, i.Version, output.Version)
	}
	return nil
}
