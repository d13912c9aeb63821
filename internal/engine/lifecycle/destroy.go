package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"service-adapter/internal/diag"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statelock"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
	"service-adapter/internal/value"
)

// A Destruction contains the arguments of Manager.Destroy. Space is the open workspace of the binding or the instance
// to destroy, State is its stored state, and Record is the record in that state. These three are required, so the
// zero value cannot be used.
//
// Inputs are the values of the template's variables by name. A variable without a value has its default or is null,
// but Destroy fails if it is an ephemeral input that a provider block may read. Unevaluated contains, by name, the
// reasons why ephemeral inputs have no value in Inputs, which Destroy adds to that error or to its log. The function
// ReportsMissing reports whether an error of a destroy means that a resource no longer exists; Destroy then drops
// that resource from the state and continues. All three may be nil; with a nil ReportsMissing every error of a
// destroy ends Destroy.
type Destruction struct {
	// Space is the open workspace.
	Space *workspace.Workspace
	// State is the stored state of the workspace, as Space.State returned it.
	State *statestore.State
	// Record is the record in State.
	Record *StateRecord
	// Inputs are the values of the template's variables: the recorded ones, or more recent values of the same inputs. A
	// declared variable without a value has its default or is null.
	Inputs map[string]any
	// Unevaluated contains the reasons why ephemeral inputs have no value in Inputs, by name. It may be nil.
	Unevaluated map[string]error
	// ReportsMissing reports whether an error of a destroy means that the resource which the error names no longer
	// exists. Destroy then drops that resource from the state and continues. If ReportsMissing is nil, every error
	// of such a destroy ends Destroy.
	ReportsMissing func(err error) bool
}

// Destroy destroys all resources in the state of a binding or an instance and removes its workspace. It registers the
// values of ephemeral inputs in Manager.Secrets, so that they are masked. If the record already names resources that
// are in no state, Destroy destroys nothing and returns a *LostResourcesError. Before it destroys the resources, it
// does these steps:
//
//   - If an import was not finished, it drops the imported resources from the state, because they existed before the
//     instance. If no other resources are in the state, it then only removes the workspace.
//   - It replaces provider addresses in the state according to the terraform_state_provider_replacements of the pak
//     that FindPak selects for the recorded name and version, if such a pak is installed.
//   - If the last apply may have been interrupted, it takes the workspace over from all other runs and applies the
//     recorded template again, so that providers that adopt existing resources can add a resource to the state whose
//     creation was never stored. The last apply counts as interrupted unless Complete or Destroying of the State is
//     true (see statestore.State), an import is unfinished, or the record contains a Failure. A failure of the
//     repeated apply is only logged, unless the state may lack a resource afterwards; see finishInterrupted.
//   - If an apply of an instance was ever complete, it records in the state that a destroy has begun.
//
// Resources that no longer exist are dropped from the state with a warning in the log; see
// Destruction.ReportsMissing. An ephemeral variable that has no value in the Inputs and that no provider block reads
// has its default or is null, which is logged as well.
//
// After an error, the workspace and its record remain unless the state was lost or the error occurred while the
// workspace was removed, and Destroy can be called again with the state that is then stored. The error is or wraps a
// *LostResourcesError if resources are in no state, workspace.ErrTakenOver if another run owns the workspace, a
// *statelock.Error if another run holds the lock of the state for too long, and an *opentofu.Error if OpenTofu fails.
// It is also an error if the state cannot be read or changed, if no OpenTofu can be found for the record, if its
// template cannot be prepared, if ctx ends, or if an ephemeral variable that a provider block may read has no value
// in the Inputs. The state is unchanged if the OpenTofu or the value is missing.
func (m *Manager) Destroy(ctx context.Context, d Destruction) error {
	d.Record.MaskEphemeral(m.Secrets, d.Inputs)
	if err := cmp.Or(d.Record.CheckLost(), checkEphemeral(m, d.Record, d.Inputs, d.Unevaluated)); err != nil {
		return err
	}
	installation, missing, err := m.installationFor(ctx, d.Record)
	if err != nil {
		return err
	}
	remaining := d.State
	if d.Record.Importing(d.State) {
		remaining, err = dropImported(ctx, d, installation)
		if err != nil {
			return err
		}
		if len(remaining.Resources) == 0 {
			return d.Space.Remove(ctx, installation)
		}
	}
	if pak := m.findPak(d.Record.Pak, d.Record.PakVersion); pak != nil {
		if err := d.Space.ReplaceProviders(ctx, installation, pak.Manifest.ProviderReplacements); err != nil {
			return err
		}
	}
	prepared, err := m.Engine.Prepare(ctx, installation, d.Record.Template())
	if err != nil {
		// A missing provider that the template does not use is harmless, so it is reported only here.
		return fmt.Errorf("preparing the recorded template of service %q: %w",
			d.Record.Service, errors.Join(missing, err))
	}
	if d.mayBeInterrupted() {
		// The run that applies it may still be alive on another machine. It loses the workspace first, so that it
		// cannot report the resources created below as its own success.
		if err := d.Space.TakeOver(ctx, installation); err != nil {
			return err
		}
		if err := m.finishInterrupted(ctx, d, prepared); err != nil {
			return err
		}
	}
	if kind, _ := d.Record.KindAndID(); kind == Instance {
		// The instance may be requested again after a failed deletion, so the state must record that a deletion began.
		// A binding is never used again after its deletion was requested.
		if err := d.Space.BeginDestroy(ctx, installation); err != nil {
			return err
		}
	}
	if err := destroyResources(ctx, m, d, remaining.Resources, prepared); err != nil {
		return d.explainMissing(err)
	}
	return d.Space.Remove(ctx, installation)
}

