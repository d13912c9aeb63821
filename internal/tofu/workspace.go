package tofu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/redact"
)

// nameLetters are what a workspace's name may consist of: it is a plain file name and, in OpenTofu, needs no escapes.
const nameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

// longestName is the length in bytes of the longest name of a workspace.
const longestName = 200

func isWorkspaceName(name string) bool {
	return name != "" && len(name) <= longestName && strings.Trim(name, nameLetters) == ""
}

// longestTempDir is the length in bytes of a directory in which providers can make their sockets.
const longestTempDir = 80

// session is what runs OpenTofu for one workspace in a scratch directory.
type session struct {
	engine *Engine
	name   string
	dir    string   // scratch directory
	temp   string   // directory outside of dir that holds sockets, "" when there is none
	lock   *os.File // tells, inherited by all runs, that the scratch directory is in use
	lease  *lease   // whose lock it is, nil while only reading
	mask   *redact.Secrets

	waits   bool     // the log tells that a lock is waited for
	serving *serving // providers that run, nil when there are none
	// terminal is what a person uses with the runs, nil when nobody does.
	terminal *opentofu.Terminal
}

// Workspace is one workspace with the right to work on it. Its methods must not be called concurrently.
type Workspace struct {
	*states

	// What the guard holds, once Reserve made it or State read it.
	record []byte
	nonce  string
	tofu   string // the version of OpenTofu

	next []byte // what SetRecord set, nil when the record stays
}

// Open takes the lease of a workspace: until Close, no other process of this machine works on it. It waits, within the
// context, for a run that is under way, even when the adapter that started it is dead.
func (e *Engine) Open(ctx context.Context, workspace string) (*Workspace, error) {
	if !isWorkspaceName(workspace) || workspace == "default" {
		return nil, fmt.Errorf("opening workspace %q: the name must consist of letters, digits, - and _", workspace)
	}
	session, lease, err := e.scratch(ctx, workspace, workspace)
	if err != nil {
		return nil, fmt.Errorf("opening workspace %q: %w", workspace, err)
	}
	session.lease = lease
	return &Workspace{states: &states{session: session, store: e.store}}, nil
}

// scratch takes the lease of a scratch directory and makes the directory. What an earlier run left there is removed, except a state that
// it could not save.
func (e *Engine) scratch(ctx context.Context, workspace, name string) (*session, *lease, error) {
	dir := filepath.Join(e.options.CacheDir, runsName, name)
	l, err := e.takeLease(ctx, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("waiting for other runs%s: %w", byWhom(dir), err)
	}
	s := &session{engine: e, name: workspace, dir: dir, lock: l.file, mask: e.mask()}
	if err := errors.Join(clearScratch(dir), os.MkdirAll(filepath.Join(dir, "tmp"), 0o700), s.writeKeys()); err != nil {
		return nil, nil, errors.Join(err, clearScratch(dir), l.release())
	}
	return s, l, nil
}

// Close removes the scratch directory, unless it holds a state that could not be saved, and gives the lease back.
func (w *Workspace) Close() error {
	w.stopProviders()
	if err := errors.Join(clearScratch(w.dir), w.lease.release()); err != nil {
		return fmt.Errorf("closing workspace %q: %w", w.name, err)
	}
	return nil
}

// erroredState is the file in which OpenTofu keeps a state that it could not save.
const erroredState = "errored.tfstate"

// unsaved returns the path of a state that an earlier run could not save in the backend, "" when there is none.
func (s *session) unsaved() (string, error) {
	paths, err := filepath.Glob(filepath.Join(s.dir, "*", erroredState))
	if err != nil || len(paths) == 0 {
		return "", err
	}
	return paths[0], nil
}

// tempDir is where OpenTofu and its providers put sockets, whose paths the kernel limits to about 100 bytes.
func (s *session) tempDir() (string, error) {
	if own := filepath.Join(s.dir, "tmp"); len(own) <= longestTempDir {
		return own, nil
	}
	if s.temp == "" {
		temp, err := os.MkdirTemp(s.engine.options.TempDir, "tofu-")
		if err != nil {
			return "", err
		}
		if err := os.Symlink(temp, filepath.Join(s.dir, socketsLink)); err != nil {
			return "", errors.Join(err, os.Remove(temp))
		}
		s.temp = temp
	}
	return s.temp, nil
}

// run runs OpenTofu in a directory of the scratch directory that links to a variant of a prepared one.
func (s *session) run(ctx context.Context, p *Prepared, in place, vars map[string]any, args ...string) ([]byte, error) {
	dir := filepath.Join(s.dir, string(in))
	if err := s.enter(ctx, p, in); err != nil {
		return nil, fmt.Errorf("making scratch directory: %w", err)
	}
	if vars != nil {
		text, err := json.Marshal(vars)
		if err != nil {
			return nil, fmt.Errorf("encoding variables: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "terraform.tfvars.json"), text, 0o600); err != nil {
			return nil, err
		}
	}
	env, err := s.environment(in != outsidePlace && !s.alone(p, in))
	if err != nil {
		return nil, err
	}
	c := s.command(dir, env, args...)
	if s.terminal != nil {
		// Commands that edit the state of the local backend insist on a copy of it here.
		if err := os.MkdirAll(filepath.Join(dir, "terraform.tfstate.d", s.name), 0o700); err != nil {
			return nil, err
		}
		c.Terminal, env["TF_INPUT"] = s.terminal, "1"
	}
	if err := s.attach(in, &c); err != nil {
		return nil, fmt.Errorf("attaching providers: %w", err)
	}
	execute := s.patiently
	if in == unlockPlace {
		execute = s.once
	}
	output, err := execute(ctx, p.installation, c)
	if err != nil && in.works() && !planned(err) {
		s.stopProviders()
	}
	return output, err
}

// runBase runs OpenTofu in the directory that holds only the guard.
func (s *session) runBase(ctx context.Context, i opentofu.Installation, in place, vars map[string]any, args ...string) ([]byte, error) {
	base, err := s.engine.base(ctx, i)
	if err != nil {
		return nil, err
	}
	return s.run(ctx, base, in, vars, args...)
}

// command describes a run of OpenTofu in a directory of the scratch directory.
func (s *session) command(dir string, env map[string]string, args ...string) opentofu.Command {
	if args[0] == "show" {
		// Older OpenTofu would look for providers of registry.terraform.io under registry.opentofu.org, whatever the template says.
		env["OPENTOFU_STATEFILE_PROVIDER_ADDRESS_TRANSLATION"] = "0"
	}
	return opentofu.Command{
		Args: args, Dir: dir, Output: filepath.Join(s.dir, args[0]), Env: env,
		Lock: s.lock, Mask: s.mask, Workspace: s.name,
	}
}

// environment is what the environment of all runs of this workspace has in common, with its name or without.
func (s *session) environment(named bool) (map[string]string, error) {
	temp, err := s.tempDir()
	if err != nil {
		return nil, err
	}
	env := map[string]string{"HOME": s.dir, "TMPDIR": temp, "TF_CLI_CONFIG_FILE": os.DevNull}
	if named {
		env["TF_WORKSPACE"] = s.name
	}
	return env, s.encrypt(env)
}
