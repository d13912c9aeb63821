package provision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/tfjson"
)

// A Planned describes the work that Apply would do for an instance.
type Planned struct {
	// Reasons are the reasons why OpenTofu would run. If there are none, Apply would not run it.
	Reasons []string
	// Resources are the changes of resources. They may be empty although OpenTofu would run, for example if only
	// outputs change.
	Resources []tfjson.Change
}

// Plan compares the stored instance with the request, and applies nothing. If resources is set and OpenTofu would have
// to run, Plan also runs OpenTofu to determine the changes of resources; otherwise Resources is nil. Plan ends with ctx
// and has no other time limit. Until then it waits for other runs of the workspace on this machine. See
// workspace.Workspace.State for the side effects of reading the state.
//
// The error wraps ErrStateMissing if the instance must exist (Request.MustExist) and has no state. If it need not exist
// and has no state, the only reason is that it has not been created yet, and Resources is nil. Plan also returns an
// error if the workspace cannot be opened or its state cannot be read, if the deletion of the instance was begun, if
// resources are in no state (*lifecycle.LostResourcesError), if the template cannot be prepared, if OpenTofu fails, and
// for the errors of reasons.
func (p *Provisioner) Plan(ctx context.Context, r Request, resources bool) (planned Planned, err error) {
	op, err := p.open(ctx, r)
	if err != nil {
		return planned, err
	}
	defer func() { p.Close(op.space) }()
	state, record, err := op.readStored(ctx)
	switch {
	case errors.Is(err, ErrStateMissing) && !r.MustExist:
		return Planned{Reasons: []string{"the instance has not been created yet"}}, nil
	case err != nil:
		return planned, err
	case state.Destroying:
		return planned, errors.New(lifecycle.UnfinishedDeletion)
	}
	prepared, err := op.prepareChange(ctx, state, record)
	if err != nil {
		return planned, err
	}
	planned.Reasons, err = op.reasons(state, record)
	if err == nil && resources && len(planned.Reasons) > 0 {
		err = op.desired.AssignTo(op.space, op.AdapterVersion)
		if err == nil {
			planned.Resources, err = op.space.Plan(ctx, prepared, op.desired.Inputs, false)
		}
	}
	return planned, err
}

// reasons returns the reasons why OpenTofu must run, as phrases for a person, and none if the stored instance, with
// this state and record, equals the desired one. Reasons are an unfinished last run, another template, other values or
// declarations of inputs, and an upgrade that AllowUpgrade permits. They contain the names of inputs and no values. The
// values of ephemeral inputs are not stored, so they are not compared. If
// there are other reasons than an upgrade, reasons returns an error if an older OpenTofu wrote the state and
// AllowUpgrade is not set.
func (op *operation) reasons(state *statestore.State, record *lifecycle.StateRecord) ([]string, error) {
	var reasons []string
	if !state.Complete {
		reasons = append(reasons, "the last run of OpenTofu was not finished")
	}
	if !maps.Equal(record.Templates, op.desired.Templates) {
		reasons = append(reasons, "the provision template is another one")
	}
	if names := tfjson.Differing(record.Inputs, op.desired.StoredInputs()); len(names) > 0 {
		reasons = append(reasons, "other values of "+strings.Join(names, ", "))
	}
	if len(reasons) == 0 && !equalInputs(record, op.desired) {
		reasons = append(reasons, "other inputs are declared")
	}
	switch {
	case !op.needsUpgrade(state):
	case op.AllowUpgrade:
		reasons = append(reasons, fmt.Sprintf("the state is upgraded from OpenTofu %s to %s",
			state.TofuVersion, op.installation.Version))
	case len(reasons) > 0:
		return reasons, fmt.Errorf("its state was written by OpenTofu %s and the pak has %s: "+
			"the instance must be upgraded, with terraform_upgrades_enabled, before it is changed",
			state.TofuVersion, op.installation.Version)
	}
	return reasons, nil
}

// needsUpgrade reports whether an older OpenTofu than that of the installation wrote the state. It returns false if no
// apply was ever complete, because such a state has nothing that an upgrade would have to preserve.
func (op *operation) needsUpgrade(state *statestore.State) bool {
	return opentofu.Older(state.TofuVersion, op.installation.Version) && state.Applied != nil
}