// mayBeInterrupted reports whether the last apply may have been interrupted, so that resources may exist that are not
// in the state. State and Record must be set. It is false if the apply was complete, if an import was not finished,
// and if the record contains a failure. It is also false if a destroy or Forget began at any time after the last
// complete apply, even if another apply was begun in between or since. Only errands and upgrades record failures, and
// only if OpenTofu was not killed: the state then contains all created resources. An apply of a request that failed
// therefore counts as interrupted.
func (d Destruction) mayBeInterrupted() bool {
	return !d.State.Complete && !d.State.Destroying && !d.Record.Importing(d.State) && d.Record.Failure == nil
}

// dropImported drops the imported resources from the state without destroying them, using the OpenTofu of the
// installation. It returns the state that remains, or d.State if the workspace then does not exist or is empty. The
// errors are those of Workspace.Forget and Workspace.State; the returned state is meaningless then.
func dropImported(
	ctx context.Context, d Destruction, installation opentofu.Installation,
) (*statestore.State, error) {
	if err := d.Space.Forget(ctx, installation, value.Keys(d.Record.Imported)...); err != nil {
		return nil, err
	}
	state, err := d.Space.State(ctx, installation)
	return cmp.Or(state, d.State), err
}

// destroyResources destroys all resources in the state of d.Space with d.Inputs; prepared is the template of d.Record.
// It does not remove the workspace. addresses are those of the resources in the state; only their number is used. When
// OpenTofu fails because a resource, whose address its error names, no longer exists, as reported by d.ReportsMissing,
// destroyResources logs a warning, drops that resource from the state and destroys again, at most as often as there are
// addresses. It returns every other error of the destroy, an error of dropping a resource, and the error of the last
// repetition. If d.ReportsMissing is nil, it returns the first error.
func destroyResources(
	ctx context.Context, m *Manager, d Destruction, addresses []string, prepared *templates.Prepared,
) error {
	for range addresses {
		err := destroyRecord(ctx, m, d.Space, prepared, d.Record, d.Inputs)
		var run *opentofu.Error
		if err == nil || d.ReportsMissing == nil || !d.ReportsMissing(err) ||
			!errors.As(err, &run) || run.Resource() == "" {
			return err
		}
		m.Logger.Warn("the resource to destroy does not exist; dropping it from the state",
			"address", run.Address, "error", err)
		if err := d.Space.Forget(ctx, prepared.Installation(), run.Resource()); err != nil {
			return err
		}
	}
	return destroyRecord(ctx, m, d.Space, prepared, d.Record, d.Inputs)
}

// finishInterrupted applies the prepared template of d.Record, whose creation or change was interrupted, once more with
// d.Inputs, so that providers can adopt existing resources. It may use only a third of the time limit for a binding or
// an instance, whichever d.Record describes, because the destruction needs the rest; an OpenTofu that is interrupted at
// its end may take the grace of the engine longer.
//
// It returns an error if the state may lack a resource of the interrupted run; the caller must then keep the record.
// That is so if the apply fails in one of these ways:
//   - ctx has ended, or OpenTofu or a provider was killed.
//   - A provider cannot be started, reached or configured, for example because it cannot log in.
//   - The state is locked, its backend fails, or another run took over the workspace (workspace.ErrTakenOver).
//   - OpenTofu could not store the resources that it created (*LostResourcesError).
//   - An ephemeral input of the record has no value in d.Inputs, which may be the cause of the failure.
//
// Every other failure is only logged, and the result is nil. Examples are a failure of the template, and the end of
// that third without OpenTofu being killed. The state then contains everything that this apply created.
func (m *Manager) finishInterrupted(ctx context.Context, d Destruction, prepared *templates.Prepared) error {
	kind, id := d.Record.KindAndID()
	applyCtx, stop := context.WithTimeout(ctx, m.Limit(kind)/rollbackShare)
	defer stop()
	err := applyRecord(applyCtx, m, d.Space, prepared, d.Record, d.Inputs)
	if err == nil || ctx.Err() != nil || stateMayBeIncomplete(err) {
		return err
	}
	if len(d.Record.MissingEphemeral(d.Inputs)) > 0 {
		return fmt.Errorf("finishing an interrupted creation or change: %w", d.explainMissing(err))
	}
	m.Logger.Warn("finishing an interrupted creation or change before the deletion: "+
		"a resource whose creation was interrupted may exist without being recorded in the state",
		string(kind), id, "error", err)
	return nil
}

