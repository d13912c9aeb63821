package instance

import (
	"maps"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/value"
)

// Unrecorded says for which plan another adapter made an instance, as far as the request and the paks tell.
type Unrecorded struct {
	ServiceID string
	Plan      brokerpak.Plan
	// Defaults are the operator's for the provision action, general ones first.
	Defaults []map[string]any
}

// unrecordedScope computes the variables of an instance that another adapter made: what carry_over finds in its manifest counts as
// parameters, and the manifest tells what the plan and the releases were.
func (v *View) unrecordedScope(service *brokerpak.Service, environment vars.Environment) (scope *vars.Scope, unresolved, err error) {
	bosh := service.Provision.Bosh
	tree, err := v.yamlTree()
	if err != nil {
		return nil, nil, err
	}
	root, _ := value.Normalise(tree).(map[string]any)
	carried, err := CarryOver(bosh, tree)
	if err != nil {
		return nil, nil, err
	}
	plan, parameters := v.Unrecorded.Plan, carried.Parameters(bosh)
	constants, functions := v.Constants(), v.Functions()
	maps.Copy(constants, requestConstants(v.Unrecorded.ServiceID, plan.ID, v.InstanceID(), carried.UAAClient()))
	maps.Copy(functions, ProvisionFunctions(DeployedPlan(root), plan.Properties, DeployedReleases(root)))
	scope = vars.NewScope(vars.Options{Constants: constants, Functions: functions, Environment: environment})
	unresolved = vars.Provision{
		Service: service, Plan: plan, Defaults: v.Unrecorded.Defaults, Parameters: parameters, Deployed: value.Keys(parameters),
		Check: func([]brokerpak.Variable, map[string]any, func(string) string) error { return nil },
	}.Resolve(scope)
	return scope, unresolved, nil
}
