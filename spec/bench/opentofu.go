package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// A bareTofu runs OpenTofu alone in a directory with a template, a state backend and a provider.
type bareTofu struct {
	bench *bench
	dir   string
	dsn   string // the address of the database for the backend pg
	tree  bool   // whether the memory of all processes is measured
}

// destroyPart is the index of the destroy among the programs of bareTofu.unbind.
const destroyPart = 1

// write writes all files of the directory except those that `tofu init` creates.
func (t bareTofu) write(template, backend, schema string) error {
	mirror := filepath.Join(t.dir, "mirror", "registry.terraform.io", "service-adapter", "directory", "1.0.0")
	config := object{"path": filepath.Join(t.dir, "state"), "workspace_dir": filepath.Join(t.dir, "states")}
	if backend == pg {
		config = object{"schema_name": schema}
	}
	text, err := json.Marshal(object{"terraform": object{"backend": object{backend: config}}})
	if err != nil {
		return err
	}
	platform := runtime.GOOS + "_" + runtime.GOARCH
	return errors.Join(os.MkdirAll(filepath.Join(mirror, platform), 0o755),
		os.Symlink(t.bench.provider(), filepath.Join(mirror, platform, "terraform-provider-directory_v1.0.0")),
		writeAll(t.dir, map[string]string{
			"main.tf": template, "backend.tf.json": string(text), "key": constantKey,
			"cli.tfrc": fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n",
				filepath.Join(t.dir, "mirror")),
		}))
}

// initialise runs `tofu init`.
func (t bareTofu) initialise(ctx context.Context) (sample, error) {
	return t.command("", false, "init", "-input=false", "-no-color").run(ctx)
}

// command returns a run of OpenTofu in a workspace. The name "" means the default workspace.
func (t bareTofu) command(workspace string, encrypted bool, args ...string) program {
	env := []string{
		"PATH=/usr/bin:/bin", "HOME=" + t.dir, "TMPDIR=" + t.dir, "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1",
		"PG_CONN_STR=" + t.dsn,
		"TF_CLI_CONFIG_FILE=" + filepath.Join(t.dir, "cli.tfrc"), "TF_VAR_path=" + t.dir, "TF_VAR_name=" + workspace,
	}
	if workspace != "" {
		env = append(env, "TF_WORKSPACE="+workspace)
	}
	if encrypted {
		env = append(env, fmt.Sprintf("TF_ENCRYPTION="+encryption, filepath.Join(t.dir, "key")))
	}
	return program{bench: t.bench, path: t.bench.tofu(), args: args, env: env, dir: t.dir, starts: true, tree: t.tree}
}

// bind returns a side that creates a binding with OpenTofu alone.
func (t bareTofu) bind(encrypted bool) side {
	return func(ctx context.Context, n int) (sample, error) {
		name := workspaceName(encrypted, n)
		return all(ctx, t.command(name, encrypted, "apply", "-json", "-input=false", "-auto-approve"),
			t.command(name, encrypted, "output", "-json"))
	}
}

// unbind returns a side that reads the state of a binding, destroys it and deletes its workspace with OpenTofu alone.
func (t bareTofu) unbind(encrypted bool) side {
	return func(ctx context.Context, n int) (sample, error) {
		name := workspaceName(encrypted, n)
		return all(ctx, t.command(name, encrypted, "state", "pull"),
			t.command(name, encrypted, "destroy", "-json", "-input=false", "-auto-approve"),
			t.command("", encrypted, "workspace", "delete", name))
	}
}

// workspaceName returns different names for encrypted and other states, which share a backend.
func workspaceName(encrypted bool, n int) string {
	if encrypted {
		return fmt.Sprint("e", n)
	}
	return fmt.Sprint("b", n)
}

// The encryption of states by OpenTofu alone.
const (
	// encryption is the value of TF_ENCRYPTION. It encrypts as the adapter does, with a trivial program as the key
	// provider.
	encryption = `key_provider "external" "constant" {
  command = ["/bin/cat", %q]
}
method "aes_gcm" "constant" {
  keys = key_provider.external.constant
}
state {
  method   = method.aes_gcm.constant
  enforced = true
}
`
	// constantKey is the output of this program in OpenTofu's protocol for key providers.
	constantKey = `{"magic":"OpenTofu-External-Key-Provider","version":1}
{"keys":{"encryption_key":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",` +
		`"decryption_key":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="},` +
		`"meta":{"external_data":{}}}
`
)
