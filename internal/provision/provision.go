// Package provision applies the provision template of a service instance: OpenTofu builds what the instance needs beside its BOSH
// deployment, or instead of it.
//
// An instance is one OpenTofu workspace, as a binding is, with a record of what made it. To provision is idempotent: nothing runs
// when the template and the inputs are those of the last successful run, and a failed or interrupted run is taken up again by the
// next one.
package provision

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/record"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tofu"
	"service-adapter/internal/value"
)

// Provisioner applies provision templates. It holds no state between calls.
type Provisioner struct {
	*lifecycle.Manager
	// Updates lets an existing instance get the template of the installed pak; else it keeps the one that it was made with
	// (brokerpak_updates_enabled).
	Updates bool
	// Upgrades lets an instance whose state an older OpenTofu wrote be upgraded (terraform_upgrades_enabled); it implies Updates.
	Upgrades bool
	// Errand says that no request waits: there is as much time as an instance may take, and nothing is undone after a failure.
	Errand bool
}

// Request is an instance as it shall be.
type Request struct {
	Pak     *brokerpak.Pak
	Service *brokerpak.Service
	record.Instance
	record.Owner
	// Inputs are the resolved variables, Generated the generated values among them.
	Inputs    map[string]any
	Generated map[string]map[string]any
	// Resolve computes both again with values that were found. It may refuse them.
	Resolve func(found map[string]any) (inputs map[string]any, generated map[string]map[string]any, err error)
	// Forgotten names inputs whose values are those of the state.
	Forgotten []string
	// Known says that the instance's manifest remembers outputs of its template, so that its state must exist.
	Known bool
}

// Result is what the template gave.
type Result struct {
	// Outputs are the values of all outputs; Sensitive names those that the template declares sensitive.
	Outputs   map[string]any
	Sensitive []string
	// Changed says that OpenTofu applied something.
	Changed bool
}

// status is the message of the template, for the log.
func (r *Result) status() string {
	if slices.Contains(r.Sensitive, brokerpak.StatusOutput) {
		return ""
	}
	return value.Text(r.Outputs[brokerpak.StatusOutput])
}

// ErrStateMissing says that an instance has no state although its manifest says that OpenTofu built it. To build it once more could
// take names and addresses from what exists.
var ErrStateMissing = errors.New("the state backend has no state of the instance: restore it from a backup of the backend; without one, " +
	"delete the service instance, remove by hand what OpenTofu built for it, and create it anew")

// run is the work on one request.
type run struct {
	*Provisioner
	Request
	installation opentofu.Installation
	missing      error // providers of the instance that no pak bundles any more
	space        *tofu.Workspace
	wanted       *lifecycle.Record
}

// Apply makes the instance as it shall be and returns its outputs. What a failed creation made is destroyed; after a failed
// update the next call goes on. Errors that match ErrStateMissing need the operator; one that the service definition's errors name is a
// *fault.UserError.
func (p *Provisioner) Apply(ctx context.Context, r Request) (*Result, error) {
	if r.InstanceID == "" {
		return nil, errors.New("provisioning: the deployment's name holds no instance id")
	}
	working, ctx, cancel := p.deadlines(ctx)
	defer cancel()
	imported, err := r.imports()
	if err != nil {
		return nil, err
	}
	w, err := p.begin(working, r)
	if err != nil {
		return nil, err
	}
	defer func() { p.Close(w.space) }()
	w.wanted.Imported = imported
	result, err := w.apply(working, ctx)
	if err != nil {
		err = fmt.Errorf("provisioning instance %q: %w", r.InstanceID, err)
		return nil, lifecycle.Meaning(err, r.Service.Provision.Errors, commands()...)
	}
	if status := result.status(); status != "" {
		p.Logger.Info("provisioned", "instance", r.InstanceID, "status", status)
	}
	return result, nil
}

// begin opens the workspace of an instance, and describes it as it shall be, except for the inputs.
func (p *Provisioner) begin(ctx context.Context, r Request) (*run, error) {
	installation, err := p.Installation(ctx, r.Pak, "")
	if err != nil {
		return nil, err
	}
	space, err := p.Engine.Open(ctx, lifecycle.Workspace(lifecycle.Instance, r.InstanceID))
	if err != nil {
		return nil, err
	}
	wanted := &lifecycle.Record{
		Instance: r.Instance, Owner: r.Owner, CreatedAt: lifecycle.Now(),
		Templates: r.Service.Provision.Templates, Declared: r.Service.Provision.InputNames(),
	}
	wanted.MadeBy(r.Pak, installation)
	return &run{Provisioner: p, Request: r, installation: installation, space: space, wanted: wanted}, nil
}

