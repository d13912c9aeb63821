package adapter

import (
	"context"
	"errors"
	"fmt"

	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/provision"
	"service-adapter/internal/record"
)

// provisioner wires the provision templates of a pak to OpenTofu.
func (s *session) provisioner(pak *brokerpak.Pak) (*provision.Provisioner, error) {
	manager, err := s.manager(pak)
	if err != nil {
		return nil, err
	}
	return &provision.Provisioner{
		Manager: manager, Updates: s.config.BrokerpakUpdatesEnabled, Upgrades: s.config.TerraformUpgradesEnabled,
	}, nil
}

// provision applies the provision template for generate-manifest. For the broker's check for pending changes it changes nothing; that
// something would change is said where operators read it.
func (s *session) provision(ctx context.Context, request provision.Request, check bool) (result *provision.Result, err error) {
	ctx = s.Interruptible(ctx)
	if check {
		return nil, s.check(ctx, request)
	}
	about := aboutPak(request.Pak, lifecycle.Entry{
		Kind: lifecycle.Instance, ID: request.InstanceID, Service: request.Service.Name, Plan: request.Plan, Owner: request.Owner,
	})
	err = auditor{s}.change(ctx, about, func(func(lifecycle.Entry)) error {
		provisioner, err := s.provisioner(request.Pak)
		if err == nil {
			result, err = provisioner.Apply(ctx, request)
		}
		return err
	})
	if budget := new(fault.BudgetError); errors.As(err, &budget) {
		return nil, fmt.Errorf("%w; a plan with the lifecycle errands %s and %s has as long as it takes", err, record.ApplyErrand, record.DestroyErrand)
	}
	if err != nil {
		return nil, err
	}
	s.secrets.AddValues(result.Outputs, result.Sensitive...)
	return result, nil
}

// checkShare is the part of the budget, as a divisor, that a look at the state may take: the update that follows the broker's check
// runs within the same request of the platform.
const checkShare = 5

// warnOfPending says that the update which the broker checks for will change what OpenTofu built. The check itself must not fail for
// it, whatever is wrong with the state: it takes the outputs from the manifest.
func (s *session) warnOfPending(ctx context.Context, request provision.Request) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Budget/checkShare)
	defer cancel()
	provisioner, err := s.provisioner(request.Pak)
	pending := false
	if err == nil {
		pending, err = provisioner.Pending(ctx, request)
	}
	switch {
	case err != nil:
		s.logger.Warn("the state of the instance could not be compared; its outputs are those of the deployed manifest",
			"instance", request.InstanceID, "error", err)
	case pending:
		s.logger.Warn("the next update will change what the provision template built; the outputs are those of the deployed manifest",
			"instance", request.InstanceID)
	}
	return nil
}
