package scratch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/privatefs"
)

// A WorkingDir is the name of a working directory, a subdirectory of a scratch directory in which OpenTofu runs. Only
// the constants of this package are used; the value "" is not a working directory. Apply and Destroy are for runs
// that create, change or destroy the resources of a template, and Reserve is for those that create only the guard.
// Inspect is for commands that read or edit the state, and CreateMissing for those that also create a missing
// workspace. Commands in Unselected do not select a workspace, and unlockDir is for commands on the lock of the
// state.
//
// A command replaces its working directory, except in Apply and Destroy while the providers of the same prepared
// directory run there. Runs that create or destroy resources have directories of their own, because OpenTofu may
// leave a state in them that it could not save.
type WorkingDir string

// The working directories. Providers are used in Apply and Destroy only.
const (
	// Apply consists of the variant templates.Apply.
	Apply WorkingDir = "apply"
	// Destroy consists of the variant templates.Destroy.
	Destroy WorkingDir = "destroy"
	// Reserve is for runs that create only the guard.
	Reserve WorkingDir = "base"
	// Inspect is for commands that change at most the state.
	Inspect WorkingDir = "look"
	// CreateMissing is for commands like those in Inspect. If the workspace is missing, OpenTofu creates it by its
	// name.
	CreateMissing WorkingDir = "named"
	// Unselected is for commands that do not select the workspace.
	Unselected WorkingDir = "outside"

	// unlockDir is for commands on the lock of the state. They may run while another working directory is in use.
	unlockDir WorkingDir = "unlock"
)

// usesProviders reports whether commands in this working directory use the providers of a template, which the adapter
// starts for them. That is so for Apply and Destroy.
func (wd WorkingDir) usesProviders() bool { return wd == Apply || wd == Destroy }

// variant returns the variant of the prepared directory to whose files the working directory links: templates.Destroy
// for Destroy, and templates.Apply for all others.
func (wd WorkingDir) variant() templates.Variant {
	if wd == Destroy {
		return templates.Destroy
	}
	return templates.Apply
}

// ensureWorkingDir creates the working directory wd with links to the prepared directory p. If commands in wd use
// providers, it also starts those that several runs can share, without waiting until they are ready; ctx limits only
// the time until they must be ready. ensureWorkingDir does nothing if it has started these providers in wd for the
// same prepared directory and they have not been stopped since. In every other case, also if commands in wd use no
// providers or the template has none to share, it replaces an existing working directory, even with a state in it
// that could not be saved. If commands in wd use providers, those that run for another working directory or another
// prepared directory are stopped first. In a working directory for which usesDefaultWorkspace reports true,
// ensureWorkingDir redirects the default workspace of the backend to the state of this workspace.
//
// It returns an error if the directory cannot be created or the prepared directory cannot be read, if the stored
// settings of the backend cannot be read or changed, or if the environment, the files for the output or the pipe of the
// providers cannot be created. The working directory may then be incomplete, and if its commands use providers, none
// run. A provider that cannot be started is not an error; OpenTofu starts it.
func (d *Directory) ensureWorkingDir(ctx context.Context, p *templates.Prepared, wd WorkingDir) error {
	if wd.usesProviders() {
		if d.providers.runFor(p, wd) {
			return nil // the working directory is as the previous run left it
		}
		d.stopProviders()
	}
	dir := d.Path(string(wd))
	if err := p.Link(wd.variant(), dir); err != nil {
		return err
	}
	if d.usesDefaultWorkspace(p, wd) {
		file := filepath.Join(dir, templates.DataDir, backendMetadata)
		if err := redirectDefaultWorkspace(file, d.workspace); err != nil {
			return fmt.Errorf("choosing the workspace: %w", err)
		}
	}
	if !wd.usesProviders() || len(p.Shared) == 0 {
		return nil
	}
	return d.startProviders(ctx, p, wd)
}

// backendMetadata is the file of the data directory with the settings of the backend that "tofu init" stored. It
// contains a hash of the backend block of the configuration, which is empty. Other commands use the stored settings as
// long as that hash is unchanged.
const backendMetadata = "terraform.tfstate"

// usesDefaultWorkspace reports whether the runs of the prepared template p in the working directory wd address the
// workspace of d as "default", in a backend whose default workspace is redirected to the state of that workspace.
// This is only the case for the backend s3, which otherwise lists the objects of all workspaces in every run, and
// creates a missing workspace even for a command that only reads. It is false for the working directories Unselected
// and CreateMissing, and for templates that use the name of the workspace or that call modules, which may use it;
// these runs do not use the redirected backend.
func (d *Directory) usesDefaultWorkspace(p *templates.Prepared, wd WorkingDir) bool {
	return d.root.options.Backend.Type == backend.S3Type && !p.UsesWorkspaceName && len(p.Modules) == 0 &&
		wd != Unselected && wd != CreateMissing
}

// redirectDefaultWorkspace changes the stored backend settings of a working directory so that the default workspace of
// the S3 backend is the named workspace. file is the path of the metadata file .terraform/terraform.tfstate, a link
// into the prepared directory, which is replaced by a changed copy. The state remains the object PREFIX/NAME/KEY, where
// KEY is the stored key and PREFIX the stored workspace_key_prefix or, without one, "env:". Its lock and its digest
// keep their names. redirectDefaultWorkspace returns an error, and leaves the file unchanged, if the file cannot be
// read or replaced, is not a JSON object, or does not describe an S3 backend with a key.
func redirectDefaultWorkspace(file, workspace string) error {
	text, err := os.ReadFile(file) //nolint:gosec // in the scratch directory
	if err != nil {
		return err
	}
	var metadata map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&metadata); err != nil {
		return fmt.Errorf("reading the settings that OpenTofu stored: %w", err)
	}
	settings, _ := metadata["backend"].(map[string]any)
	config, _ := settings["config"].(map[string]any)
	key, _ := config["key"].(string)
	if settings["type"] != backend.S3Type || key == "" {
		return fmt.Errorf("OpenTofu did not store the settings of the backend %s as the tested versions do",
			backend.S3Type)
	}
	prefix, explicit := config["workspace_key_prefix"].(string)
	if !explicit {
		prefix = "env:"
	}
	config["key"], config["workspace_key_prefix"] = path.Join(prefix, workspace, key), path.Join(prefix, workspace)
	if text, err = json.Marshal(metadata); err != nil {
		return err
	}
	return privatefs.WriteFile(file, text)
}
