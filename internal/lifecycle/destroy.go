package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tofu"
	"service-adapter/internal/value"
)

// Destruction is what is to be destroyed.
type Destruction struct {
	Space  *tofu.Workspace
	State  *statestore.State
	Record *Record
	// Inputs are the variables of the template.
	Inputs map[string]any
	// Gone, which may be nil, tells whether an error of a destroy says that the resource it is about does not exist any more.
	Gone func(err error) bool
}

// Destroy destroys what a state records and removes the workspace. An interrupted creation is finished first, as it was begun: a
// resource whose creation was never recorded is then adopted by providers that can. What an unfinished import took over is
// forgotten: it was not made here.
func (m *Manager) Destroy(ctx context.Context, d Destruction) error {
	if err := d.Record.lost(); err != nil {
		return err
	}
	installation, missing, err := m.installationFor(ctx, d.Record)
	if err != nil {
		return err
	}
	importing := d.Record.Importing(d.State)
	if importing {
		if err := d.forgetImported(ctx, installation); err != nil {
			return err
		}
		if len(d.State.Resources) == 0 {
			return d.Space.Remove(ctx, installation)
		}
	}
	if own := m.pakOf(d.Record.Pak, d.Record.PakVersion); own != nil {
		if err := d.Space.ReplaceProviders(ctx, installation, own.Manifest.ProviderReplacements); err != nil {
			return err
		}
	}
	prepared, err := m.Engine.Prepare(ctx, installation, d.Record.Template())
	if err != nil {
		// A missing provider that the template does not use does no harm.
		return fmt.Errorf("preparing the recorded template of service %q: %w", d.Record.Service, errors.Join(missing, err))
	}
	// What an errand made before it failed in order is all in the state.
	interrupted := !d.State.Complete && !d.State.Destroying && d.Record.Failure == nil
	if !importing && interrupted {
		// Whoever creates it may be alive, on another machine; finishing it here must not look like their success.
		if err := d.Space.TakeOver(ctx, installation); err != nil {
			return err
		}
		if err := m.finish(ctx, d, prepared); err != nil {
			return err
		}
	}
	if kind, _ := d.Record.Of(); kind == Instance {
		// A binding is never used again once its deletion was asked for; an instance might be.
		if err := d.Space.BeginDestroy(ctx, installation); err != nil {
			return err
		}
	}
	if err := m.destroyAll(ctx, d, installation, prepared); err != nil {
		return err
	}
	return d.Space.Remove(ctx, installation)
}

// forgetImported drops the imported resources from the state, and leaves in State what is there besides.
func (d *Destruction) forgetImported(ctx context.Context, installation opentofu.Installation) error {
	if err := d.Space.Forget(ctx, installation, value.Keys(d.Record.Imported)...); err != nil {
		return err
	}
	state, err := d.Space.State(ctx, installation)
	if state != nil {
		d.State = state
	}
	return err
}

// destroyAll destroys all resources and forgets those that do not exist any more, as Gone tells.
func (m *Manager) destroyAll(ctx context.Context, d Destruction, installation opentofu.Installation, prepared *tofu.Prepared) error {
	for range d.State.Resources {
		err := d.Space.Destroy(ctx, prepared, d.Inputs)
		var run *opentofu.Error
		if err == nil || d.Gone == nil || !d.Gone(err) || !errors.As(err, &run) || run.Resource() == "" {
			return err
		}
		m.Logger.Warn("a resource does not exist any more", "address", run.Address, "error", err)
		if err := d.Space.Forget(ctx, installation, run.Resource()); err != nil {
			return err
		}
	}
	return d.Space.Destroy(ctx, prepared, d.Inputs)
}