// apply creates the instance or changes the one there is.
func (w *run) apply(working, all context.Context) (*Result, error) {
	if !w.Known {
		result, err := w.create(working, all)
		if !errors.Is(err, tofu.ErrExists) {
			return result, err
		}
	}
	state, record, err := w.stored(working)
	if err != nil {
		return nil, err
	}
	if w.Errand && record.Failure != nil {
		w.Logger.Warn("going on after a failure", "instance", w.InstanceID, "error", record.Failure.Operator)
	}
	switch {
	case record.Importing(state):
		if err := w.undoImport(working, record); err != nil {
			return nil, fmt.Errorf("undoing an interrupted import: %w", err)
		}
		return w.create(working, all)
	case state.Destroying:
		return nil, errDestroying
	}
	return w.update(working, all, state, record)
}

// stored is what is stored of the instance; ErrStateMissing when nothing is.
func (w *run) stored(ctx context.Context) (*statestore.State, *lifecycle.Record, error) {
	state, err := w.space.State(ctx, w.installation)
	switch {
	case err != nil:
		return nil, nil, err
	case state == nil:
		return nil, nil, ErrStateMissing
	}
	record, err := lifecycle.DecodeRecord(state.Record)
	return state, record, err
}

// create makes a new instance.
func (w *run) create(working, all context.Context) (*Result, error) {
	prepared, err := w.prepare(working, w.wanted)
	if err != nil {
		return nil, err
	}
	encoded, err := w.wanted.Encode()
	if err != nil {
		return nil, err
	}
	w.space.StartProviders(working, prepared)
	if err := w.space.Reserve(working, w.installation, encoded); err != nil {
		return nil, err
	}
	if len(w.wanted.Imported) > 0 {
		prepared, err = w.take(working, prepared)
	}
	if err == nil {
		err = w.space.Apply(working, prepared, w.wanted.Inputs)
	}
	return w.finish(working, all, prepared, true, err)
}

// finish reads what an apply gave that ended with this error or none. A failure of a creation is settled, and a creation that does not
// tell what it gave has failed; of changes only those of an errand are settled.
func (w *run) finish(working, all context.Context, prepared *tofu.Prepared, creating bool, err error) (*Result, error) {
	settled := creating || w.Errand && err != nil
	var outputs map[string]any
	if err == nil {
		outputs, err = w.space.Outputs(working, prepared)
	}
	switch {
	case err == nil:
		return newResult(prepared, outputs, true), nil
	case settled:
		return w.giveUp(all, prepared, err)
	default:
		return nil, err
	}
}

// giveUp settles a failure and returns it. Of a request that is to undo what a creation made. An errand undoes nothing, so that a repeat can go
// on and a deletion finds everything. Where OpenTofu failed after everything was made and stored, as when it could not release the lock,
// nothing has failed.
func (w *run) giveUp(ctx context.Context, prepared *tofu.Prepared, failure error) (*Result, error) {
	logger := w.Logger.With("instance", w.InstanceID)
	look, settle, interrupted := w.takeBack, w.undo, false
	if w.Errand {
		w.save(ctx)
		look, settle, interrupted = w.own, w.remember, errors.Is(ctx.Err(), context.Canceled)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifecycle.ErrandGrace)
		defer cancel()
		ctx = grace
	}
	// After a kill nobody knows what is there, and an interrupted errand has only seconds left.
	if interrupted || lifecycle.WasKilled(failure) {
		logger.Warn("OpenTofu was killed, or the errand interrupted; the next request or errand for the instance goes on")
		return nil, failure
	}
	state, err := look(ctx, failure)
	switch {
	case errors.Is(err, tofu.ErrExists) || err == nil && state == nil:
		// Another run took the workspace, and nothing in it is ours; or nothing is left, not even the guard.
	case err != nil:
		logger.Error("reading the state after a failure; what was made stays recorded", "error", err)
	case made(prepared, state, failure):
		logger.Warn("OpenTofu failed after it had made and stored everything", "error", failure)
		return newResult(prepared, state.Outputs, true), nil
	default:
		if err := settle(ctx, prepared, failure); err != nil {
			logger.Error("after a failure; the next request or errand for the instance goes on", "error", err)
		}
	}
	return nil, failure
}

// undo destroys what a failed creation made; an import is forgotten.
func (w *run) undo(ctx context.Context, prepared *tofu.Prepared, _ error) error {
	if len(w.wanted.Imported) == 0 {
		w.RollBack(ctx, w.space, w.installation, prepared, w.wanted)
		return nil
	}
	if err := w.undoImport(ctx, w.wanted); err != nil {
		return fmt.Errorf("forgetting what a failed import took over: %w", err)
	}
	return nil
}

// takeBack reads the state after a failure, unless the workspace is another run's by now, and keeps everybody else from it: what they
// finish must not look like our success.
func (w *run) takeBack(ctx context.Context, failure error) (*statestore.State, error) {
	if errors.Is(failure, tofu.ErrExists) {
		return nil, failure
	}
	if err := w.space.TakeOver(ctx, w.installation); err != nil {
		return nil, err
	}
	return w.space.State(ctx, w.installation)
}

