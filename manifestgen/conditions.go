package manifestgen

import (
	"service-adapter/brokerpak"
	"service-adapter/internal/instance"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// checkConditions returns the error of the first check of the definition that fails; see vars.Scope.Require for its
// type. A check that is false and that is also false for the deployed instance only causes a logged warning: this
// request did not cause the violation, and an error would block every update of the instance. This does not apply to a
// check that compares with the previous plan, nor to one that cannot be evaluated: these return their error.
func checkConditions(r *resolution) error {
	scope := r.scope.With(previousNames(r))
	for _, check := range r.bosh.Checks {
		failed := scope.Require("checks", []brokerpak.Check{check})
		if failed == nil {
			continue
		}
		if !isFalse(scope, check) || !deployedFails(r, check) {
			return failed
		}
		r.Logger.Warn("ignoring a failed check, because the deployed instance fails it as well", "check", failed)
	}
	return nil
}

// isFalse reports whether a check can be evaluated and is false. A check that cannot be evaluated is not false.
func isFalse(scope *vars.Scope, check brokerpak.Check) bool {
	holds, err := scope.Holds("checks", check.That)
	return err == nil && !holds
}

// deployedFails reports whether a check is false for the deployed instance. It returns false if no instance is
// deployed, if the check reads the previous deployment, or if the check or the variables of the deployed instance
// cannot be evaluated.
func deployedFails(r *resolution, check brokerpak.Check) bool {
	if !r.previous.exists() || len(brokerpak.Previous(check.That)) > 0 {
		return false
	}
	scope, err := r.deployedScope()
	return err == nil && isFalse(scope, check)
}

// resolveDeployed returns the variables of the deployed instance, without validating them. They are computed from the
// parameters of earlier requests, the previous plan's properties, and the instance groups and releases in the deployed
// manifest. If the broker did not send the previous properties, those of the current plan are used. Expressions that
// are evaluated in the result can also read the names of previousNames. resolveDeployed returns an error if the
// manifest cannot be read or a variable cannot be resolved.
func resolveDeployed(r *resolution) (*vars.Scope, error) {
	root, err := r.previous.root()
	if err != nil {
		return nil, err
	}
	plan := r.Plan
	if r.PreviousProperties != nil {
		plan.Properties = r.PreviousProperties
	}
	scope := vars.NewScope(vars.Options{
		Constants:   constants(r.identity, r.received, r.GlobalLabels, plan.Properties),
		Environment: r.Environment, Carried: r.scope.Generated,
		Functions: instance.ProvisionFunctions(
			instance.DeployedPlan(root), plan.Properties, instance.DeployedReleases(root)),
	})
	provision := vars.Provision{
		Service: r.Service, Plan: plan, Defaults: r.Defaults,
		Parameters: r.earlierParameters, Deployed: value.Keys(r.earlierParameters),
		Sticky:    r.previous.record.Sticky,
		Unchecked: true,
	}
	if err := provision.Resolve(scope); err != nil {
		return nil, err
	}
	return scope.With(previousNames(r)), nil
}
