// Package shell runs shell commands. Each command runs in a process group of its own. When the process that started it
// ends, for whatever reason, the whole group is killed.
package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A Runner starts shell commands in a working directory and an environment. With a nil Env, commands have the
// environment of this process.
type Runner struct {
	Dir string   // the working directory, which also receives the output of commands
	Env []string // the complete environment, as NAME=VALUE
}

// Process is a command that Runner.Start started.
type Process struct {
	// Ended is closed when the command has ended.
	Ended chan struct{}
	// Err is nil if the command succeeded. It may be read only after Ended is closed.
	Err error

	cmd      *exec.Cmd
	lifeline *os.File // the writing end of the supervisor's pipe
	log      string   // the path of the file with the output
}

// supervised is a shell script that runs its argument as a shell command. A background process, the supervisor, reads
// from file descriptor 3 until all writers have closed it, and then kills the process group. It ignores the signals
// that end the command.
const supervised = `(trap '' TERM INT HUP; read -r _ <&3; kill -KILL 0) & exec 3<&-; exec /bin/sh -c "$1"`

// Start starts a shell command with this standard input, which may be nil, and returns without waiting for it. The
// command's stdout and stderr go to the file named output in Dir, which is created or truncated. The caller must call
// Process.Stop. Start returns an error if the file or a pipe cannot be created or the shell cannot be started; it does
// not find out whether the command succeeds.
func (r Runner) Start(command string, stdin []byte, output string) (*Process, error) {
	started := &Process{Ended: make(chan struct{}), log: filepath.Join(r.Dir, output)}
	log, err := os.OpenFile(started.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the command writes it
	pipe, lifeline, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer pipe.Close() //nolint:errcheck // the supervisor reads it
	//nolint:gosec // the command is the pak author's
	started.cmd = exec.Command("/bin/sh", "-c", supervised, "sh", command)
	started.cmd.Dir, started.cmd.Env, started.cmd.Stdin = r.Dir, r.Env, bytes.NewReader(stdin)
	started.cmd.Stdout, started.cmd.Stderr, started.cmd.ExtraFiles = log, log, []*os.File{pipe}
	started.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	started.lifeline = lifeline
	if err := started.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %q: %w", command, err), lifeline.Close())
	}
	go func() {
		started.Err = started.cmd.Wait()
		close(started.Ended)
	}()
	return started, nil
}

// Run runs a shell command with this standard input, which may be nil, and waits until it ends. Processes that the
// command has started and that still run are then killed. The output goes to the file "output" in Dir. If the command
// fails, the error starts with the end of its output. If the context ends first, Run kills the command, and the error
// wraps that of the context. The errors of Start are returned as well.
func (r Runner) Run(ctx context.Context, command string, stdin []byte) error {
	started, err := r.Start(command, stdin, "output")
	if err != nil {
		return err
	}
	defer started.Stop(0)
	select {
	case <-ctx.Done():
		return fmt.Errorf("%sthe command did not end: %w", started.printedLines(), ctx.Err())
	case <-started.Ended:
	}
	if started.Err != nil {
		return errors.New(started.printedLines() + "the command failed: " + started.Err.Error())
	}
	return nil
}

// printedLines returns the result of Printed with a line break at its end, and "" if the command has printed nothing.
func (p *Process) printedLines() string {
	if printed := p.Printed(); printed != "" {
		return printed + "\n"
	}
	return ""
}

// Printed returns the last 4096 bytes of what the command has written so far to stdout and stderr, without surrounding
// white space. It may be called before and after the command ended. It returns "" if the file with the output cannot be
// read.
func (p *Process) Printed() string {
	const shown = 4096
	text, _ := os.ReadFile(p.log) // Start created the file
	return strings.TrimSpace(string(text[max(0, len(text)-shown):]))
}

// Stop sends SIGTERM to the process group and waits until the command ends, at most for the grace period, which may be
// 0. It then kills the remaining processes of the group and waits for the command, so that Ended is closed afterwards.
// It must be called exactly once, also if the command has ended, because processes that the command started may still
// run.
func (p *Process) Stop(grace time.Duration) {
	// The process group still exists, because the supervisor is in it and ignores SIGTERM.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-p.Ended:
	case <-time.After(grace):
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	_ = p.lifeline.Close()
	<-p.Ended
}