// made tells whether a state has everything although the command failed. OpenTofu makes the mark of a complete apply before the outputs:
// one may have no value, or not be as its precondition says, and then the failure tells where the template does so.
func made(prepared *tofu.Prepared, state *statestore.State, failure error) bool {
	var run *opentofu.Error
	if !state.Complete || errors.As(failure, &run) && (run.File != "" || run.Address != "" || run.More > 0) {
		return false
	}
	return !slices.ContainsFunc(prepared.Outputs, func(name string) bool {
		_, stored := state.Outputs[name]
		return !stored
	})
}

// prepare prepares a record's template and gives the record the inputs that the template uses. All others are kept out of the state,
// and to change them changes nothing here.
func (w *run) prepare(ctx context.Context, record *lifecycle.Record) (*tofu.Prepared, error) {
	prepared, err := w.Engine.Prepare(ctx, w.installation, record.Template())
	if err != nil {
		return nil, fmt.Errorf("preparing the provision template of service %q: %w", w.Service.Name, errors.Join(err, w.missing))
	}
	record.Attempt = rand.Text()
	record.Inputs, record.Generated = map[string]any{}, map[string]map[string]any{}
	for name := range prepared.Variables {
		item, given := w.Inputs[name]
		if found, ok := record.Found[name]; ok && item == nil {
			item, given = found, true
		}
		if given {
			record.Inputs[name] = item
		}
		if calls, ok := w.Generated[name]; ok {
			record.Generated[name] = calls
		}
	}
	return prepared, nil
}

func newResult(prepared *tofu.Prepared, outputs map[string]any, changed bool) *Result {
	return &Result{Outputs: maps.Clone(outputs), Sensitive: slices.Clone(prepared.SensitiveOutputs), Changed: changed}
}

// update changes an instance where it is not as it shall be. A creation that was never finished is finished, or undone where that
// fails. What an update changed before it failed stays: an update has no rollback, and all of the budget.
func (w *run) update(working, all context.Context, state *statestore.State, record *lifecycle.Record) (*Result, error) {
	if !w.Known && len(w.wanted.Imported) > 0 && !maps.Equal(w.wanted.Imported, record.Imported) {
		return nil, fault.Userf("the instance exists already, so it cannot import anything")
	}
	w.wanted.Parameters = record.Parameters
	if !w.Known { // no manifest was deployed since the import, which could remember them
		if err := w.recall(record.Inputs); err != nil {
			return nil, err
		}
	}
	ctx, creating := all, state.Applied == nil
	if creating {
		ctx = working
	}
	prepared, err := w.inherit(ctx, state, record)
	if err != nil {
		return nil, err
	}
	reasons, err := w.reasons(state, record)
	switch {
	case err != nil:
		return nil, err
	case len(reasons) == 0:
		return newResult(prepared, state.Outputs, false), nil
	case w.older(state):
		err = w.Upgrade(ctx, w.space, state, w.Pak, w.wanted)
	default:
		err = w.wanted.Apply(ctx, w.space, w.installation, prepared, w.Pak)
	}
	return w.finish(ctx, all, prepared, creating, err)
}

// inherit gives the wanted record what the instance keeps: its template, unless the operator wants that of the installed pak, and in any
// case the main.tf that an import wrote, because the pak does not know the imported resources. What it keeps is that of the last apply
// that was complete: it does not keep what never worked.
func (w *run) inherit(ctx context.Context, state *statestore.State, record *lifecycle.Record) (*tofu.Prepared, error) {
	w.wanted.CreatedAt, w.wanted.Owner = record.CreatedAt, w.wanted.Or(record.Owner)
	if w.Errand {
		w.wanted.Outputs = record.Outputs
		if state.Complete {
			w.wanted.Outputs = state.Outputs
		}
	}
	// Resources of the state may need a provider that the installed pak does not bundle any more.
	w.missing = w.AddProviders(ctx, &w.installation, record)
	w.wanted.MadeBy(w.Pak, w.installation)
	if state.Applied != nil {
		kept, err := lifecycle.DecodeRecord(state.Applied)
		if err != nil {
			return nil, err
		}
		w.wanted.Imported, w.wanted.Found = kept.Imported, kept.Found
		switch {
		case !w.Updates && !w.Upgrades:
			w.wanted.Templates, w.wanted.Declared = kept.Templates, kept.Declared
		case len(kept.Imported) > 0:
			w.wanted.Templates = maps.Clone(w.wanted.Templates)
			w.wanted.Templates[hclfile.RegeneratedFile] = kept.Templates[hclfile.RegeneratedFile]
		}
	}
	return w.prepare(ctx, w.wanted)
}

// same tells whether two records describe the same instance. What made it does not count.
func same(a, b *lifecycle.Record) bool {
	return maps.Equal(a.Templates, b.Templates) && slices.Equal(a.Declared, b.Declared) &&
		string(value.MustJSON(a.Inputs)) == string(value.MustJSON(b.Inputs))
}
