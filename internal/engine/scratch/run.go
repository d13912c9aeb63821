package scratch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/privatefs"
)

// Run runs an OpenTofu command, args, in a working directory and returns its standard output. The first argument is the
// subcommand. Run first replaces the working directory by links to a variant of the prepared directory, unless the
// providers that run in it are those of this prepared directory. A state that could not be saved must not be in it,
// because it would be lost. Non-nil vars are written to terraform.tfvars.json, and to the files that the commands of a
// hclfile.CommandTemplate read; with nil vars these files stay as they are. The values of ephemeral variables are not
// written to a disk; see passEphemeral.
//
// The run waits for the lock of the state, and releases a stale one. If another run does not release the lock in time,
// the error is a *statelock.Error. If the command fails, it is an *opentofu.Error. In unlockDir a run does not wait,
// and the lock of another run is an *opentofu.Error. It is another error if a file cannot be written or OpenTofu cannot
// be started. If a run that uses providers fails, other than by finding changes, the providers are stopped.
func (d *Directory) Run(
	ctx context.Context, p *templates.Prepared, wd WorkingDir, vars map[string]any, args ...string,
) ([]byte, error) {
	return d.run(ctx, p, wd, vars, nil, args)
}

// RunInTerminal runs an OpenTofu command, args, as Run does, in the working directory Apply and connected to the user's
// terminal. It returns no output. It does not wait for the lock of the state, because the output of OpenTofu is not
// read, and secrets in the output are not masked. The error is an *opentofu.Error without a diagnostic if the command
// fails, and otherwise that of Run.
func (d *Directory) RunInTerminal(
	ctx context.Context, p *templates.Prepared, vars map[string]any, terminal opentofu.Terminal, args ...string,
) error {
	_, err := d.run(ctx, p, Apply, vars, &terminal, args)
	return err
}

// RunBase runs an OpenTofu command, args, as Run does, with the prepared directory that declares only the guard, and
// without providers. It returns the standard output of the command. It builds that directory if it is missing. The
// errors are those of Run and templates.Cache.Prepare.
func (d *Directory) RunBase(
	ctx context.Context, i opentofu.Installation, wd WorkingDir, vars map[string]any, args ...string,
) ([]byte, error) {
	base, err := d.root.options.Templates.PrepareBase(ctx, i)
	if err != nil {
		return nil, err
	}
	return d.Run(ctx, base, wd, vars, args...)
}

// run runs an OpenTofu command as Run does, connected to a terminal unless that is nil. With a terminal it returns no
// output, and OpenTofu may ask the user for input. The errors are those of Run.
func (d *Directory) run(
	ctx context.Context, p *templates.Prepared, wd WorkingDir, vars map[string]any, terminal *opentofu.Terminal,
	args []string,
) ([]byte, error) {
	dir := d.Path(string(wd))
	err := d.ensureWorkingDir(ctx, p, wd)
	if err != nil {
		return nil, fmt.Errorf("creating working directory: %w", err)
	}
	if vars != nil {
		if vars, err = d.keepEphemeral(p, wd, vars); err != nil {
			return nil, err
		}
		text, err := json.Marshal(vars)
		if err != nil {
			return nil, fmt.Errorf("encoding variables: %w", err)
		}
		if err := errors.Join(
			os.WriteFile(filepath.Join(dir, "terraform.tfvars.json"), text, 0o600), writeCommandInputs(dir, vars),
		); err != nil {
			return nil, err
		}
	}
	env, err := d.environment(wd != Unselected && !d.usesDefaultWorkspace(p, wd))
	if err != nil {
		return nil, err
	}
	c := d.command(dir, env, args)
	if terminal != nil {
		// Commands that edit the state of the local backend create a copy of it in this directory, which must exist.
		if err := os.MkdirAll(filepath.Join(dir, "terraform.tfstate.d", d.workspace), 0o700); err != nil {
			return nil, err
		}
		c.Terminal, env["TF_INPUT"] = terminal, "1"
	}
	if err := d.attachProviders(wd, &c); err != nil {
		return nil, fmt.Errorf("attaching providers: %w", err)
	}
	if err := d.passEphemeral(wd, &c); err != nil {
		return nil, fmt.Errorf("passing ephemeral variables: %w", err)
	}
	execute := d.runWaiting
	if wd == unlockDir {
		execute = d.runOnce
	}
	output, err := execute(ctx, p.Installation(), c)
	if err != nil && wd.usesProviders() && !opentofu.FoundChanges(err) {
		d.stopProviders()
	}
	return output, err
}

// command returns the description of an OpenTofu run in the directory dir, usually a working directory, with these
// environment variables. If the subcommand is "show", it adds to env, which must not be nil, the variable that "show"
// needs. args must not be empty; the output of the run goes to files that are named after the first one.
func (d *Directory) command(dir string, env map[string]string, args []string) opentofu.Command {
	if args[0] == "show" {
		// OpenTofu before 1.10 would otherwise look for providers of registry.terraform.io under registry.opentofu.org,
		// whatever the template says.
		env["OPENTOFU_STATEFILE_PROVIDER_ADDRESS_TRANSLATION"] = "0"
	}
	return opentofu.Command{
		Args: args, Dir: dir, Output: d.Path(args[0]), Env: env,
		Lock: d.lease.File(), Mask: d.Secrets, Workspace: d.workspace,
	}
}

// environment returns a new map with the environment variables that all runs of this workspace have in common. If named
// is true, they select the workspace by its name; otherwise the runs use the default workspace. It returns an error if
// the directory for sockets cannot be created or the encryption cannot be encoded; the map must not be used then.
func (d *Directory) environment(named bool) (map[string]string, error) {
	temp, err := d.socketDir()
	if err != nil {
		return nil, err
	}
	env := map[string]string{"HOME": d.path, "TMPDIR": temp, "TF_CLI_CONFIG_FILE": os.DevNull}
	if named {
		env["TF_WORKSPACE"] = d.workspace
	}
	return env, d.encrypt(env)
}

// Progress parses the messages that the last run of a command, "apply" or "destroy", wrote. It returns a zero Progress
// if the command did not run, or if the messages cannot be read; the latter is logged.
func (d *Directory) Progress(command string) opentofu.Progress {
	text, err := os.ReadFile(d.messagesPath(command))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.root.options.Logger.Warn("reading the messages of OpenTofu",
			"command", command, "workspace", d.workspace, "error", err)
	}
	return opentofu.ReadProgress(text)
}

// DropMessages removes the messages of an earlier run of a command, so that Progress does not attribute them to a run
// that cannot be started. An error is logged.
func (d *Directory) DropMessages(command string) {
	if err := privatefs.Remove(d.messagesPath(command)); err != nil {
		d.root.options.Logger.Warn("removing the messages of OpenTofu",
			"command", command, "workspace", d.workspace, "error", err)
	}
}

// messagesPath returns the path of the file that contains the standard output of the last run of a command.
func (d *Directory) messagesPath(command string) string { return d.Path(command + ".stdout") }
