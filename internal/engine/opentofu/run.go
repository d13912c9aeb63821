// Package opentofu runs OpenTofu and interprets its output. It knows the files of an installation (Installation),
// starts, interrupts and awaits runs (Runner), and reads their errors (Error) and their progress (Progress). It
// identifies processes (Process). It does not know workspaces. Only this package and its siblings provider and shell
// start processes.
//
// A run survives this process: its output goes to files, and when this process is killed, OpenTofu continues and saves
// its state.
package opentofu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"service-adapter/internal/ctxio"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
)

// Runner starts runs of OpenTofu. Its fields are the settings of all runs: environment, grace period, type of the state
// backend, and logger. With a Grace of 0, the Runner does not kill an interrupted run. With the Backend "", errors do
// not show that the state backend caused them. The zero value is not usable, because Logger must not be nil.
type Runner struct {
	// Env are the variables that OpenTofu and its providers have in their environment in addition to those of every
	// run. It may be nil.
	Env map[string]string
	// Grace is the time that an interrupted run has to stop and save its state before it is killed. With 0, the Runner
	// does not kill it.
	Grace time.Duration
	// Backend is the type of the state backend, such as "pg". It appears in errors about the backend.
	Backend string
	// Logger receives a debug event for each run that ended, and a warning if Command.Started fails. It must not be
	// nil.
	Logger *slog.Logger
}

// Command describes one run of OpenTofu: its arguments, working directory and environment, the files of its output, the
// files that it inherits, a callback for its start, the secrets to mask in its errors, its workspace for the log, and
// the user's terminal. Args, Dir and Output are required; the zero value of any other field means that the run does
// without it.
type Command struct {
	// Args are the arguments of OpenTofu. The first one is the subcommand and must exist.
	Args []string
	// Dir is the working directory.
	Dir string
	// Output is the prefix of the paths of two files, OUTPUT.stdout and OUTPUT.stderr, that receive the output.
	Output string
	// Env are environment variables of this run only. They override those of the Runner. It may be nil.
	Env map[string]string
	// Lock is a file that OpenTofu and its providers inherit, so that its lock is held as long as one of them runs. It
	// is nil for a run without a lease.
	Lock *os.File
	// Lifeline is a file that OpenTofu inherits. Providers that were started before the run live as long as it is open.
	// It is nil without such providers.
	Lifeline *os.File
	// Variables is a file that OpenTofu inherits and finds at the path that VariablesPath returns. It contains values
	// that must not be written to a disk. It is nil without such values.
	Variables *os.File
	// Started is called with the process after it was started, for each attempt of Run. It may be nil. Its error is
	// logged and does not end the run.
	Started func(Process) error
	// Mask contains the secrets that are masked in errors. A nil Mask contains none.
	Mask *redact.Secrets
	// Workspace is the name of the workspace for the log.
	Workspace string
	// Terminal connects the run to the user's terminal. It is nil for most runs. With a terminal the output files stay
	// empty, so Run returns no output and its errors contain no diagnostics.
	Terminal *Terminal
}

// firstInherited is the number of the first inherited file in OpenTofu, after the standard streams.
const firstInherited = 3

// inherited returns the files that OpenTofu inherits: Lock, Lifeline and Variables, in this order and without those
// that are nil. Their file descriptors in OpenTofu are 3 and following, in the order of the result.
func (c *Command) inherited() []*os.File {
	all := []*os.File{c.Lock, c.Lifeline, c.Variables}
	return slices.DeleteFunc(all, func(file *os.File) bool { return file == nil })
}

// VariablesPath returns the path at which OpenTofu finds the file Variables, such as "/proc/self/fd/5". In any other
// process the path leads to another file or none. The field Variables must not be nil. Lock and Lifeline must not
// change between the call and the run, because the number depends on them.
func (c *Command) VariablesPath() string {
	return fmt.Sprintf("/proc/self/fd/%d", firstInherited+len(c.inherited())-1)
}

// Terminal contains the standard streams of a run that a user works with: In is the run's stdin, and Out and Err
// receive its output. A nil stream is an empty input or discards the output.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
}

