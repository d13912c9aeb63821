package provision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"service-adapter/internal/lifecycle"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tfjson"
)

// Planned is what Apply would do to an instance.
type Planned struct {
	// Reasons tell why OpenTofu would run; none means that it would not.
	Reasons []string
	// Resources are what it would do to resources. It may be none although OpenTofu would run: for outputs alone.
	Resources []tfjson.Change
}

// Plan compares an instance with what is wanted, and changes nothing. It tells why OpenTofu would run, and with resources what it would do
// to them, which takes a run. Errors are those that Apply would have.
func (p *Provisioner) Plan(ctx context.Context, r Request, resources bool) (planned Planned, err error) {
	w, err := p.begin(ctx, r)
	if err != nil {
		return planned, err
	}
	defer func() { p.Close(w.space) }()
	state, record, err := w.stored(ctx)
	switch {
	case errors.Is(err, ErrStateMissing) && !r.Known:
		return Planned{Reasons: []string{"nothing was made yet"}}, nil
	case err != nil:
		return planned, err
	case state.Destroying:
		return planned, errDestroying
	}
	prepared, err := w.inherit(ctx, state, record)
	if err != nil {
		return planned, err
	}
	planned.Reasons, err = w.reasons(state, record)
	if err == nil && resources && len(planned.Reasons) > 0 {
		err = w.wanted.StoreWith(w.space)
		if err == nil {
			planned.Resources, err = w.space.Plan(ctx, prepared, w.wanted.Inputs, false)
		}
	}
	return planned, err
}

// reasons tell why OpenTofu has to run; none where the instance is as it shall be. The error is that it must be upgraded before.
func (w *run) reasons(state *statestore.State, record *lifecycle.Record) ([]string, error) {
	var reasons []string
	if !state.Complete {
		reasons = append(reasons, "the last run of OpenTofu was not finished")
	}
	if !maps.Equal(record.Templates, w.wanted.Templates) {
		reasons = append(reasons, "the provision template is another one")
	}
	if names := tfjson.Differing(record.Inputs, w.wanted.Inputs); len(names) > 0 {
		reasons = append(reasons, "other values of "+strings.Join(names, ", "))
	}
	if len(reasons) == 0 && !same(record, w.wanted) {
		reasons = append(reasons, "other inputs are declared")
	}
	switch {
	case !w.older(state):
	case w.Upgrades:
		reasons = append(reasons, fmt.Sprintf("the state is upgraded from OpenTofu %s to %s", state.TofuVersion, w.installation.Version))
	case len(reasons) > 0:
		return reasons, fmt.Errorf("its state was written by OpenTofu %s and the pak has %s: the instance must be upgraded, with "+
			"terraform_upgrades_enabled, before it is changed", state.TofuVersion, w.installation.Version)
	}
	return reasons, nil
}

// older tells whether a state is that of an older OpenTofu. What was never complete has nothing that an upgrade would have to keep.
func (w *run) older(state *statestore.State) bool {
	return opentofu.Older(state.TofuVersion, w.installation.Version) && state.Applied != nil
}

// errDestroying says that an instance is being destroyed.
var errDestroying = errors.New("its destruction was begun: `service-adapter instance destroy` finishes it, `service-adapter instance apply` " +
	"makes again what is gone")