// finish completes an interrupted creation, or at least tries: the greater part of the budget is left for the destruction. The
// error is not nil when the command itself has ended, when the state is out of reach or another run's, and when OpenTofu or a provider
// was killed and the state may lack what was made: then the record must stay.
func (m *Manager) finish(ctx context.Context, d Destruction, prepared *tofu.Prepared) error {
	kind, id := d.Record.Of()
	trying, stop := context.WithTimeout(ctx, m.Limit(kind)/rollbackShare)
	defer stop()
	err := d.Space.Apply(trying, prepared, d.Inputs)
	if err != nil && ctx.Err() == nil && !WasKilled(err) && !outOfReach(err) && !errors.Is(err, tofu.ErrExists) {
		m.Logger.Warn("finishing an interrupted creation or change before deleting it: a resource that was being created may be left outside",
			string(kind), id, "error", err)
		return nil
	}
	return err
}

// outOfReach tells whether an error is that of a state that is locked, or of its backend: the template may be fine.
func outOfReach(err error) bool {
	var held *tofu.LockError
	var run *opentofu.Error
	return errors.As(err, &held) || errors.As(err, &run) && run.Backend != ""
}

// RollBack destroys what a failed creation made, within what is left of the budget. What it cannot destroy stays recorded for the
// deletion to find. After a signal nothing more is started; the broker is being stopped. Nothing is destroyed of what another run took
// over meanwhile, nor where nobody can tell.
func (m *Manager) RollBack(
	ctx context.Context, space *tofu.Workspace, installation opentofu.Installation, prepared *tofu.Prepared, record *Record,
) {
	kind, id := record.Of()
	logger := m.Logger.With(string(kind), id)
	if errors.Is(ctx.Err(), context.Canceled) {
		logger.Warn("the creation was interrupted; what it made stays recorded")
		return
	}
	err := space.TakeOver(ctx, installation)
	if errors.Is(err, tofu.ErrExists) {
		logger.Warn("another run took over what a failed creation left; it is theirs to destroy")
		return
	}
	if err == nil {
		err = space.Destroy(ctx, prepared, record.Inputs)
	}
	if err != nil {
		logger.Error("destroying what a failed creation left; the deletion will try again", "error", err)
		return
	}
	if err := space.Remove(ctx, installation); err != nil {
		logger.Error("removing the workspace of a failed creation", "error", err)
	}
}

// lostInterval is how often it is tried to reserve a workspace that another run still has.
const lostInterval = 200 * time.Millisecond

// KeepLost sees to it that what a creation made, and what is in no state, is not forgotten: it logs the resources, and reserves the
// workspace once more with a record that names them, when whoever took it over is done. False when an error tells of no such resources.
func (m *Manager) KeepLost(ctx context.Context, space *tofu.Workspace, installation opentofu.Installation, record *Record, err error) bool {
	var lost *tofu.LostError
	if !errors.As(err, &lost) {
		return false
	}
	kind, id := record.Of()
	logger := m.Logger.With(string(kind), id, "resources", strings.Join(lost.Resources, ", "))
	logger.Error("a creation lost its state while it ran; what it made is in no state and may exist")
	record.Lost = lost.Resources
	encoded, err := record.Encode()
	for err == nil {
		err = space.Reserve(ctx, installation, encoded)
		if err == nil || !errors.Is(err, tofu.ErrExists) {
			break
		}
		select {
		case <-ctx.Done():
			err = errors.Join(err, ctx.Err())
		case <-time.After(lostInterval):
			err = nil
		}
	}
	if err != nil {
		logger.Error("these resources could not be recorded", "error", err)
	}
	return true
}

// lost is the error of a record that names resources which are in no state.
func (r *Record) lost() error {
	if len(r.Lost) == 0 {
		return nil
	}
	kind, id := r.Of()
	command := "bindings delete"
	if kind == Instance {
		command = "instance destroy"
	}
	return fmt.Errorf("its creation lost its state while it ran, and what it made is in no state: look for %s and remove by hand what exists, "+
		"and then run service-adapter %s %s --forget", strings.Join(r.Lost, ", "), command, id)
}
