package tofu

import (
	"context"
	"fmt"
	"path/filepath"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/opentofu/provider"
)

// serving is the providers that run for one place of a workspace.
type serving struct {
	*provider.Group
	prepared *Prepared
	in       place
}

// StartProviders starts the providers of a template for an Apply that follows, so that they are ready when a reservation is made. It
// does not wait for them. Whatever goes wrong is left to that Apply.
func (s *session) StartProviders(ctx context.Context, p *Prepared) {
	// A state that was not saved lies where the providers would run.
	if unsaved, err := s.unsaved(); err != nil || unsaved != "" {
		return
	}
	if err := s.enter(ctx, p, applyPlace); err != nil {
		s.engine.logger.Debug("starting providers", "workspace", s.name, "error", err)
	}
}

// enter makes the directory of a place, and starts the providers that run there. Those of another place, and of another template, end.
func (s *session) enter(ctx context.Context, p *Prepared, in place) error {
	works := in.works()
	if s := s.serving; works && s != nil && s.in == in && s.prepared.dir == p.dir && s.prepared.installation.Binary == p.installation.Binary {
		return nil // The directory is theirs, and as the run before left it.
	}
	if works {
		s.stopProviders()
	}
	dir := filepath.Join(s.dir, string(in))
	if err := link(filepath.Join(p.dir, in.variant()), dir); err != nil {
		return err
	}
	if s.alone(p, in) {
		if err := isolate(filepath.Join(dir, dataDir, chosenBackend), s.name); err != nil {
			return fmt.Errorf("choosing the workspace: %w", err)
		}
	}
	if !works || len(p.Shared) == 0 {
		return nil
	}
	env, err := s.environment(!s.alone(p, in))
	if err != nil {
		return err
	}
	group, err := provider.Start(ctx, p.Shared, provider.Options{
		Dir: dir, Env: s.engine.runner.Environment(p.installation, env), Output: filepath.Join(s.dir, "provider-"), Lock: s.lock,
		Logger: s.engine.logger.With("workspace", s.name),
	})
	if err != nil {
		return err
	}
	s.serving = &serving{Group: group, prepared: p, in: in}
	return nil
}

// attach waits for the providers of a place and tells OpenTofu about them. The lease knows them from then on.
func (s *session) attach(in place, c *opentofu.Command) error {
	if s.serving == nil || s.serving.in != in {
		return nil
	}
	variable, leaders, err := s.serving.Reattach()
	if err != nil || variable == "" {
		return err
	}
	c.Env[provider.ReattachVariable], c.Lifeline = variable, s.serving.Lifeline
	if err := s.lease.serves(leaders); err != nil {
		return fmt.Errorf("recording providers: %w", err)
	}
	return nil
}

// stopProviders ends the providers that run.
func (s *session) stopProviders() {
	if s.serving != nil {
		s.serving.Stop()
		s.serving = nil
	}
}