// explainMissing returns an error that wraps err and adds the names of the ephemeral inputs of d.Record that have no
// value in d.Inputs, because the missing values may be the cause. It returns err unchanged if all have a value, if err
// is nil or wraps no *opentofu.Error, or if the state backend caused the error.
func (d Destruction) explainMissing(err error) error {
	var run *opentofu.Error
	missing := d.Record.MissingEphemeral(d.Inputs)
	if len(missing) == 0 || !errors.As(err, &run) || run.Backend != "" {
		return err
	}
	return fmt.Errorf("%w; the ephemeral inputs %s had no value, which the deletion accepts with --input NAME=FILE",
		err, diag.Names(missing))
}

// stateMayBeIncomplete reports whether the apply that failed with this error may have missed a resource that an earlier
// run created and that the state does not contain. That is so if OpenTofu or a provider was killed, if a provider could
// not be started, reached or configured, if the state is locked or its backend failed, if resources are in no state,
// and if another run took over the workspace. It returns false for any other error and for nil.
func stateMayBeIncomplete(err error) bool {
	var run *opentofu.Error
	ofProvider := errors.As(err, &run) && run.OfProvider()
	return ofProvider || WasKilled(err) || stateUnreachable(err) || IsLost(err) ||
		errors.Is(err, workspace.ErrTakenOver)
}

// stateUnreachable reports whether an error means that the state is locked or that its backend failed. Such an error
// says nothing about the template or the content of the state. It returns false for nil.
func stateUnreachable(err error) bool {
	var held *statelock.Error
	var run *opentofu.Error
	return errors.As(err, &held) || errors.As(err, &run) && run.Backend != ""
}

// RollBack destroys the resources that a failed creation left, and removes the workspace. prepared is the template of
// the record, with which the creation was applied in the open workspace space, and failure is the error of the
// creation. The resources are destroyed with the inputs of the record. The context must have the rest of the budget,
// like fullCtx of Deadlines. If OpenTofu was not started, or ended by itself before it changed a resource, RollBack
// only removes the workspace, provided that it contains no resources. Otherwise it first takes the workspace over from
// all other runs.
//
// Resources that it cannot destroy stay in the state with the record, so that a later deletion destroys them. If the
// context was canceled, which means that the broker stops the command with a signal, RollBack starts no process, logs a
// warning and returns nil. If another run took over the workspace, RollBack leaves the resources to that run.
//
// RollBack logs its own failures, because the caller reports the failure of the creation. It returns an error only if
// resources are in no state; that error is a *LostResourcesError.
func (m *Manager) RollBack(
	ctx context.Context, space *workspace.Workspace, prepared *templates.Prepared, record *StateRecord, failure error,
) error {
	kind, id := record.KindAndID()
	logger := m.Logger.With(string(kind), id)
	if errors.Is(ctx.Err(), context.Canceled) {
		logger.Warn("the creation was interrupted; its resources stay in the state until the deletion")
		return nil
	}
	if !WasKilled(failure) && !space.Started() {
		// OpenTofu ended by itself before it changed any resource, so the workspace contains only the reservation.
		err := space.Remove(ctx, prepared.Installation())
		if !errors.Is(err, workspace.ErrNotEmpty) {
			logRollBack(logger, err)
			return nil
		}
	}
	err := space.TakeOver(ctx, prepared.Installation())
	if err == nil {
		err = destroyRecord(ctx, m, space, prepared, record, record.Inputs)
	}
	if err == nil {
		err = space.Remove(ctx, prepared.Installation())
	}
	logRollBack(logger, err)
	return lostError(err)
}

// logRollBack logs the error of a rollback: as a warning if another run owns the workspace, and else as an error. It
// ignores a nil error.
func logRollBack(logger *slog.Logger, err error) {
	switch {
	case err == nil:
	case errors.Is(err, workspace.ErrTakenOver):
		logger.Warn("another run took over the workspace of a failed creation; its resources are left to that run")
	default:
		logger.Error("rolling back a failed creation; the deletion will try again", "error", err)
	}
}
