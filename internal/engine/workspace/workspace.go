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

// isWorkspaceName reports whether a name is a possible name of a workspace: 1 to 200 ASCII letters, digits, hyphens and
// underscores. It accepts "default", which Open rejects.
func isWorkspaceName(name string) bool {
	return name != "" && len(name) <= longestName && strings.Trim(name, nameLetters) == ""
}

// A Workspace is a workspace on which this process may work, because it holds the lease, the exclusive right on this
// machine. It also contains what this process knows of the workspace's state and guard. Open returns it, and Close must
// be called; the zero value is not usable. Its methods must not be called concurrently.
type Workspace struct {
	*states

	guard guard

	// started reports whether the last Apply may have begun to change a resource.
	started bool
}

// Open takes the lease of a workspace and creates its scratch directory, in which OpenTofu runs. Until Close, no
// other process on this machine that uses the same CacheDir works on the workspace. Open waits until the context ends
// for a run that is under way, even if the adapter that started it is dead; a run of a dead adapter that hangs is
// ended, see Options.StaleLock. Files of an earlier run in the scratch directory are removed, except a state that
// could not be saved. Neither the backend nor a state is read, so the workspace need not exist.
//
// With an error the result is nil. Open returns an error if the name is not valid or is "default"; a valid name
// consists of 1 to 200 letters, digits, hyphens and underscores. It also returns an error if the lease cannot be
// taken or the scratch directory cannot be created, or if the context ends while Open waits. In the last case the
// error wraps the context's and names the holder of the lease, as far as that is known. If no run is under way, a
// context that has ended does not cause an error.
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
// the lease. The Workspace must not be used afterwards. Close returns an error if a file cannot be removed or closed;
// the providers are stopped and the lease is released nevertheless.
func (w *Workspace) Close() error {
	if err := w.scratch.Close(); err != nil {
		return fmt.Errorf("closing workspace %q: %w", w.name, err)
	}
	return nil
}

// StartProviders starts the providers of the prepared template p that several runs can share, before the Apply that
// will use them, so that they start while the workspace is being reserved. It does not wait until they are ready; a
// provider that is not ready within 5 seconds and before ctx ends is left to OpenTofu. StartProviders creates or
// replaces the working directory of the Apply, and first stops providers that it started before and waits for their
// end, unless these already run there for p. It returns no error: a failure is written to the debug log, and OpenTofu
// starts a provider that could not be started here. StartProviders does nothing if the workspace has a state that could
// not be saved, because the providers would run in the directory of that state.
func (w *Workspace) StartProviders(ctx context.Context, p *templates.Prepared) {
	w.scratch.StartProviders(ctx, p)
}
