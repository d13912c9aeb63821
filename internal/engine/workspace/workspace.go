package workspace

import (
	"context"
	"fmt"
	"strings"

	"service-adapter/internal/engine/templates"
)

// nameLetters are the characters that a workspace's name may consist of. A name of these is a plain file name and needs
// no escapes in OpenTofu.
const nameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

// longestName is the length in bytes of the longest name that a workspace may have.
const longestName = 200

// isWorkspaceName reports whether a name consists of at least one and at most longestName of the characters in
// nameLetters. It accepts "default", which Open rejects.
func isWorkspaceName(name string) bool {
	return name != "" && len(name) <= longestName && strings.Trim(name, nameLetters) == ""
}

// A Workspace is a workspace on which this process may work, because it holds the lease. Open returns it, and Close
// must be called. Its methods must not be called concurrently.
type Workspace struct {
	*states

	guard guard

	// started reports whether the last Apply may have begun to change a resource.
	started bool
}

// Open takes the lease of a workspace and creates its scratch directory. Until Close, no other process on this machine
// that uses the same CacheDir works on the workspace. Open waits until the context ends for a run that is under way,
// even if the adapter that started it is dead; a run that hangs is ended, see Options.StaleLock. Neither the backend
// nor a state is read, so the workspace need not exist.
//
// It returns an error if the name is not valid or is "default", if the context ends, or if the scratch directory cannot
// be created. If the context ends, the error wraps the context's and names the holder of the lease, as far as that is
// known.
func (e *Engine) Open(ctx context.Context, workspace string) (*Workspace, error) {
	if !isWorkspaceName(workspace) || workspace == "default" {
		return nil, fmt.Errorf("opening workspace %q: the name must consist of letters, digits, - and _", workspace)
	}
	directory, err := e.scratch.Open(ctx, workspace)
	if err != nil {
		return nil, fmt.Errorf("opening workspace %q: %w", workspace, err)
	}
	return &Workspace{states: e.states(workspace, directory)}, nil
}

// Close stops the providers, removes the scratch directory, except a state in it that could not be saved, and releases
// the lease. The Workspace must not be used afterwards. Close returns an error if a file cannot be removed; the lease
// is released nevertheless.
func (w *Workspace) Close() error {
	if err := w.scratch.Close(); err != nil {
		return fmt.Errorf("closing workspace %q: %w", w.name, err)
	}
	return nil
}

// StartProviders starts the providers of a template before the Apply that will use them, so that they start while the
// workspace is being reserved. It does not wait until they are ready. It returns no error: a failure is logged, and
// OpenTofu starts a provider that could not be started here. It does nothing if the workspace has a state that could
// not be saved.
func (w *Workspace) StartProviders(ctx context.Context, p *templates.Prepared) {
	w.scratch.StartProviders(ctx, p)
}
