package manifestgen

import (
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/value"
)

// requireChecks holds the definition's checks. One that the deployed instance fails as well is no fault of this request, and to
// refuse the request would only keep the instance from every update. A check that compares with the previous plan always counts.
func (w *generation) requireChecks() error {
	scope := w.withPrevious()
	for _, check := range w.bosh.Checks {
		failed := scope.Require("checks", []brokerpak.Check{check})
		if failed == nil {
			continue
		}
		if !isFalse(scope, check) || !w.deployedFails(check) {
			return failed
		}
		w.Logger.Warn("the deployed instance fails a check, too; it is kept as it is", "check", failed)
	}
	return nil
}

// isFalse tells that a check does not hold, and not only that it cannot be evaluated.
func isFalse(scope *vars.Scope, check brokerpak.Check) bool {
	holds, err := scope.Holds("checks", check.That)
	return err == nil && !holds
}

// deployedFails tells whether a check does not hold for the instance as it is deployed.
func (w *generation) deployedFails(check brokerpak.Check) bool {
	if len(w.PreviousManifest) == 0 || comparesPlans(check.That) {
		return false
	}
	scope, err := w.deployedScope()
	return err == nil && isFalse(scope, check)
}

// comparesPlans tells whether an expression is about the change itself.
func comparesPlans(template *expr.Template) bool {
	for _, call := range template.Calls() {
		if strings.HasPrefix(call.Name, "previous_plan.") {
			return true
		}
	}
	for _, reference := range template.References() {
		if strings.HasPrefix(reference.Name, "previous_plan.") || strings.HasPrefix(reference.Name, "previous.") {
			return true
		}
	}
	return false
}

// deployedScope has the variables of the deployed instance: parameters of earlier requests, the previous plan's properties, and what
// the deployed manifest says of instance groups and releases.
func (w *generation) deployedScope() (*vars.Scope, error) {
	root, err := w.old.root()
	if err != nil {
		return nil, err
	}
	plan := w.Plan
	if w.PreviousProperties != nil {
		plan.Properties = w.PreviousProperties
	}
	scope := vars.NewScope(vars.Options{
		Constants: w.constants(), Environment: w.Environment, Carried: w.scope.Generated,
		Functions: instance.ProvisionFunctions(instance.DeployedPlan(root), plan.Properties, instance.DeployedReleases(root)),
	})
	provision := vars.Provision{
		Service: w.Service, Plan: plan, Defaults: w.Defaults, Parameters: w.earlier, Deployed: value.Keys(w.earlier),
		Check: func([]brokerpak.Variable, map[string]any, func(string) string) error { return nil },
	}
	if err := provision.Resolve(scope); err != nil {
		return nil, err
	}
	return scope.With(w.previousNames()), nil
}