// attach connects the standard streams of cmd, which is not yet started, to the user's. If In is a terminal, the
// command's process group will become the terminal's foreground process group. A key that interrupts the command then
// does not reach this process, which would otherwise interrupt OpenTofu a second time. attach changes cmd.Stdin,
// cmd.Stdout, cmd.Stderr and cmd.SysProcAttr; the latter must not be nil.
func (t *Terminal) attach(cmd *exec.Cmd) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.In, t.Out, t.Err
	if file, ok := t.In.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, int(file.Fd())
	}
}

// setupAttempts is how often Run starts a command that fails because another machine creates the tables of the backend.
const setupAttempts = 5

// longestSetupPause is the longest pause between two of these attempts.
const longestSetupPause = 50 * time.Millisecond

// Run starts OpenTofu, the executable of i, with the command c, and waits until it ends. It returns the content of
// stdout, which is empty if the command has a Terminal. If OpenTofu ends with an exit status other than 0 or by a
// signal, the error is an *Error. It is another error if the files for the output cannot be created or read, or if
// OpenTofu cannot be started or awaited. The output is nil with an error.
//
// Run creates or truncates the files OUTPUT.stdout and OUTPUT.stderr, whose prefix is Command.Output, and does not
// remove them. After each start it calls Command.Started, whose error it only logs, and it logs each end. A command
// that fails because another machine creates the tables of the backend at the same moment is started again after a
// short pause, at most four times.
//
// When the context ends, Run sends one interrupt to OpenTofu, which then has Runner.Grace to stop and save its state.
// After that, Run kills OpenTofu; with a Grace of 0 it waits without a limit. If a signal ended OpenTofu, Run also
// kills the remaining processes of its group, such as providers. A run that succeeds in spite of the interrupt returns
// no error; the *Error of one that fails wraps the error of ctxio.Err. If the context ended before the start, Run
// returns the error of ctxio.Err itself, which wraps the context's.
func (r Runner) Run(ctx context.Context, i Installation, c Command) ([]byte, error) {
	for attempt := 1; ; attempt++ {
		output, err := r.runOnce(ctx, i, c)
		var failure *Error
		if !errors.As(err, &failure) || !failure.SetupRace || attempt == setupAttempts {
			return output, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(rand.N(longestSetupPause)):
		}
	}
}

// runOnce starts OpenTofu once, waits until it ends, and returns the content of stdout, which is empty if the command
// has a Terminal. The output is nil with an error. If OpenTofu fails, the error is an *Error, which wraps the error of
// ctxio.Err if ctx has ended; a run that succeeds in spite of the interrupt returns no error. If ctx ended before the
// start, the error is that of ctxio.Err itself. Other errors are that the files for the output cannot be created or
// read, and that OpenTofu cannot be started or awaited.
//
// runOnce truncates the files for the output, calls Command.Started, and logs the end of the run and an error of
// Command.Started. When ctx ends, it interrupts OpenTofu once, and kills it after Runner.Grace unless that is 0. If a
// signal ended OpenTofu, it also kills the rest of the process group.
func (r Runner) runOnce(ctx context.Context, i Installation, c Command) ([]byte, error) {
	if err := ctxio.Err(ctx); err != nil {
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

	// The output goes to files and not to pipes, so that the run continues when this process is killed.
	cmd := exec.CommandContext(ctx, i.Binary, c.Args...) //nolint:gosec // the binary is the operator's
	// Only OpenTofu is interrupted, and only once: a second interrupt makes it exit without saving its state, and
	// providers must complete the request that they work on. os.ErrProcessDone makes Wait return the exit status and
	// not the context's error.
	cmd.Cancel = func() error { return errors.Join(cmd.Process.Signal(os.Interrupt), os.ErrProcessDone) }
	cmd.WaitDelay = r.Grace
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Dir, stdout, stderr
	cmd.Env = r.Environment(i, c.Env)
	cmd.ExtraFiles = c.inherited()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.Terminal != nil {
		c.Terminal.attach(cmd)
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		// The context may have ended meanwhile.
		return nil, cmp.Or(ctxio.Err(ctx), fmt.Errorf("starting OpenTofu: %w", err))
	}
	if c.Started != nil {
		if err := c.Started(Identify(cmd.Process.Pid)); err != nil {
			r.Logger.Warn("recording the run", "workspace", c.Workspace, "error", err)
		}
	}
	waitErr := cmd.Wait()
	if cmd.ProcessState.ExitCode() < 0 && Orphaned(Process{PID: cmd.Process.Pid}) {
		// A signal ended OpenTofu, which could not stop its providers.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	r.Logger.Debug("opentofu ended", "command", c.Args[0], "workspace", c.Workspace,
		"exit", cmd.ProcessState.ExitCode(), "took", time.Since(begin))
	return r.result(ctx, c, waitErr)
}

// result returns the outcome of a run of c that has ended; waitErr is the error of exec.Cmd.Wait. If waitErr is nil,
// the run succeeded, even if ctx has ended, and result returns the content of the file OUTPUT.stdout. If waitErr is
// an exit status or a signal (an *exec.ExitError), result returns nil and an *Error that describes the failure and,
// if ctx has ended, says that the run was interrupted for that reason. It returns nil and another error, also if ctx
// has ended, if waitErr is any other error, or if an output file that it needs cannot be read: OUTPUT.stdout and,
// after a failure, OUTPUT.stderr.
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
	failure := &Error{Command: CommandName(c.Args), ExitCode: exit.ExitCode(), cause: ctxio.Err(ctx)}
	failure.explain(stdout, stderr, c.Mask)
	failure.explainEncryption()
	if failure.isBackendFault() {
		failure.Backend = r.Backend
	}
	return nil, failure
}

