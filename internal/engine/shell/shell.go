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

// A Runner starts shell commands. It consists of their working directory, in which the files with their output are also
// created, and of their complete environment. In the zero value, the directory is the current one, and the nil
// environment is that of this process.
type Runner struct {
	Dir string   // the working directory, which also receives the output of commands
	Env []string // the complete environment, as NAME=VALUE
}

// Process is a command that Runner.Start started. Its channel Ended is closed when the command has ended. Its field
// Err, which may be read only then, is nil if the command succeeded, and an error otherwise. The caller must call
// Stop exactly once, even if the command has ended. If the caller's own process ends without calling Stop, the
// process group of the command is killed.
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

// Start starts a command with /bin/sh -c and returns without waiting for it. stdin is the command's standard input; nil
// means an empty one. output is a path relative to Dir: Start creates or truncates this file, and the command's stdout
// and stderr go to it. The command leads a process group of its own, which is killed if this process ends. The caller
// must call Process.Stop. Start returns an error if the file or a pipe cannot be created or the shell cannot be
// started; it does not find out whether the command succeeds.
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

// Run runs a command with /bin/sh -c and waits until it ends. stdin is the command's standard input; nil means an empty
// one. The command's stdout and stderr go to the file "output" in Dir, which is created or truncated. Before Run
// returns, it kills all processes of the command's process group that still run.
//
// Run returns nil if the command exits with 0. If the command fails, the error starts with the last 4096 bytes of the
// output. If the context ends first, Run kills the command; the error starts with the output in the same way and wraps
// the context's error. The command is started even if the context has already ended. Run also returns the errors of
// Start: the file or a pipe cannot be created, or the shell cannot be started.
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

// printedLines returns the last 4096 bytes of the command's output, as Printed does, with a line break at the end. It
// returns "" if the command has printed nothing except white space, or if the output cannot be read.
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
