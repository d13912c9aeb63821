// Package provision applies the provision template of a service instance. OpenTofu creates the resources that the
// instance needs in addition to its BOSH deployment, or instead of it.
//
// Each instance has one OpenTofu workspace with a record, like a binding. Applying is idempotent: OpenTofu does not
// run if the template and the inputs equal those of the last complete apply. The next call continues a failed or
// interrupted apply.
package provision

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// A Provisioner applies the provision templates of service instances with OpenTofu. It contains the Manager of the
// workspaces, which must not be nil, and settings: whether an existing instance gets a newer template or OpenTofu,
// and whether the caller is a BOSH errand, which has a time limit of its own and does not undo a failed creation. It
// has no state between calls. With the zero values of the settings, existing instances keep the template of their
// last complete apply, and the caller is a broker request.
type Provisioner struct {
	*lifecycle.Manager
	// UseInstalledTemplate lets Apply use the template of the installed pak for an existing instance
	// (brokerpak_updates_enabled). Otherwise the instance keeps the template of its last complete apply.
	UseInstalledTemplate bool
	// AllowUpgrade lets Apply upgrade a state that an older OpenTofu wrote (terraform_upgrades_enabled). It implies
	// UseInstalledTemplate. Otherwise such an instance cannot be changed, unless no apply was ever complete.
	AllowUpgrade bool
	// Errand is set if a BOSH errand applies the template, so that no broker request waits. The time limit is then
	// that of an instance, and a failed apply is not undone.
	Errand bool
}

// A Request describes a service instance as Apply must create it or change it: its ids, the pak and the service that
// define the template, and the resolved values of its inputs. Pak, Service, InstanceID and Resolve are required, so the
// zero value cannot be used. The zero values of all other fields are valid: there are no inputs, no owner is known, and
// the instance may be new.
type Request struct {
	Pak     *brokerpak.Pak
	Service *brokerpak.Service
	record.Instance
	// Owner is the organization and space of the instance. Its missing GUIDs are taken from the stored record.
	record.Owner
	// Inputs are the resolved values of the template's inputs, and Generated the generated values among them, by input
	// and call.
	Inputs    map[string]any
	Generated map[string]map[string]any
	// Ephemeral are the inputs whose values are not stored; see lifecycle.EphemeralInputs. Those that are neither
	// variables of the template nor the source of one may be among them.
	Ephemeral []lifecycle.EphemeralInput
	// Resolve resolves the inputs again, with additional parameters: the values of an import, and the recorded values
	// of the inputs that KeepRecorded names. It returns an error if a value is not allowed. It is called only if there
	// are such values.
	Resolve func(imported map[string]any) (inputs map[string]any, generated map[string]map[string]any, err error)
	// KeepRecorded names the inputs that get the values of the stored record if the instance exists although MustExist
	// is not set. A name without a recorded value is ignored.
	KeepRecorded []string
	// MustExist is set if the instance's manifest contains outputs of the template. If the instance has no state, Apply
	// and Plan then return an error that wraps ErrStateMissing, and Apply does not create the instance.
	MustExist bool
}

// A Result is the outcome of a successful Apply: the values of the outputs, the names of the sensitive ones, and
// whether OpenTofu ran an apply. Apply returns a nil *Result with every error. The zero Result is that of an instance
// without outputs for which OpenTofu did not have to run.
type Result struct {
	// Outputs are the values of all outputs; Sensitive names those that the template declares as sensitive.
	Outputs   map[string]any
	Sensitive []string
	// Changed reports whether OpenTofu ran an apply.
	Changed bool
}

// status returns the status message for the log, which is the value of the template's output named
// brokerpak.StatusOutput as text. It is "" if the template has no such output or if the output is sensitive. The result
// r must not be nil.
func (r *Result) status() string {
	if slices.Contains(r.Sensitive, brokerpak.StatusOutput) {
		return ""
	}
	return value.Text(r.Outputs[brokerpak.StatusOutput])
}

