package workspace

import (
	"context"
	"fmt"
	"slices"

	"service-adapter/internal/engine/statestore"
)

// wrapError returns an error that wraps err and whose text begins with the failed operation, such as "applying", and
// the name of the workspace. It returns nil for nil.
func (d *direct) wrapError(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &workspaceError{action: doing, name: d.name, err: err}
}

// A workspaceError is an error of an operation on a workspace. Its text is composed when it is requested, because
// secrets that must be masked in the wrapped error may become known later.
type workspaceError struct {
	action, name string
	err          error
}

// Error names the operation and the workspace.
func (e *workspaceError) Error() string {
	return fmt.Sprintf("%s workspace %q: %s", e.action, e.name, e.err)
}

// Unwrap returns the error of the operation.
func (e *workspaceError) Unwrap() error { return e.err }

// maskSecrets registers the secrets in a state, so that they are masked in later errors: outputs whose name denotes a
// secret or whose value looks generated, and attributes that the template or a provider marks as sensitive, such as a
// generated password. The state may be nil.
func (d *direct) maskSecrets(state *statestore.State) {
	if state == nil {
		return
	}
	d.secrets.AddValues(state.Outputs)
	d.secrets.Add(state.SensitiveValues())
}

// missingFrom returns those of the addresses of instances that are absent from the stored state, with secrets masked. A
// nil stored has none of them. The result is nil if none is missing.
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
// the values of that context and ends after the grace period of the engine. The caller must call the returned function.
func (d *direct) graceContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d.engine.options.Grace)
}
