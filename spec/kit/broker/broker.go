// Package broker runs an adapter binary as the on-demand broker does, for tests and the demo.
package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"service-adapter/internal/odb"
)

// Adapter is an adapter binary and the environment that the broker gives it.
type Adapter struct {
	Path string
	Env  []string
	// Dir is the working directory.
	Dir string
	// User is who runs it, nil for the user of this process.
	User *syscall.Credential
}

// Answer is what one run of an adapter gave.
type Answer struct {
	Input  string
	Exit   int
	Stdout string
	Stderr string
}

// Compared is what `drift --json` tells by id: the result, and each change as "ADDRESS ACTION[ATTRIBUTES]"; those of
// outputs are wanted or not.
func (a Answer) Compared(outputs bool) (map[string]string, error) {
	var document struct {
		Results []struct {
			ID, Result string
			Changes    []struct {
				Address, Action string
				Attributes      []string
			}
		}
	}
	if err := json.Unmarshal([]byte(a.Stdout), &document); err != nil {
		return nil, fmt.Errorf("%w: %s%s", err, a.Stdout, a.Stderr)
	}
	found := map[string]string{}
	for _, result := range document.Results {
		found[result.ID] = result.Result
		for _, change := range result.Changes {
			if outputs || !strings.HasPrefix(change.Address, "output.") {
				found[result.ID] += fmt.Sprint(" ", change.Address, " ", change.Action, change.Attributes)
			}
		}
	}
	return found, nil
}

// Call runs a command with its parameters, as internal/odb encodes them.
func (a Adapter) Call(ctx context.Context, command string, parameters map[string]any) (Answer, error) {
	input, err := odb.Input(command, parameters)
	if err != nil {
		return Answer{}, err
	}
	return a.Run(ctx, input, command)
}

// Run runs the adapter with a text on standard input. A non-zero exit code is no error.
func (a Adapter) Run(ctx context.Context, stdin string, arguments ...string) (Answer, error) {
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, a.Path, arguments...) //nolint:gosec // the binary under test
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(stdin), &stdout, &stderr
	command.Env, command.Dir = a.Env, a.Dir
	if a.User != nil {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: a.User}
	}
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Answer{}, fmt.Errorf("running the adapter: %w", err)
	}
	return Answer{
		Input: stdin, Exit: command.ProcessState.ExitCode(), Stdout: stdout.String(),
		Stderr: stderr.String(),
	}, nil
}
