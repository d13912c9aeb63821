package vars

import (
	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/value"
)

// GroupsOfPlan divides the instance groups of a service's manifest template and of its ops files in two. present are
// those that the manifest of an instance has if a user of the plan sets no parameters; they include optional groups,
// even if the broker's plan omits them. conditional are those that an ops file adds under a condition that does not
// hold then, so that such a manifest lacks them. A condition that depends on values of a request, or that cannot be
// evaluated, counts as false. If several ops files add a group, all under conditions, only the condition of the
// first counts. Operations that remove groups are not considered, so a group that an ops file removes is in the
// lists nevertheless. Groups that only ops files for the completed manifest add are in neither list.
//
// Both lists have the order of the definition. A template that is not a YAML mapping, and an ops file that is not a
// YAML list, have no groups. An empty list is nil, and both lists are nil if the service has no provision.bosh
// section. The service must not be nil.
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
// parameters, in their order: those without a condition and those whose condition holds. A condition that depends on
// values of a request, or that cannot be evaluated, counts as false. Ops files for the completed manifest are left out.
// The result is nil if no ops file applies, or if the service has no bosh section. The service must not be nil.
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
// sets no parameters. It evaluates the conditions with the properties and overrides of the plan, of which the
// properties take precedence, as in requests (see Provision.Resolve), and with the defaults and computed inputs of the
// service. There are no defaults of the operator, no configuration, no environment variables, and no constants of a
// request. A nil condition holds; one that cannot be evaluated does not hold. The service must not be nil.
func conditionsOfPlan(service *brokerpak.Service, plan brokerpak.Plan) func(condition *expr.Template) bool {
	scope := NewScope(Options{Environment: Environment{
		Env:    func(string) (string, bool) { return "", false },
		Config: func(string) (any, bool) { return nil, false },
	}})
	scope.Set(PlanLayer, value.Merge(plan.ProvisionOverrides, plan.Properties))
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