// ErrStateMissing means that the state backend has no state of an instance that, according to its manifest, OpenTofu
// has created. Creating it again could take the names and addresses of its existing resources.
var ErrStateMissing = errors.New("the state backend has no state of the instance: " +
	"restore it from a backup of the backend; without one, delete the service instance, " +
	"remove by hand the resources that OpenTofu created for it, and create it again")

// An operation is the work of Apply or Plan on one request. It contains the request, the OpenTofu of its pak, the
// open workspace in its field space, and the record that the next apply will store, which the steps of the operation
// complete. It holds the lease of the workspace until the workspace is closed. Only open returns one; the zero value
// cannot be used.
type operation struct {
	*Provisioner
	// Request is the request. resolveWithImported may replace its Inputs and Generated.
	Request
	// installation is the default OpenTofu of the request's pak. For an existing instance, the recorded providers are
	// added that the pak lacks.
	installation opentofu.Installation
	missing      error // names the providers of the instance that no pak has; nil if there are none
	space        *workspace.Workspace
	// desired is the record that the next apply stores. The steps of the operation complete it.
	desired *lifecycle.StateRecord
}

// Apply creates the instance or changes it as requested, within the budget or the limit of an errand, and returns its
// outputs. If OpenTofu has no work to do, it returns the stored outputs. It waits for other runs of the workspace on
// this machine, and first saves a state that an earlier run could not save. It finishes a creation that was interrupted
// or not undone, and takes its workspace over from the run that began it, which may be alive on another machine; an
// unfinished import is undone and begins again.
//
// A failed creation is undone, unless OpenTofu was killed or an errand applies; an errand records the failure in the
// state instead. After a failed change, and after a failed creation that is not undone, the next call continues. Apply
// logs the status message that the template outputs.
//
// After an error the result is nil. The error is or wraps one of these in these cases:
//   - a *fault.UserError if the request sets only some of the import inputs, if it imports other resources than the
//     existing instance did, or if the import would destroy or replace a resource; with MustExist, which ignores the
//     import inputs, none of these is an error
//   - a *fault.UserError, fault.ErrBindingNotFound or fault.ErrBindingExists if OpenTofu fails and provision.errors
//     of the service definition explains the failure; see lifecycle.ExplainError
//   - the error of Request.Resolve, which may be a *fault.UserError, if that fails
//   - an *opentofu.Error if OpenTofu fails, for example because it cannot import a resource
//   - ErrStateMissing if MustExist is set and the backend has no state of the instance, or if the state of an
//     existing instance disappears during the call
//   - workspace.ErrTakenOver if another run owns the workspace
//   - a *statelock.Error if another run holds the lock of the state for too long
//   - a *lifecycle.LostResourcesError if resources are in no state
//   - context.DeadlineExceeded if the budget or the limit ended the work
//
// It is another error if the request has no InstanceID, if the OpenTofu or the template of the pak cannot be prepared,
// if the imported resources lack an attribute that an input needs or cannot be described in HCL, if an unfinished
// import cannot be undone, if the workspace cannot be opened or its state cannot be read or stored, if the deletion of
// the instance was begun, or if a change is due although an older OpenTofu wrote the state and AllowUpgrade is not set.
func (p *Provisioner) Apply(ctx context.Context, r Request) (*Result, error) {
	if r.InstanceID == "" {
		return nil, errors.New("provisioning: the name of the deployment contains no instance id")
	}
	workCtx, ctx, cancel := p.deadlines(ctx)
	defer cancel()
	imported, err := r.importedResources()
	if err != nil {
		return nil, err
	}
	op, err := p.open(workCtx, r)
	if err != nil {
		return nil, err
	}
	defer func() { p.Close(op.space) }()
	op.desired.Imported = imported
	result, err := op.createOrChange(workCtx, ctx)
	if err != nil {
		err = fmt.Errorf("provisioning instance %q: %w", r.InstanceID, err)
		return nil, lifecycle.ExplainError(err, r.Service.Provision.Errors, explainedCommands()...)
	}
	if status := result.status(); status != "" {
		p.Logger.Info("provisioned", "instance", r.InstanceID, "status", status)
	}
	return result, nil
}

