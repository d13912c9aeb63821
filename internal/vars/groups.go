package vars

import (
	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/value"
)

// GroupsOfPlan divides the instance groups of a service: those that the manifest of an instance has if a user of the
// plan sets no parameters, and conditional ones, which an ops file adds and that such a manifest lacks. A condition
// that depends on values which only a request has, or that fails, counts as false. Both lists have the order of the
// definition, and are nil without a provision.bosh section.
func GroupsOfPlan(service *brokerpak.Service, plan brokerpak.Plan) (present, conditional []brokerpak.InstanceGroup) {
	if service.Provision.Bosh == nil {
		return nil, nil
	}
	holds := conditionsOfPlan(service, plan)
	for _, group := range service.Provision.Bosh.InstanceGroups() {
		if holds(group.If) {
			present = append(present, group)
		} else {
			conditional = append(conditional, group)
		}
	}
	return present, conditional
}

// OpsOfPlan returns the ops files that are applied to the manifest template of a service if a user of the plan sets no
// parameters, in their order. A condition that depends on values which only a request has, or that fails, counts as
// false. Ops files for the completed manifest are left out. The result is nil if there are none, or if the service has
// no bosh section.
func OpsOfPlan(service *brokerpak.Service, plan brokerpak.Plan) []brokerpak.Document {
	if service.Provision.Bosh == nil {
		return nil
	}
	var all []brokerpak.Document
	holds := conditionsOfPlan(service, plan)
	for _, ops := range service.Provision.Bosh.Ops {
		if !ops.Completed && holds(ops.If) {
			all = append(all, ops.Document)
		}
	}
	return all
}

// conditionsOfPlan returns a function that reports whether the condition of an ops file holds if a user of the plan
// sets no parameters. A nil condition holds; one that cannot be evaluated does not hold.
func conditionsOfPlan(service *brokerpak.Service, plan brokerpak.Plan) func(condition *expr.Template) bool {
	scope := NewScope(Options{Environment: Environment{
		Env:    func(string) (string, bool) { return "", false },
		Config: func(string) (any, bool) { return nil, false },
	}})
	scope.Set(PlanLayer, value.Merge(plan.Properties, plan.ProvisionOverrides))
	_ = scope.Defaults(service.Provision.UserInputs) // an input that cannot be resolved remains unset
	_ = scope.Computed(service.Provision.ComputedInputs)
	return func(condition *expr.Template) bool {
		if condition == nil {
			return true
		}
		holds, err := scope.Holds("ops", condition)
		return err == nil && holds
	}
}
