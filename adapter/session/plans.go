package session

import (
	"errors"
	"fmt"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/internal/value"
)

// planKeys are the keys that describe a plan of the operator. All other keys are its properties, as documented.
var planKeys = []string{ //nolint:gochecknoglobals // a constant table
	"id", "name", "description", "free", "bindable", "metadata", "plan_updateable", "provision_overrides",
	"bind_overrides",
	"schemas", "maintenance_info", "maximum_polling_duration", "service_properties",
}

// AddPlans adds the operator's plans to the services of a pak, after their own plans. getenv looks up the environment
// variables GSB_SERVICE_<NAME>_PLANS, each of which contains a JSON array of plans; an unset or empty one adds none.
// Plans in the configuration file are not considered. AddPlans changes the pak. The error lists all variables and plans
// that are not valid; the pak must not be used then.
func AddPlans(pak *brokerpak.Pak, getenv func(string) (string, bool)) error {
	var failed []error
	for _, service := range pak.Services {
		plans, err := operatorPlans(service, nil, getenv)
		failed = append(failed, err)
		service.Plans = append(service.Plans, plans...)
	}
	return errors.Join(failed...)
}

// OperatorPlans returns the plans that the operator adds to a service, in the configuration and by the environment
// variable GSB_SERVICE_<NAME>_PLANS, in this order. It returns nil if there are none. If the variable is not a JSON
// array of objects, the result is nil and the error does not contain the text. Otherwise the error lists all plans that
// are not valid, for example because they lack an id, a name or a required property; the result then includes
// incomplete plans and must not be used.
func (c *Catalog) OperatorPlans(service *brokerpak.Service) ([]brokerpak.Plan, error) {
	return operatorPlans(service, c.services[service.Name].Plans, c.getenv)
}

// operatorPlans converts the plans that the operator adds to a service: the entries in configured, from the
// configuration file, then those in the environment variable GSB_SERVICE_<NAME>_PLANS, which getenv looks up. A
// variable that is unset or empty adds no plans. The result is nil if there are none. If the variable is not a JSON
// array of objects, operatorPlans returns nil and an error that does not contain the text. If plans are not valid
// (see operatorPlan), the error lists all of them, and the result still contains every plan, the invalid ones
// incomplete.
func operatorPlans(
	service *brokerpak.Service, configured []map[string]any, getenv func(string) (string, bool),
) ([]brokerpak.Plan, error) {
	entries := slices.Clone(configured)
	variable := "GSB_SERVICE_" + service.EnvName() + "_PLANS"
	if text, ok := getenv(variable); ok && text != "" {
		decoded, err := value.DecodeJSON([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", variable, value.WithoutContent(err))
		}
		list, ok := decoded.([]any)
		if !ok {
			return nil, fmt.Errorf("environment variable %s must be a JSON array of plans, not %s", variable,
				value.Kind(decoded))
		}
		for _, item := range list {
			entry, ok := item.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("environment variable %s: a plan must be an object, not %s", variable,
					value.Kind(item))
			}
			entries = append(entries, entry)
		}
	}
	var plans []brokerpak.Plan
	var failed []error
	for _, entry := range entries {
		plan, err := operatorPlan(service, entry)
		failed = append(failed, err)
		plans = append(plans, plan)
	}
	return plans, errors.Join(failed...)
}

// operatorPlan converts raw, an entry of the operator in the configuration or in JSON, to a plan of the service. The
// entries at planKeys describe the plan; of these, id, name, description, provision_overrides and bind_overrides are
// used, and the others are dropped. The entries at all other keys are the plan properties. Overrides that are missing
// or null are nil. operatorPlan returns an error if the id or the name is missing, empty or not a text, if a plan
// property that the provision or bind action requires is missing, or if overrides are not an object. The plan is
// incomplete then. A required property with the value null is not missing.
func operatorPlan(service *brokerpak.Service, raw map[string]any) (brokerpak.Plan, error) {
	entry, _ := value.Normalise(raw).(map[string]any)
	plan := brokerpak.Plan{Properties: map[string]any{}}
	plan.ID, _ = entry["id"].(string)
	plan.Name, _ = entry["name"].(string)
	plan.Description, _ = entry["description"].(string)
	if plan.ID == "" || plan.Name == "" {
		return plan, fmt.Errorf("a plan that the operator adds to service %q must have an id and a name, "+
			"which must be strings", service.Name)
	}
	var failed []error
	fail := func(format string, args ...any) {
		failed = append(failed, fmt.Errorf("plan %q that the operator adds to service %q: %s", plan.Name, service.Name,
			fmt.Sprintf(format, args...)))
	}
	overrides := func(key string) map[string]any {
		mapping, ok := entry[key].(map[string]any)
		if !ok && entry[key] != nil {
			fail("%s must be an object, not %s", key, value.Kind(entry[key]))
		}
		return mapping
	}
	plan.ProvisionOverrides, plan.BindOverrides = overrides("provision_overrides"), overrides("bind_overrides")
	for name, item := range entry {
		if !slices.Contains(planKeys, name) {
			plan.Properties[name] = item
		}
	}
	for _, input := range slices.Concat(service.Provision.PlanInputs, service.Bind.PlanInputs) {
		if _, ok := plan.Properties[input.Name]; input.Required && !ok {
			fail("the required property %q is missing", input.Name)
		}
	}
	return plan, errors.Join(failed...)
}
