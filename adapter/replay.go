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

// Replay executes a recorded request again, with the current configuration and paks, and returns the exit code of the
// command, as Run does. file is the path of a recording that record_requests created. Of the invocation, Replay uses
// Stdout, Stderr and Getenv; the input is that of the file, in which secrets are masked. Manifests, dashboard URLs and
// schemas are generated again and written to Stdout. For a create-binding or delete-binding, Replay writes the
// variables of the bind template instead of running OpenTofu. The output may contain secrets of the current
// configuration in clear text. Replay records no request, and neither plans nor applies a template: a generate-manifest
// that would apply a provision template fails, and a check for pending changes does not compare the state of the
// instance.
//
// A failed command is reported by its exit code only. Replay returns 0 and an error if the file cannot be read, is not
// a recording of a command of the protocol, or lacks a field that could not be parsed or masked.
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

// bindVariables returns the variables that the bind template would receive from a create-binding with the recorded
// input, as a JSON object with a line break at its end. The values, which may be secrets of the operator, are not
// masked. recorded must be the recording of a create-binding or of a delete-binding; the latter is treated as a
// create-binding with the same body.
//
// bindVariables neither runs OpenTofu nor reads a state. If an errand applied the provision template,
// instance.details therefore lacks the outputs of the template, and an input whose expression reads one of them, as
// in instance.details.host, cannot be resolved.
//
// It returns nil and an error if the input cannot be decoded (an input.Error, or a fault.UserError if the body is
// nested too deeply), if the request cannot be completed (see session.Session.CompleteBind), or if it is not valid or
// its inputs cannot be resolved (see binding.Request.Resolve).
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
