package manifestgen

import (
	"service-adapter/brokerpak"
	"service-adapter/internal/instance"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// checkConditions evaluates the checks of the definition in their order and returns the error of the first one that
// fails, or nil. The error of a false check has the check's message: it is a *fault.UserError if the audience of the
// check is the user, and a *diag.PositionError for the operator otherwise. A check or message that cannot be evaluated
// is an error as well.
//
// A check that is false, and that is also false for the deployed instance, only causes a logged warning, even if its
// message cannot be evaluated: this request did not cause the violation, and an error would block every update of the
// instance. This exception does not apply to a check that reads the previous deployment or plan, nor to a check that
// cannot be evaluated for this request or for the deployed instance.
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

// isFalse reports whether the condition of a check can be evaluated in the scope and is false. It returns false for a
// check whose condition cannot be evaluated. The message of the check is not evaluated.
func isFalse(scope *vars.Scope, check brokerpak.Check) bool {
	holds, err := scope.Holds("checks", check.That)
	return err == nil && !holds
}

// deployedFails reports whether a check is false for the deployed instance, with its earlier parameters and plan. It
// returns false if no instance is deployed, if the check reads the previous deployment or plan (a name that begins with
// "previous." or "previous_plan."), or if the check or the variables of the deployed instance cannot be evaluated.
func deployedFails(r *resolution, check brokerpak.Check) bool {
	if !r.previous.exists() || len(brokerpak.Previous(check.That)) > 0 {
		return false
	}
	scope, err := r.deployedScope()
	return err == nil && isFalse(scope, check)
}

// resolveDeployed returns a scope with the variables of the deployed instance, which are not validated. r contains
// the resolved variables of this request. The caller must check that an instance is deployed; on create, the
// variables would be those of an instance without parameters.
//
// The variables are computed from the parameters of earlier requests, from the plan properties that the broker sent
// as the previous ones, or else those of the current plan, from the recorded sticky values, and from the instance
// groups and releases in the deployed manifest. Secret and ephemeral parameters count as omitted, because the record
// lacks their values. All other sources are those of this request: r supplies the generated values, the constants
// such as request.context, the plan's overrides, the operator's defaults and the configuration. Expressions that are
// evaluated in the scope can also use the names of previousNames, such as previous.exists.
//
// resolveDeployed returns nil and an error if the deployed manifest is not valid YAML or if a variable cannot be
// resolved. If errands apply the template, a variable that needs a configuration value which only they have is no
// error; it is in Unresolved of the scope.
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
		Environment: r.Environment, Carried: r.scope.Generated, TolerateUnset: r.appliesByErrand,
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