// open installs the OpenTofu of the request's pak, opens the workspace of the instance and returns a new operation. The
// operation's desired record names the instance, the pak and its template, has the current time as its creation time,
// and has no inputs yet. The workspace need not exist in the backend, and its state is not read. open waits for other
// runs of the workspace on this machine until the context ends. It returns nil and an error if the OpenTofu cannot be
// installed or the workspace cannot be opened. Otherwise the caller must close the operation's space.
func (p *Provisioner) open(ctx context.Context, r Request) (*operation, error) {
	installation, err := p.Installation(ctx, r.Pak, "")
	if err != nil {
		return nil, err
	}
	space, err := p.Engine.Open(ctx, lifecycle.Workspace(lifecycle.Instance, r.InstanceID))
	if err != nil {
		return nil, err
	}
	desired := &lifecycle.StateRecord{
		Subject: lifecycle.Subject{Instance: r.Instance, Owner: r.Owner},
		Source: lifecycle.Source{
			Templates: r.Service.Provision.Templates, Declared: r.Service.Provision.InputNames(),
		},
		Times: lifecycle.Times{CreatedAt: lifecycle.Now()},
	}
	desired.SetInstallation(r.Pak, installation)
	return &operation{Provisioner: p, Request: r, installation: installation, space: space, desired: desired}, nil
}

// createOrChange creates the instance, or changes it if it already exists or MustExist is set, and returns the result.
// An unfinished import is undone, and the instance is then created from the beginning, with the import if the request
// names one. If another run takes over the workspace during the creation, createOrChange continues with the state of
// that run. workCtx ends before the time that is reserved for the rollback, and fullCtx after it. Only a failed
// creation is rolled back, and not in an errand, which records the failure in the state instead. After any other
// failure the changes remain, and the next Apply continues with the stored state.
//
// The error wraps ErrStateMissing if the instance must exist or existed before, and has no state. It is also an error
// if the deletion of the instance was begun or an unfinished import cannot be undone. The other errors are those of
// create, claimStored and applyChanges. The result is nil after an error.
func (op *operation) createOrChange(workCtx, fullCtx context.Context) (*Result, error) {
	if !op.MustExist {
		result, err := op.create(workCtx, fullCtx)
		if !errors.Is(err, workspace.ErrExists) && !errors.Is(err, workspace.ErrTakenOver) {
			return result, err
		}
	}
	state, record, err := op.claimStored(workCtx)
	if err != nil {
		return nil, err
	}
	if op.Errand && record.Failure != nil {
		op.Logger.Warn("continuing after a failure", "instance", op.InstanceID, "error", record.Failure.Operator)
	}
	switch {
	case record.Importing(state):
		if err := op.undoImport(workCtx, record); err != nil {
			return nil, fmt.Errorf("undoing an interrupted import: %w", err)
		}
		return op.create(workCtx, fullCtx)
	case state.Destroying:
		return nil, errors.New(lifecycle.UnfinishedDeletion)
	}
	return op.applyChanges(workCtx, fullCtx, state, record)
}

// claimAttempts is how often claimStored reads the state again because another machine changed it at the same time.
const claimAttempts = 3

