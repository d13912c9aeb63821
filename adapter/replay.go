package adapter

import (
	"context"
	"encoding/json"
	"strings"

	"service-adapter/adapter/config"
	"service-adapter/adapter/input"
	"service-adapter/internal/operate/recording"
	"service-adapter/internal/value"
)

// Replay executes a recorded request again without side effects, and returns the exit code of the command, as Run does.
// Of the invocation, it uses Stdout, Stderr and Getenv; the input is that of the file. Manifests, dashboards and
// schemas are generated again. For a binding, it prints the variables of the template instead of running OpenTofu. A
// request for a manifest that would apply a provision template fails. Replay returns an error, and 0, if the file
// cannot be read or is not a complete recording.
func Replay(ctx context.Context, invocation Invocation, file string) (int, error) {
	recorded, err := recording.Read(file)
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(recorded.Input)
	if err != nil {
		return 0, err
	}
	replayed := Invocation{
		Args: []string{"service-adapter", recorded.Command}, Stdin: strings.NewReader(string(text)),
		Stdout: invocation.Stdout, Stderr: invocation.Stderr,
		// a replay is not recorded
		Getenv: config.Override(invocation.Getenv, map[string]string{config.VariableOf("record_requests"): "''"}),
	}
	e := newExecution(replayed, recorded.Command)
	e.session.Replaying = true
	if recorded.Command == input.CreateBinding || recorded.Command == input.DeleteBinding {
		return e.execute(ctx, func(context.Context) ([]byte, error) { return e.bindVariables(recorded) }), nil
	}
	return e.execute(ctx, e.handle), nil
}

// bindVariables returns the variables that the template of a recorded binding receives from a create-binding, as JSON.
// A recorded delete-binding is treated as a create-binding with the same body. bindVariables returns an error if the
// input cannot be decoded, if the request cannot be completed, or if the variables cannot be resolved.
func (e *execution) bindVariables(recorded *recording.Recording) ([]byte, error) {
	request, size, err := input.DecodeBinding(recorded.Command, recorded.Input)
	if err != nil {
		return nil, err
	}
	if err := e.session.CompleteBind(request, size); err != nil {
		return nil, err
	}
	scope, err := request.Resolve()
	if err != nil {
		return nil, err
	}
	return append(value.MustJSON(scope.Values), '\n'), nil
}
