package vars

import (
	"service-adapter/brokerpak"
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
	scope := NewScope(Options{Environment: Environment{
		Env:    func(string) (string, bool) { return "", false },
		Config: func(string) (any, bool) { return nil, false },
	}})
	scope.Set(PlanLayer, value.Merge(plan.Properties, plan.ProvisionOverrides))
	_ = scope.Defaults(service.Provision.UserInputs) // an input that cannot be resolved remains unset
	_ = scope.Computed(service.Provision.ComputedInputs)
	for _, group := range service.Provision.Bosh.InstanceGroups() {
		if group.If != nil {
			if holds, err := scope.Holds("ops", group.If); err != nil || !holds {
				conditional = append(conditional, group)
				continue
			}
		}
		present = append(present, group)
	}
	return present, conditional
}
