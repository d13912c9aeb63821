package paktest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
	"service-adapter/internal/odb"
	"service-adapter/internal/value"
)

// notImplemented and notFound are exit codes of the protocol.
const notImplemented, notFound = 10, 41

// checkOutputs compares what an action gave with the types of its declared outputs.
func checkOutputs(action string, declared []brokerpak.Variable, given map[string]any) error {
	noCredentials := []string{"syslog_drain_url", "route_service_url", "backup_agent_url"}
	var failed []error
	for _, output := range declared {
		item, ok := given[output.Name]
		switch {
		case slices.Contains(noCredentials, output.Name):
		case !ok && output.Required:
			failed = append(failed, fmt.Errorf("%s: the required output %q is missing", action, output.Name))
		case ok && !hasType(item, output.Type):
			failed = append(failed, fmt.Errorf("%s: the output %q must be of type %s, found %s", action, output.Name, output.Type, value.Kind(item)))
		}
	}
	return errors.Join(failed...)
}

// hasType tells whether a value has a type of the format; "" is any.
func hasType(item any, typ string) bool {
	kind := value.Kind(item)
	return typ == "" || strings.HasSuffix(kind, " "+typ) || typ == "number" && kind == "an integer"
}

// refusal is a command that ended with a code other than 0.
type refusal struct {
	command, reason, user string
	code                  int
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("%s\n%s ended with exit code %d", r.reason, r.command, r.code)
	if r.user != "" {
		text += "; the user reads: " + r.user
	}
	return text
}

// isExit tells whether an error is a command that ended with this code.
func isExit(err error, code int) bool {
	var refused *refusal
	return errors.As(err, &refused) && refused.code == code
}

// call runs a command of the adapter in this process. The product is what it prints, decoded: nil where it prints nothing.
func (r *run) call(command string, parameters map[string]any) (printed string, product map[string]any, err error) {
	input, err := odb.Input(command, parameters)
	if err != nil {
		return "", nil, err
	}
	var stdout, stderr bytes.Buffer
	refused := &refusal{command: command}
	refused.code = adapter.Run(r.ctx, adapter.Invocation{
		Args: []string{"service-adapter", command}, Stdin: strings.NewReader(input), Stdout: &stdout, Stderr: &stderr,
		Getenv: r.getenv, Failed: func(reason string) { refused.reason = strings.TrimSpace(reason) },
	})
	if refused.code == 0 {
		if stdout.Len() > 0 {
			product, err = value.DecodeObject(stdout.Bytes())
		}
		return stdout.String(), product, err
	}
	refused.user = stdout.String()
	if refused.user != "" {
		r.outcome["error"] = refused.user
	}
	r.outcome["exit"], r.outcome["operator_error"] = int64(refused.code), refused.reason
	return "", nil, refused
}
