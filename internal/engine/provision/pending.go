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

// A Planned describes the work that Apply would do for an instance: the reasons why OpenTofu would run, and the changes
// of resources if they were requested. The zero value means that Apply would not run OpenTofu.
type Planned struct {
	// Reasons are the reasons why OpenTofu would run. If there are none, Apply would not run it.
	Reasons []string
	// Resources are the changes of resources. They may be empty although OpenTofu would run, for example if only
	// outputs change.
	Resources []tfjson.Change
}

// Plan compares the stored instance with the request, and returns the reasons why Apply would run OpenTofu. If
// resources is set and there are such reasons, Plan also runs OpenTofu to determine the changes of resources; otherwise
// Resources is nil. Plan uses the Inputs of the request as they are and does not call Request.Resolve. It applies and
// stores no change, but reading the state saves one that an earlier run could not save, and deletes an empty workspace.
// Plan ends with ctx and has no other time limit. Until then it waits for other runs of the workspace on this machine.
//
// If the instance has no state and need not exist, the only reason is that it has not been created yet, and Resources
// is nil. If it must exist (Request.MustExist), the error wraps ErrStateMissing. Plan also returns an error if the
// OpenTofu of the pak cannot be installed, if the workspace cannot be opened or its state or record cannot be read, if
// the deletion of the instance was begun, if resources are in no state (*lifecycle.LostResourcesError), if the template
// cannot be prepared, if OpenTofu fails, and if an older OpenTofu wrote the state, there are other reasons than that,
// and AllowUpgrade is not set. In the last case, and if the changes of resources cannot be determined, planned contains
// the reasons; after other errors it is zero.
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

// reasons returns the reasons why OpenTofu must run, as phrases for a person, and nil if the stored instance, with this
// state and record, equals the desired one. Neither state nor record may be nil, and op.desired must be complete.
// Reasons are an unfinished last run, another template, other values of inputs, other declared inputs, which are
// reported only without one of the first three, and an upgrade if AllowUpgrade permits it. They contain the names of
// inputs and no values, for example "changed values of size". The values of ephemeral inputs are not stored, so they
// are not compared.
//
// If AllowUpgrade is not set although the instance needs an upgrade (see needsUpgrade), the upgrade is no reason. If
// there are other reasons, reasons returns them together with an error then. It has no other errors.
func (op *operation) reasons(state *statestore.State, record *lifecycle.StateRecord) ([]string, error) {
	var reasons []string
	if !state.Complete {
		reasons = append(reasons, "the last run of OpenTofu was not finished")
	}
	if !maps.Equal(record.Templates, op.desired.Templates) {
		reasons = append(reasons, "the provision template changed")
	}
	if names := tfjson.Differing(record.Inputs, op.desired.StoredInputs()); len(names) > 0 {
		reasons = append(reasons, "changed values of "+strings.Join(names, ", "))
	}
	if len(reasons) == 0 && !equalInputs(record, op.desired) {
		reasons = append(reasons, "the declared inputs changed")
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

// needsUpgrade reports whether an older OpenTofu than that of op.installation wrote the state, which must not be nil.
// It returns false if no apply was ever complete, because such a state contains no resources that an upgrade would have
// to preserve, and if one of the versions is not valid.
func (op *operation) needsUpgrade(state *statestore.State) bool {
	return opentofu.Older(state.TofuVersion, op.installation.Version) && state.Applied != nil
}
