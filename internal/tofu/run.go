package tofu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"service-adapter/internal/redact"
)

// command is one run of OpenTofu.
type command struct {
	args      []string
	dir       string            // working directory
	output    string            // prefix of the files that keep its stdout and stderr
	env       map[string]string // what differs between runs
	lock      *os.File          // inherited by OpenTofu and its providers; nil without a lease
	lifeline  *os.File          // inherited as well: keeps providers alive that the engine started; nil without these
	started   func(process) error
	mask      *redact.Secrets
	workspace string // for the log
}

// run starts OpenTofu and waits for it. When the context ends, OpenTofu alone is interrupted, once, and has the grace to stop
// and save its state; then its process group is killed. It returns stdout; a failure is a *RunError.
func (e *Engine) run(ctx context.Context, i Installation, c command) ([]byte, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	stdout, err := os.OpenFile(c.output+".stdout", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer stdout.Close() //nolint:errcheck // read back below
	stderr, err := os.OpenFile(c.output+".stderr", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close() //nolint:errcheck // read back below

	// Files, not pipes, and no context of ours: the run goes on when this process is killed.
	cmd := exec.Command(i.Binary, c.args...) //nolint:gosec // the binary is the operator's
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, stdout, stderr
	cmd.Env = e.environment(i, c.env)
	if c.lock != nil {
		cmd.ExtraFiles = []*os.File{c.lock}
	}
	if c.lifeline != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, c.lifeline)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting OpenTofu: %w", err)
	}
	if c.started != nil {
		if err := c.started(identify(cmd.Process.Pid)); err != nil {
			e.logger.Warn("recording the run", "workspace", c.workspace, "error", err)
		}
	}
	waitErr := e.wait(ctx, cmd)
	e.logger.Debug("opentofu ended", "command", c.args[0], "workspace", c.workspace,
		"exit", cmd.ProcessState.ExitCode(), "took", time.Since(begin))
	return e.result(ctx, c, waitErr)
}

// ended is why a context ended, nil while it has not: its cause, where that tells more than the context itself.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); errors.Is(cause, err) {
		return cause
	}
	return err
}

// wait waits for the command and passes the end of the context on to it.
func (e *Engine) wait(ctx context.Context, cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		// Only one interrupt and only to OpenTofu: on a second one it would exit without saving its state, and a provider
		// must finish what it is doing. An error means that OpenTofu ended already.
		_ = cmd.Process.Signal(os.Interrupt)
		grace := time.NewTimer(e.options.Grace)
		defer grace.Stop()
		select {
		case err = <-ended:
		case <-grace.C:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			err = <-ended
		}
	}
	if cmd.ProcessState.ExitCode() < 0 && orphaned(process{PID: cmd.Process.Pid}) {
		// OpenTofu was killed and could not stop its providers.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	return err
}

// result reads the output of a run that ended.
func (e *Engine) result(ctx context.Context, c command, waitErr error) ([]byte, error) {
	stdout, err := os.ReadFile(c.output + ".stdout")
	if err != nil {
		return nil, err
	}
	var exit *exec.ExitError
	switch {
	case waitErr == nil:
		return stdout, nil
	case !errors.As(waitErr, &exit):
		return nil, fmt.Errorf("waiting for OpenTofu: %w", waitErr)
	}
	stderr, err := os.ReadFile(c.output + ".stderr")
	if err != nil {
		return nil, err
	}
	failure := &RunError{Command: commandName(c.args), ExitCode: exit.ExitCode(), cause: ended(ctx)}
	failure.explain(stdout, stderr, c.mask)
	failure.explainEncryption()
	if failure.ofBackend() {
		failure.Backend = e.options.Backend.Type
	}
	return nil, failure
}

// commandName returns the words of the arguments before the first option: "state pull".
func commandName(args []string) string {
	end := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") })
	if end < 0 {
		end = len(args)
	}
	return strings.Join(args[:min(end, 2)], " ")
}

// How often programs in Go look for memory that they no longer use. A run with small providers ends before that has paid: without it
// OpenTofu takes a sixth less time. With large ones it would take much more memory.
const (
	garbage        = "GOGC"
	fewCollections = "400"
)

// environment is the whole environment of a run. Programs are looked for in the paks, then in the directories of a PATH that a pak asks
// for, then in the usual ones.
func (e *Engine) environment(i Installation, run map[string]string) []string {
	env := maps.Clone(e.options.Env)
	if env == nil {
		env = map[string]string{}
	}
	path := slices.Clone(i.Path)
	if wanted := env["PATH"]; wanted != "" {
		path = append(path, wanted)
	}
	maps.Copy(env, map[string]string{
		"PATH":               strings.Join(append(path, "/usr/local/bin", "/usr/bin", "/bin"), string(filepath.ListSeparator)),
		"LANG":               "C.UTF-8",
		"TF_IN_AUTOMATION":   "1",
		"TF_INPUT":           "0",
		"CHECKPOINT_DISABLE": "1",
	})
	maps.Copy(env, run)
	if _, chosen := env[garbage]; !chosen && i.light() {
		env[garbage] = fewCollections
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
