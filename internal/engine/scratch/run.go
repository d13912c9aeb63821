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

// Run runs an OpenTofu command in the working directory wd of the prepared template p and returns its standard output.
// The first of args is the subcommand, such as "apply". The run selects the workspace of the Directory, except in
// Unselected.
//
// Run first replaces the working directory by links to a variant of the prepared directory. It keeps the working
// directory only if the providers of this prepared directory already run in it. The working directory must not contain
// a state that could not be saved, because that state would be lost. In Apply and Destroy, Run starts the providers
// that several runs can share. If a command fails there, Run stops them, unless the error only reports that
// "plan -detailed-exitcode" found changes; see opentofu.FoundChanges.
//
// Non-nil vars are the values of the template's variables. They are written to terraform.tfvars.json, and to the input
// files of a template that runs a command; with nil vars none is written, and the files of the previous run are still
// there only if the working directory was not replaced. The values of ephemeral variables are kept in memory and not
// written to a disk; a later run with nil vars in the same working directory gets them again.
//
// The run waits for the lock of the state, for about half of the time that ctx has left or, without a deadline, for 15
// seconds, and releases a stale lock. If another run does not release the lock in that time or before ctx ends, the
// error is a *statelock.Error. If the command fails, also because ctx ended, it is an *opentofu.Error. In unlockDir a
// run does not wait for the lock, and the lock of another run is an *opentofu.Error. It is another error if the working
// directory or the environment of the run cannot be created, if a variable cannot be encoded, if a file or the lease
// cannot be written, or if OpenTofu cannot be started, also because ctx has ended.
func (d *Directory) Run(
	ctx context.Context, p *templates.Prepared, wd WorkingDir, vars map[string]any, args ...string,
) ([]byte, error) {
	return d.run(ctx, p, wd, vars, nil, args)
}

// RunInTerminal runs an OpenTofu command with the prepared template p and the variables vars, as Run does, in the
// working directory Apply and connected to the user's terminal. The first of args is the subcommand. OpenTofu may ask
// the user for input. RunInTerminal does not repeat a command that fails because another run holds the lock of the
// state, because the output of OpenTofu is not read. Secrets in the output are not masked. The error is an
// *opentofu.Error without a diagnostic if the command fails, also because another run holds the lock, and a plain error
// if a variable cannot be encoded, a file or the lease cannot be written, or OpenTofu cannot be started.
func (d *Directory) RunInTerminal(
	ctx context.Context, p *templates.Prepared, vars map[string]any, terminal opentofu.Terminal, args ...string,
) error {
	_, err := d.run(ctx, p, Apply, vars, &terminal, args)
	return err
}

// RunBase runs an OpenTofu command in the working directory wd, with the OpenTofu i and without providers, on the
// prepared directory that declares only the guard, the resource that reserves a workspace. The first of args is the
// subcommand. Non-nil vars are the values of the guard's variables, templates.RecordVariable and
// templates.NonceVariable; with nil vars they have none. Each call replaces the working directory, which must not
// contain a state that could not be saved, because that state would be lost. RunBase builds the prepared directory if
// it is missing or damaged, and waits for other builds until ctx ends. It returns the standard output of the command,
// which must not be used with an error.
//
// The error is an *opentofu.Error if OpenTofu fails, in the command or in building the prepared directory, also
// because ctx ended. It is a *statelock.Error if another run holds the lock of the state for too long or until ctx
// ends. In unlockDir a run does not wait for the lock, and the lock of another run is an *opentofu.Error. It is
// another error if the OpenTofu does not support the backend or the encryption, if it is missing or cannot be
// executed, if the prepared directory cannot be built, if a file or the lease cannot be written, or if ctx ends while
// another build is running or before OpenTofu is started.
func (d *Directory) RunBase(
	ctx context.Context, i opentofu.Installation, wd WorkingDir, vars map[string]any, args ...string,
) ([]byte, error) {
	base, err := d.root.options.Templates.PrepareBase(ctx, i)
	if err != nil {
		return nil, err
	}
	return d.Run(ctx, base, wd, vars, args...)
}

// run runs an OpenTofu command, args, in the working directory wd of the prepared template p with the variables
// vars, as Run does. With nil vars, the command always gets the values of ephemeral variables from the last run with
// variables in wd, but the other values of that run only if the working directory is not replaced.
//
// If terminal is nil, run returns the standard output, and the errors of Run. Otherwise the command is connected to the
// terminal: OpenTofu may ask the user for input, run does not repeat a command that fails because another run holds the
// lock of the state, and the returned output is empty. The error is then an *opentofu.Error without a diagnostic if the
// command fails, also because another run holds the lock, and otherwise one of the other errors of Run.
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

// command returns the description of an OpenTofu run with the arguments args in the directory dir, an absolute path and
// usually that of a working directory. env are the environment variables of the run; the result refers to the same map.
// args must begin with the subcommand, without which command panics: the output of the run goes to files of the scratch
// directory that are named after it, such as apply.stdout and apply.stderr. If the subcommand is "show", command adds
// to env, which must not be nil, the variable OPENTOFU_STATEFILE_PROVIDER_ADDRESS_TRANSLATION, which "show" needs. It
// starts nothing.
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

// environment returns a new map with the environment variables that all runs of this workspace have in common: HOME,
// TMPDIR, TF_CLI_CONFIG_FILE and, with encryption, TF_ENCRYPTION. If named is true, TF_WORKSPACE selects the workspace
// by its name; otherwise the runs use the default workspace. The first call may create the directory for sockets. It
// returns an error if that directory cannot be created or the encryption cannot be encoded; the map, which may be nil,
// must not be used then.
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

// Progress returns the changes of resources that the last run of a command reported; the command is the subcommand
// "apply" or "destroy". It reads the stored messages of that run. It returns a zero Progress if the command did not run
// since DropMessages, or if the messages cannot be read; the latter is logged as a warning.
func (d *Directory) Progress(command string) opentofu.Progress {
	text, err := os.ReadFile(d.messagesPath(command))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.root.options.Logger.Warn("reading the messages of OpenTofu",
			"command", command, "workspace", d.workspace, "error", err)
	}
	return opentofu.ReadProgress(text)
}

// DropMessages removes the file with the messages of an earlier run of a command, "apply" or "destroy", so that
// Progress does not attribute them to a run that cannot be started. A missing file is not an error. An error is not
// returned but logged as a warning.
func (d *Directory) DropMessages(command string) {
	if err := privatefs.Remove(d.messagesPath(command)); err != nil {
		d.root.options.Logger.Warn("removing the messages of OpenTofu",
			"command", command, "workspace", d.workspace, "error", err)
	}
}

// messagesPath returns the absolute path of the file that contains the standard output of the last run of a command, a
// subcommand such as "apply": apply.stdout in the scratch directory. The file need not exist.
func (d *Directory) messagesPath(command string) string { return d.Path(command + ".stdout") }
