package workspace

import (
	"context"
	"fmt"
	"slices"

	"service-adapter/internal/engine/statestore"
)

// wrapError returns an error that wraps err and whose text begins with doing, the failed operation, such as "applying",
// and the name of the workspace: `applying workspace "b-1234": …`. It returns nil if err is nil.
func (d *direct) wrapError(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &workspaceError{action: doing, name: d.name, err: err}
}

// A workspaceError is an error of an operation on a workspace: the operation, the name of the workspace, and the
// wrapped error. Its text is composed when it is requested, because secrets that must be masked in the wrapped error
// may become known later.
type workspaceError struct {
	action, name string
	err          error
}

// Error returns the operation, the quoted name of the workspace and the text of the wrapped error, such as `applying
// workspace "b-1234": it is not reserved`.
func (e *workspaceError) Error() string {
	return fmt.Sprintf("%s workspace %q: %s", e.action, e.name, e.err)
}

// Unwrap returns the error of the operation, the one that wrapError wrapped, so that errors.Is and errors.As find it.
func (e *workspaceError) Unwrap() error { return e.err }

// maskSecrets registers the secrets in a state, so that they are masked in errors and log entries from now on: the
// parts of outputs that redact.Secrets.AddValues recognises, for example because their name or key denotes a secret
// or they look generated, and the attributes that the state marks as sensitive, such as a generated password, except
// those of the guard. Whether the template marks an output as sensitive does not matter. The state may be nil.
func (d *direct) maskSecrets(state *statestore.State) {
	if state == nil {
		return
	}
	d.secrets.AddValues(state.Outputs)
	d.secrets.Add(state.SensitiveValues())
}

// missingFrom returns those of the addresses of resource instances, such as "aws_s3_bucket.b[0]", that are absent from
// the stored state, in the order of addresses and with secrets masked. A nil stored means that the state is missing or
// empty, so all addresses are absent. The result is nil if none is absent.
func (d *direct) missingFrom(stored *statestore.State, addresses []string) []string {
	var missing []string
	for _, address := range addresses {
		if stored == nil || !slices.Contains(stored.Instances, address) {
			missing = append(missing, d.secrets.Clean(address))
		}
	}
	return missing
}

// graceContext returns a context for the work that must follow a run even if the context of that run has ended. It has
// the values of ctx but not its end, and ends after the grace period of the engine, which begins with this call. The
// caller must call the returned function to release the context.
func (d *direct) graceContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d.engine.options.Grace)
}