// CommandName returns the subcommand in args, the arguments of a run: the words before the first option, at most two,
// joined by a space, such as "state pull" or "apply". The second word may be an argument of the subcommand. CommandName
// returns "" if args is empty or begins with an option.
func CommandName(args []string) string {
	end := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") })
	if end < 0 {
		end = len(args)
	}
	return strings.Join(args[:min(end, 2)], " ")
}

// These constants make Go's garbage collector run less often in OpenTofu and its providers. With small providers a run
// ends before collections pay off, and takes a sixth less time this way. With large providers it would need much more
// memory.
const (
	gcVariable    = "GOGC"
	gcPercentRare = "400"
)

// SearchPath returns the PATH of a run of the installation, in which the processes of OpenTofu find programs: a list
// of directories separated by colons. It contains the directories of the installation, then the PATH in Runner.Env if
// that is not empty, then /usr/local/bin, /usr/bin and /bin. Directories that do not exist are not left out. The PATH
// of this process is not used. A PATH in the environment of a single run would replace the result; see Environment.
func (r Runner) SearchPath(i Installation) string {
	path := slices.Clone(i.Path)
	if configured := r.Env["PATH"]; configured != "" {
		path = append(path, configured)
	}
	path = append(path, "/usr/local/bin", "/usr/bin", "/bin")
	return strings.Join(path, string(filepath.ListSeparator))
}

// HasCommand reports whether a run with this PATH, the result of SearchPath, finds the program name and may execute it.
// name is a file name without a directory. A relative or empty directory in the PATH is ignored, because a run has a
// working directory of its own.
func HasCommand(path, name string) bool {
	return slices.ContainsFunc(filepath.SplitList(path), func(dir string) bool {
		if !filepath.IsAbs(dir) {
			return false
		}
		_, err := exec.LookPath(filepath.Join(dir, name))
		return err == nil
	})
}

// Environment returns the complete environment of a run of the installation, as NAME=VALUE, sorted by name. The
// environment of this process is not inherited. A variable has the value in run, the variables of this run only.
// Otherwise it has its fixed value: PATH that of SearchPath, and LANG, TF_IN_AUTOMATION, TF_INPUT and
// CHECKPOINT_DISABLE those that suit runs without a user. Otherwise it has the value in Runner.Env. GOGC is set to 400
// if the files of all the installation's providers together have at most 100 MiB, as without providers, and neither run
// nor Runner.Env sets it. run may be nil.
func (r Runner) Environment(i Installation, run map[string]string) []string {
	env := value.Merge(r.Env, map[string]string{
		"PATH":               r.SearchPath(i),
		"LANG":               "C.UTF-8",
		"TF_IN_AUTOMATION":   "1",
		"TF_INPUT":           "0",
		"CHECKPOINT_DISABLE": "1",
	}, run)
	if _, isSet := env[gcVariable]; !isSet && i.hasSmallProviders() {
		env[gcVariable] = gcPercentRare
	}
	return value.Convert(value.Keys(env), func(name string) string { return name + "=" + env[name] })
}
