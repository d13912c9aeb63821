// Package opentofu runs OpenTofu and reads what it says: which files an installation consists of, how a run is started, waited for and
// interrupted, and what its diagnostics and its words about locks and encryption mean. It knows nothing of workspaces, and is with
// the packages below it the only one that starts processes.
//
// A run is not tied to the life of this process: its output goes to files, and when this process is killed OpenTofu goes on and saves its
// state.
package opentofu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"service-adapter/internal/redact"
	"service-adapter/internal/value"
)

// Runner runs OpenTofu.
type Runner struct {
	// Env is what OpenTofu and its providers find in their environment besides the few variables that every run has.
	Env map[string]string
	// Grace is how long a run may take to stop and save its state after it was interrupted.
	Grace time.Duration
	// Backend is the type of the state backend, for errors.
	Backend string
	// Logger gets one event per run.
	Logger *slog.Logger
}

// Command is one run of OpenTofu.
type Command struct {
	Args []string
	// Dir is the working directory, and Output the prefix of the files that keep stdout and stderr.
	Dir, Output string
	// Env is what differs between runs.
	Env map[string]string
	// Lock is inherited by OpenTofu and its providers; nil without a lease. Lifeline is inherited as well: it keeps providers alive that
	// were started beforehand; nil without these.
	Lock, Lifeline *os.File
	// Started, which may be nil, is told which process runs.
	Started func(Process) error
	// Mask hides secrets in errors.
	Mask *redact.Secrets
	// Workspace is for the log.
	Workspace string
	// Terminal, nil for most runs, is where a person works with OpenTofu: then Output is not used, and nothing that it says is known.
	Terminal *Terminal
}

// Terminal is the standard input and both outputs of a run.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
}

// lend gives the run what the person uses. Where that is a terminal the run gets it for itself: it is in a process group of its own, and a
// key that interrupts it must not reach this process as well, which would interrupt it once more.
func (t *Terminal) lend(cmd *exec.Cmd) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.In, t.Out, t.Err
	if file, ok := t.In.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, int(file.Fd())
	}
}

// Run starts OpenTofu and waits for it. When the context ends, OpenTofu alone is interrupted, once, and has the grace to stop
// and save its state; then its process group is killed. It returns stdout; a failure is an *Error.
func (r Runner) Run(ctx context.Context, i Installation, c Command) ([]byte, error) {
	if err := Ended(ctx); err != nil {
		return nil, err
	}
	stdout, err := os.OpenFile(c.Output+".stdout", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer stdout.Close() //nolint:errcheck // read back below
	stderr, err := os.OpenFile(c.Output+".stderr", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close() //nolint:errcheck // read back below

	// Files, not pipes: the run goes on when this process is killed.
	cmd := exec.CommandContext(ctx, i.Binary, c.Args...) //nolint:gosec // the binary is the operator's
	// Only one interrupt and only to OpenTofu: on a second one it would exit without saving its state, and a provider must finish what
	// it is doing. Whether it ended with success then is for its exit status to tell, not for the context.
	cmd.Cancel = func() error { return errors.Join(cmd.Process.Signal(os.Interrupt), os.ErrProcessDone) }
	cmd.WaitDelay = r.Grace
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Dir, stdout, stderr
	cmd.Env = r.Environment(i, c.Env)
	if c.Lock != nil {
		cmd.ExtraFiles = []*os.File{c.Lock}
	}
	if c.Lifeline != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, c.Lifeline)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.Terminal != nil {
		c.Terminal.lend(cmd)
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, cmp.Or(Ended(ctx), fmt.Errorf("starting OpenTofu: %w", err)) // it may have ended just now
	}
	if c.Started != nil {
		if err := c.Started(Identify(cmd.Process.Pid)); err != nil {
			r.Logger.Warn("recording the run", "workspace", c.Workspace, "error", err)
		}
	}
	waitErr := cmd.Wait()
	if cmd.ProcessState.ExitCode() < 0 && Orphaned(Process{PID: cmd.Process.Pid}) {
		// OpenTofu was killed and could not stop its providers.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	r.Logger.Debug("opentofu ended", "command", c.Args[0], "workspace", c.Workspace,
		"exit", cmd.ProcessState.ExitCode(), "took", time.Since(begin))
	return r.result(ctx, c, waitErr)
}

// Ended is why a context ended, nil while it has not: its cause, where that tells more than the context itself.
func Ended(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); errors.Is(cause, err) {
		return cause
	}
	return err
}

// result reads the output of a run that ended.
func (r Runner) result(ctx context.Context, c Command, waitErr error) ([]byte, error) {
	stdout, err := os.ReadFile(c.Output + ".stdout")
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
	stderr, err := os.ReadFile(c.Output + ".stderr")
	if err != nil {
		return nil, err
	}
	failure := &Error{Command: CommandName(c.Args), ExitCode: exit.ExitCode(), cause: Ended(ctx)}
	failure.explain(stdout, stderr, c.Mask)
	failure.explainEncryption()
	if failure.ofBackend() {
		failure.Backend = r.Backend
	}
	return nil, failure
}

// CommandName returns the words of the arguments before the first option: "state pull".
func CommandName(args []string) string {
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

// Environment is the whole environment of a run. Programs are looked for in the paks, then in the directories of a PATH that a pak asks
// for, then in the usual ones.
func (r Runner) Environment(i Installation, run map[string]string) []string {
	path := slices.Clone(i.Path)
	if wanted := r.Env["PATH"]; wanted != "" {
		path = append(path, wanted)
	}
	env := value.Merge(r.Env, map[string]string{
		"PATH":               strings.Join(append(path, "/usr/local/bin", "/usr/bin", "/bin"), string(filepath.ListSeparator)),
		"LANG":               "C.UTF-8",
		"TF_IN_AUTOMATION":   "1",
		"TF_INPUT":           "0",
		"CHECKPOINT_DISABLE": "1",
	}, run)
	if _, chosen := env[garbage]; !chosen && i.light() {
		env[garbage] = fewCollections
	}
	return value.Each(value.Keys(env), func(name string) string { return name + "=" + env[name] })
}
