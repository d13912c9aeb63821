package test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"service-adapter/adapter"
	"service-adapter/internal/odb"
	"service-adapter/internal/value"
)

// generateManifest is the name of an adapter command that runs with an environment of its own; see generatingEnv.
const generateManifest = "generate-manifest"

// notImplemented and notFound are exit codes of the broker's protocol with the adapter: the service does not support
// the command, and the binding does not exist.
const notImplemented, notFound = 10, 41

// A rejection is the error for a call of an adapter command that ended with an exit code other than 0. It contains the
// name of the command, the code, the message in the operator's log, and the message that the broker shows to the user,
// which may be "".
type rejection struct {
	command string
	reason  string // the message in the operator's log
	user    string // the text on standard output, which the broker shows to the user; "" without one
	code    int
}

// Error returns the message in the operator's log and, on a further line, the name of the command with its exit code.
// The message to the user, if the adapter printed one, follows on that line.
func (r *rejection) Error() string {
	text := fmt.Sprintf("%s\n%s ended with exit code %d", r.reason, r.command, r.code)
	if r.user != "" {
		text += "; the user reads: " + r.user
	}
	return text
}

// isExit reports whether an error is, or wraps, a *rejection with this exit code. It returns false for nil.
func isExit(err error, code int) bool {
	var rejected *rejection
	return errors.As(err, &rejected) && rejected.code == code
}

// call runs a command of the adapter, such as "create-binding", in this process, with the configuration of the step.
// The environment is that of getenv, and for generate-manifest that of generatingEnv. parameters become the standard
// input, as the broker encodes them. call returns the standard output and, as product, the JSON object that this
// contains; product is nil if the command printed nothing or null.
//
// If the command ends with an exit code other than 0, also because r.ctx ends, call returns "", nil and a *rejection.
// It sets the sections "exit" and "operator_error" of r.outcome, and "error" if there is a message to the user; the
// masks are not applied to these texts. call returns another error if the parameters cannot be encoded, or if the
// output, which printed then contains, is not a JSON object.
func (r *run) call(command string, parameters map[string]any) (printed string, product map[string]any, err error) {
	input, err := odb.Input(command, parameters)
	if err != nil {
		return "", nil, err
	}
	var stdout, stderr bytes.Buffer
	rejected, getenv := &rejection{command: command}, r.getenv
	if command == generateManifest {
		getenv = r.generatingEnv
	}
	rejected.code = adapter.Run(r.ctx, adapter.Invocation{
		Args: []string{"service-adapter", command}, Stdin: strings.NewReader(input), Stdout: &stdout, Stderr: &stderr,
		Getenv: getenv, Failed: func(reason string) { rejected.reason = r.inSource(strings.TrimSpace(reason)) },
	})
	if rejected.code == 0 {
		if stdout.Len() > 0 {
			product, err = value.DecodeObject(stdout.Bytes())
		}
		return stdout.String(), product, err
	}
	rejected.user = stdout.String()
	if rejected.user != "" {
		r.outcome["error"] = rejected.user
	}
	r.outcome["exit"], r.outcome["operator_error"] = int64(rejected.code), rejected.reason
	return "", nil, rejected
}
