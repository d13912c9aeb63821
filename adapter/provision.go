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
	"service-adapter/manifestgen"
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
func (s *session) provision(ctx context.Context, p manifestgen.Provisioning) (*manifestgen.Provisioned, error) {
	request := provision.Request{
		Pak: p.Pak, Service: p.Service, ServiceID: p.ServiceID, Plan: p.Plan.Name, PlanID: p.PlanID, InstanceID: p.InstanceID,
		Deployment: p.Deployment.DeploymentName, Inputs: p.Inputs, Generated: p.Generated, Resolve: p.Resolve,
		Known: p.Remembered, Forgotten: p.Forgotten, Owner: lifecycle.OwnerOf(p.Body),
	}
	ctx = s.Interruptible(ctx)
	if p.Check {
		return nil, s.check(ctx, request)
	}
	var result *provision.Result
	about := aboutPak(p.Pak, lifecycle.Entry{
		Kind: lifecycle.Instance, ID: p.InstanceID, Service: p.Service.Name, Plan: p.Plan.Name, Owner: request.Owner,
	})
	err := auditor{s}.change(ctx, about, func(func(lifecycle.Entry)) error {
		provisioner, err := s.provisioner(p.Pak)
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
	return &manifestgen.Provisioned{Outputs: result.Outputs, Sensitive: result.Sensitive, Changed: result.Changed}, nil
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
