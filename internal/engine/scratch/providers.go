package scratch

import (
	"context"
	"fmt"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/provider"
	"service-adapter/internal/engine/templates"
)

// A startedProviders is the group of provider processes that the adapter started for one prepared directory in one
// working directory, so that several runs of OpenTofu can share them. A nil *startedProviders means that no providers
// are running.
type startedProviders struct {
	*provider.Group
	prepared *templates.Prepared
	dir      WorkingDir
}

// runFor reports whether the providers were started in the working directory wd, for the prepared directory p, which
// must not be nil, and for the OpenTofu with which p was prepared. It does not check that the processes are alive. It
// is false for a nil receiver.
func (g *startedProviders) runFor(p *templates.Prepared, wd WorkingDir) bool {
	return g != nil && g.dir == wd && g.prepared.Equal(p)
}

// StartProviders starts the providers of the prepared template p that several runs can share, before the run that
// will use them, in the working directory Apply. It does nothing if they already run there, and if the scratch
// directory contains a state that could not be saved. Otherwise it creates or replaces that working directory, stops
// all providers that were started before, and waits until these have ended.
//
// StartProviders does not wait until the new providers are ready; the run that uses them does. OpenTofu itself starts
// a provider that could not be started here, or was not ready within 5 seconds and before ctx ended. The end of ctx
// does not stop a provider that is ready. A failure is written to the debug log and not returned.
func (d *Directory) StartProviders(ctx context.Context, p *templates.Prepared) {
	// The providers would run in the directory that contains the state that was not saved.
	if d.root.UnsavedState(d.workspace) != "" {
		return
	}
	if err := d.ensureWorkingDir(ctx, p, Apply); err != nil {
		d.root.options.Logger.Debug("starting providers", "workspace", d.workspace, "error", err)
	}
}

// startProviders starts the providers of the prepared directory p that several runs can share (p.Shared) in the working
// directory wd, which must exist, and stores them in d.providers. Providers that ran before must have been stopped. It
// does not wait until they are ready. Providers that cannot be started, or are not ready within 5 seconds and before
// ctx ends, are left to OpenTofu. If the template has ephemeral variables, the output of the providers is kept in
// memory. startProviders returns an error if the environment, the files in memory for the output or the pipe for the
// supervisors of the providers cannot be created; no provider runs then.
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

// attachProviders waits until the providers of the working directory wd are ready, and lets the command c use them: it
// sets the Lifeline of the command, and adds to its Env, which must not be nil, the variable TF_REATTACH_PROVIDERS,
// which contains their addresses. The lease records the providers, so that another run can kill them if the adapter
// dies. Providers that cannot be reached are stopped and left to OpenTofu.
//
// attachProviders does not change c if no provider runs for this working directory or none of them can be reached. It
// returns an error if the variable cannot be encoded, or if the lease cannot be written; in the second case c has been
// changed.
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

// stopProviders stops the providers that are running, waits until they have ended, and forgets them. It does nothing if
// none are running.
func (d *Directory) stopProviders() {
	if d.providers != nil {
		d.providers.Stop()
		d.providers = nil
	}
}