// claimStored reads and returns the stored state and record of the instance. Before it reads a state, it saves one
// that an earlier run could not save; it deletes an empty workspace. If no apply was ever complete, it also takes
// the workspace over from all other runs: the run that began the creation or import may be alive on another machine,
// and can then no longer apply it. The takeover waits for a run that holds the lock of the state. If that run
// finished first, claimStored returns the state that it stored. The takeover changes neither the record nor the
// resources and outputs in the state, so the results are also valid after it.
//
// The error is ErrStateMissing if there is no state, and a *lifecycle.LostResourcesError if resources are in no
// state. It wraps a *statelock.Error if another run holds the lock for too long, and workspace.ErrTakenOver only if
// other runs took over, changed or deleted the workspace during each of three attempts (claimAttempts). It is
// another error if the state or the record cannot be read, or if the takeover cannot be stored; see
// workspace.Workspace.TakeOver. After an error, state and record must not be used.
func (op *operation) claimStored(
	ctx context.Context,
) (state *statestore.State, record *lifecycle.StateRecord, err error) {
	for range claimAttempts {
		state, record, err = op.readStored(ctx)
		if err != nil || state.Applied != nil || state.Destroying {
			return state, record, err
		}
		if err = op.space.TakeOver(ctx, op.installation); !errors.Is(err, workspace.ErrTakenOver) {
			return state, record, err
		}
	}
	return nil, nil, err
}

// readStored reads the state of the instance from the backend, and returns it with its decoded record. The error is
// ErrStateMissing if there is no state, and a *lifecycle.LostResourcesError if the record names resources that are in
// no state. It is another error if the state or the record cannot be read. After an error, neither result must be used.
// Reading the state first saves one that an earlier run could not save, and deletes an empty workspace.
func (op *operation) readStored(ctx context.Context) (*statestore.State, *lifecycle.StateRecord, error) {
	state, err := op.space.State(ctx, op.installation)
	switch {
	case err != nil:
		return nil, nil, err
	case state == nil:
		return nil, nil, ErrStateMissing
	}
	record, err := lifecycle.DecodeRecord(state.Record)
	if err == nil {
		err = record.CheckLost()
	}
	return state, record, err
}

// create reserves the workspace of a new instance, imports the resources that the request names, applies the
// template and returns the result. It completes op.desired, which is stored as the record of the reservation, and
// starts the providers meanwhile. workCtx ends before the time of the rollback, and fullCtx after it. The result is
// nil after an error.
//
// If the workspace already exists, the error wraps workspace.ErrExists. create then changes no stored state, except
// that it saves one that an earlier run could not save. It is also an error if the template cannot be prepared, the
// record cannot be encoded, or the workspace cannot be reserved; in the last case the reservation may be stored
// nevertheless, and the next Apply continues with it.
//
// A failure after the reservation is passed to finish, which tries to undo the creation of a request or to record
// the failure of an errand, and returns the error, or the result if everything was created nevertheless. If the
// error wraps workspace.ErrTakenOver, this run no longer owns the workspace, and create has undone nothing. If it
// wraps a *lifecycle.LostResourcesError, resources are in no state.
func (op *operation) create(workCtx, fullCtx context.Context) (*Result, error) {
	prepared, err := op.prepareDesired(workCtx)
	if err != nil {
		return nil, err
	}
	encoded, err := op.desired.Encode(op.AdapterVersion)
	if err != nil {
		return nil, err
	}
	op.space.StartProviders(workCtx, prepared)
	if err := op.space.Reserve(workCtx, op.installation, encoded); err != nil {
		return nil, err
	}
	if len(op.desired.Imported) > 0 {
		prepared, err = op.importResources(workCtx, prepared)
	}
	if err == nil {
		err = op.ApplyRecord(workCtx, op.space, prepared, op.desired)
	}
	return op.finish(workCtx, fullCtx, prepared, true, err)
}

