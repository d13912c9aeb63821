// Package shell runs commands that somebody wrote for the shell. Each has a process group of its own, which ends with the command that
// started it, however that ends.
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

// Place is where commands run: a directory, and all of their environment.
type Place struct {
	Dir string
	Env []string
}

// Process is a command that was started.
type Process struct {
	// Ended is closed when the command has ended; Err is why then, nil for a success.
	Ended chan struct{}
	Err   error

	cmd  *exec.Cmd
	life *os.File
	log  string
}

// supervised runs its argument beside a shell that kills the group once nobody has the other end of descriptor 3 any more.
const supervised = `(trap '' TERM INT HUP; read -r _ <&3; kill -KILL 0) & exec 3<&-; exec /bin/sh -c "$1"`

// Start starts a command with this standard input. What it prints goes to a file of the directory.
func (p Place) Start(command string, stdin []byte, output string) (*Process, error) {
	started := &Process{Ended: make(chan struct{}), log: filepath.Join(p.Dir, output)}
	log, err := os.OpenFile(started.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the command writes it
	watched, life, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer watched.Close()                                                  //nolint:errcheck // the supervisor reads it
	started.cmd = exec.Command("/bin/sh", "-c", supervised, "sh", command) //nolint:gosec // whoever tests a pak runs its commands
	started.cmd.Dir, started.cmd.Env, started.cmd.Stdin = p.Dir, p.Env, bytes.NewReader(stdin)
	started.cmd.Stdout, started.cmd.Stderr, started.cmd.ExtraFiles = log, log, []*os.File{watched}
	started.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	started.life = life
	if err := started.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %q: %w", command, err), life.Close())
	}
	go func() {
		started.Err = started.cmd.Wait()
		close(started.Ended)
	}()
	return started, nil
}

// Run runs a command to its end. An error begins with what it printed.
func (p Place) Run(ctx context.Context, command string, stdin []byte) error {
	started, err := p.Start(command, stdin, "output")
	if err != nil {
		return err
	}
	defer started.Stop(0)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-started.Ended:
	}
	if started.Err != nil {
		return errors.New(strings.TrimSpace(started.Printed() + "\nthe command failed: " + started.Err.Error()))
	}
	return nil
}

// Printed is the end of what the command printed.
func (p *Process) Printed() string {
	const shown = 4096
	text, _ := os.ReadFile(p.log) // it was made above
	return strings.TrimSpace(string(text[max(0, len(text)-shown):]))
}

// Stop tells the process group to end, and kills what is left of it after the grace.
func (p *Process) Stop(grace time.Duration) {
	// The supervisor is in the group, so that its number is no other's.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-p.Ended:
	case <-time.After(grace):
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	_ = p.life.Close()
	<-p.Ended
}
