package scratch

import (
	"context"
	"fmt"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/provider"
	"service-adapter/internal/engine/templates"
)

// startedProviders are the provider processes that the adapter started for one prepared directory in one working
// directory.
type startedProviders struct {
	*provider.Group
	prepared *templates.Prepared
	dir      WorkingDir
}

// runFor reports whether the providers run in the working directory for the prepared directory, which must not be nil,
// and its OpenTofu. It is false for a nil receiver.
func (g *startedProviders) runFor(p *templates.Prepared, wd WorkingDir) bool {
	return g != nil && g.dir == wd && g.prepared.Equal(p)
}

// StartProviders starts the providers of a template in the working directory Apply, which it creates or replaces,
// before the run that will use them. It does not wait until they are ready. It returns no error: a failure is logged,
// and OpenTofu starts a provider that could not be started here. StartProviders does nothing if the scratch directory
// contains an unsaved state.
func (d *Directory) StartProviders(ctx context.Context, p *templates.Prepared) {
	// The providers would run in the directory that contains the state that was not saved.
	if unsaved, err := d.root.UnsavedState(d.workspace); err != nil || unsaved != "" {
		return
	}
	if err := d.ensureWorkingDir(ctx, p, Apply); err != nil {
		d.root.options.Logger.Debug("starting providers", "workspace", d.workspace, "error", err)
	}
}

// startProviders starts the providers of a prepared directory that several runs can share, in a working directory that
// exists, and makes them the running ones. Others must have been stopped. It does not wait until they are ready, and
// leaves providers that cannot be started, or are not ready when ctx ends, to OpenTofu. It returns an error if their
// environment or the pipe for their supervisors cannot be created.
func (d *Directory) startProviders(ctx context.Context, p *templates.Prepared, wd WorkingDir) error {
	env, err := d.environment(!d.usesDefaultWorkspace(p, wd))
	if err != nil {
		return err
	}
	output := d.Path("provider-")
	if len(p.EphemeralVariables()) > 0 { // a provider may write such a value to its standard error
		for n := range p.Shared {
			if err := d.keepInMemory(provider.OutputPath(output, n)); err != nil {
				return err
			}
		}
	}
	group, err := provider.Start(ctx, p.Shared, provider.Options{
		Dir: d.Path(string(wd)), Env: d.root.options.Runner.Environment(p.Installation(), env), Lock: d.lease.File(),
		Output: output,
		Logger: d.root.options.Logger.With("workspace", d.workspace),
	})
	if err != nil {
		return err
	}
	d.providers = &startedProviders{Group: group, prepared: p, dir: wd}
	return nil
}

// attachProviders waits until the providers of a working directory are ready. It sets the Lifeline of the command, and
// adds to its Env, which must not be nil, the variable that tells OpenTofu how to reach them. The lease records them,
// so that another run can kill them if the adapter dies. attachProviders does nothing if no provider runs for this
// working directory. It returns an error if the variable cannot be encoded or the lease cannot be written.
func (d *Directory) attachProviders(wd WorkingDir, c *opentofu.Command) error {
	if d.providers == nil || d.providers.dir != wd {
		return nil
	}
	variable, leaders, err := d.providers.Reattach()
	if err != nil || variable == "" {
		return err
	}
	c.Env[provider.ReattachVariable], c.Lifeline = variable, d.providers.Lifeline
	if err := d.lease.RecordProviders(leaders); err != nil {
		return fmt.Errorf("recording providers: %w", err)
	}
	return nil
}

// stopProviders stops the providers that are running, if any, and waits until they have ended.
func (d *Directory) stopProviders() {
	if d.providers != nil {
		d.providers.Stop()
		d.providers = nil
	}
}
