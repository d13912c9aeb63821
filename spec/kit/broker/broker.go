// Package broker runs an adapter binary as the on-demand broker does: with the same environment, arguments and JSON on
// standard input. Tests and the demo use it.
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

// An Adapter is an adapter binary with its environment.
type Adapter struct {
	Path string
	Env  []string
	// Dir is the working directory.
	Dir string
	// User is the user as whom the adapter runs. A nil User means the user of this process.
	User *syscall.Credential
}

// An Answer is the input and the outcome of one run of an adapter.
type Answer struct {
	Input  string
	Exit   int
	Stdout string
	Stderr string
}

// Compared decodes the product of `drift --json` and returns a text for each id: the result, followed by each change as
// "ADDRESS ACTION[ATTRIBUTES]". Changes of outputs are included if outputs is true. The error, which contains both
// outputs of the command, means that standard output is not the expected JSON.
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

// Call encodes the parameters of a command with internal/odb and runs the command. See Run for the result. The error is
// that of Run, or means that a parameter cannot be encoded as JSON.
func (a Adapter) Call(ctx context.Context, command string, parameters map[string]any) (Answer, error) {
	input, err := odb.Input(command, parameters)
	if err != nil {
		return Answer{}, err
	}
	return a.Run(ctx, input, command)
}

// Run runs the adapter with a text on standard input and waits for its end. A non-zero exit code is not an error; the
// error means that the adapter could not be run.
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