// finish returns the result of an apply. applyErr is the error with which the apply ended, or nil after a success;
// finish then reads the outputs, within workCtx. prepared is the template that was applied, and creating states whether
// the apply was a creation. workCtx ends before the time of the rollback, and fullCtx after it.
//
// After a creation, both applyErr and an error of reading the outputs are passed to settleFailure, which tries to
// undo the creation of a request or to record the failure of an errand, and may still return a result. After a
// change, only the applyErr of an errand is passed on; an error of reading the outputs is not recorded. All other
// errors, and those that wrap a *lifecycle.LostResourcesError, are returned as they are, with a nil result.
func (op *operation) finish(
	workCtx, fullCtx context.Context, prepared *templates.Prepared, creating bool, applyErr error,
) (*Result, error) {
	failure, mustSettle := applyErr, creating || op.Errand
	if applyErr == nil {
		outputs, err := op.space.Outputs(workCtx, prepared)
		if err == nil {
			return newResult(prepared, outputs, true), nil
		}
		failure, mustSettle = err, creating
	}
	if !mustSettle || lifecycle.IsLost(failure) {
		return nil, failure
	}
	return op.settleFailure(fullCtx, prepared, failure)
}

// prepareDesired prepares the template of op.desired, returns it, and completes that record. It sets a new random
// Attempt, and sets Inputs and Generated to the values of the request for the variables of the template. An input that
// is missing or null gets the recorded value of the import (ImportedValues). Inputs that are not variables stay out of
// the state, so that changing them does not change the instance. It sets the list of ephemeral inputs, whose values are
// masked from now on and are not stored with the record.
//
// prepareDesired returns nil and an error only if the template cannot be prepared. The record does not change then, and
// the error also names the recorded providers that no pak has.
func (op *operation) prepareDesired(ctx context.Context) (*templates.Prepared, error) {
	record := op.desired
	prepared, err := op.Engine.Prepare(ctx, op.installation, record.Template())
	if err != nil {
		return nil, fmt.Errorf("preparing the provision template of service %q: %w",
			op.Service.Name, errors.Join(err, op.missing))
	}
	record.Attempt = rand.Text()
	record.Inputs, record.Generated = map[string]any{}, map[string]map[string]any{}
	for name := range prepared.Variables {
		item, provided := op.Inputs[name]
		if imported, ok := record.ImportedValues[name]; ok && item == nil {
			item, provided = imported, true
		}
		if provided {
			record.Inputs[name] = item
		}
		if calls, ok := op.Generated[name]; ok {
			record.Generated[name] = calls
		}
	}
	record.Ephemeral = op.ephemeralInputs(prepared)
	record.MaskEphemeral(op.Secrets, record.Inputs)
	return prepared, nil
}

// ephemeralInputs returns the descriptions of the ephemeral inputs for op.desired, whose Inputs must be set. First come
// those of the request that are ephemeral variables of the prepared template. If the template has any ephemeral
// variable, those of the request that are not variables of the template at all are included as well, because an
// ephemeral variable may be computed from them. Then come the other ephemeral variables of the template that have a
// value, with only their names; the request does not describe them if, for example, the instance keeps an older
// template than that of the pak. The result is nil if there are none.
func (op *operation) ephemeralInputs(prepared *templates.Prepared) []lifecycle.EphemeralInput {
	var inputs []lifecycle.EphemeralInput
	names := prepared.EphemeralVariables()
	for _, input := range op.Ephemeral {
		variable, isVariable := prepared.Variables[input.Name]
		if variable.Ephemeral || !isVariable && len(names) > 0 {
			inputs = append(inputs, input)
		}
	}
	for _, name := range names {
		described := slices.ContainsFunc(inputs, func(e lifecycle.EphemeralInput) bool { return e.Name == name })
		if !described && op.desired.Inputs[name] != nil {
			inputs = append(inputs, lifecycle.EphemeralInput{Name: name})
		}
	}
	return inputs
}

// newResult returns a new result with copies of the outputs and of the names of the sensitive ones, which the prepared
// template declares. outputs are the values of all outputs by name, and may be nil. changed becomes Result.Changed, and
// states whether OpenTofu ran an apply.
func newResult(prepared *templates.Prepared, outputs map[string]any, changed bool) *Result {
	return &Result{Outputs: maps.Clone(outputs), Sensitive: slices.Clone(prepared.SensitiveOutputs), Changed: changed}
}
