package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"service-adapter/spec/kit/broker"
)

// patience is the time after which a test gives up waiting for an event that takes milliseconds.
const patience = 2 * time.Minute

// TestInterruptedInput interrupts commands that read from a pipe without an end. They must end with exit code 3.
func TestInterruptedInput(t *testing.T) {
	binary := broker.Binary(t)
	for name, arguments := range map[string][]string{
		"pak evaluate": {
			"pak", "evaluate", filepath.Join(repository(t), "spec", "parity", "pak"),
			"--plan", "small", "--action", "provision", "--request", "-",
		},
		"pak init": {"pak", "init", "--from", "/dev/stdin", filepath.Join(t.TempDir(), "pak")},
		"pending-changes": {
			"pending-changes", "--manifest", "/dev/stdin", "--plan", filepath.Join(repository(t), "README.md"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer write.Close()
			var stderr strings.Builder
			command := exec.Command(binary, arguments...)
			command.Stdin, command.Stderr = read, &stderr
			// The text is larger than a pipe, so the write returns only after the command has begun to read.
			err = errors.Join(command.Start(), read.Close(), writeText(write, strings.Repeat(" ", 1<<20)))
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			state := end(t, command)
			if state.ExitStatus() != 3 || !strings.HasSuffix(stderr.String(), ": context canceled\n") {
				t.Errorf("the command ended with %d: %s", state.ExitStatus(), stderr.String())
			}
		})
	}
}

// TestSecondSignal sends a signal to a command until the command ends. The first signal cannot end it, because the
// command waits for the reader of its output; a later signal must kill it.
func TestSecondSignal(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			command := exec.Command(broker.Binary(t), "pak", "schema", "definition")
			output, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := output.Read(make([]byte, 1)); err != nil { // the command now handles signals
				t.Fatal(err)
			}
			ended := make(chan syscall.WaitStatus, 1)
			go func() { ended <- end(t, command) }()
			for {
				_ = command.Process.Signal(signal) // it fails after the end of the command
				select {
				case state := <-ended:
					if !state.Signaled() || state.Signal() != signal {
						t.Errorf("the command ended with %v", state)
					}
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
}

// writeText writes a text to a file and returns the error.
func writeText(to *os.File, text string) error {
	_, err := to.WriteString(text)
	return err
}

// end waits for the end of a command and returns its status. It kills the command and fails the test if it does not
// end.
func end(t *testing.T, command *exec.Cmd) syscall.WaitStatus {
	t.Helper()
	late := time.AfterFunc(patience, func() {
		t.Error("the command does not end")
		_ = command.Process.Kill()
	})
	defer late.Stop()
	_ = command.Wait() // the caller checks the status
	return command.ProcessState.Sys().(syscall.WaitStatus)
}
