package manifestgen

import (
	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/value"
)

// checkConditions holds the definition's checks. One that the deployed instance fails as well is no fault of this request, and to
// refuse the request would only keep the instance from every update. A check that compares with the previous plan always counts.
func checkConditions(in *input, r *prepared) error {
	scope := r.scope.With(previousNames(in))
	for _, check := range in.bosh.Checks {
		failed := scope.Require("checks", []brokerpak.Check{check})
		if failed == nil {
			continue
		}
		if !isFalse(scope, check) || !deployedFails(in, check) {
			return failed
		}
		in.Logger.Warn("the deployed instance fails a check, too; it is kept as it is", "check", failed)
	}
	return nil
}

// isFalse tells that a check does not hold, and not only that it cannot be evaluated.
func isFalse(scope *vars.Scope, check brokerpak.Check) bool {
	holds, err := scope.Holds("checks", check.That)
	return err == nil && !holds
}

// deployedFails tells whether a check does not hold for the instance as it is deployed.
func deployedFails(in *input, check brokerpak.Check) bool {
	if !in.before.exists() || len(brokerpak.Previous(check.That)) > 0 {
		return false
	}
	scope, err := in.deployed()
	return err == nil && isFalse(scope, check)
}

// deployedScope has the variables of the deployed instance: parameters of earlier requests, the previous plan's properties, and what
// the deployed manifest says of instance groups and releases.
func deployedScope(in *input, r *prepared) (*vars.Scope, error) {
	root, err := in.before.root()
	if err != nil {
		return nil, err
	}
	plan := in.Plan
	if in.PreviousProperties != nil {
		plan.Properties = in.PreviousProperties
	}
	scope := vars.NewScope(vars.Options{
		Constants: constants(&r.record, in.GlobalLabels, plan.Properties), Environment: in.Environment, Carried: r.scope.Generated,
		Functions: instance.ProvisionFunctions(instance.DeployedPlan(root), plan.Properties, instance.DeployedReleases(root)),
	})
	provision := vars.Provision{
		Service: in.Service, Plan: plan, Defaults: in.Defaults, Parameters: r.earlier, Deployed: value.Keys(r.earlier), Sticky: in.before.record.Sticky,
		Unchecked: true,
	}
	if err := provision.Resolve(scope); err != nil {
		return nil, err
	}
	return scope.With(previousNames(in)), nil
}
