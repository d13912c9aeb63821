package adapter

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// planProperty is the plan property with which an operator says which service and plan of the paks a plan is.
const planProperty = "brokerpak"

// hints are what a request tells about the service and plan it means.
type hints struct {
	// properties are the broker's plan properties; nil where the broker sends no plan.
	properties map[string]any
	// body is the request.
	body map[string]any
	// record is that of the instance's manifest.
	record *record.Record
}

// selection is the service and plan of a request.
type selection struct {
	pak     *brokerpak.Pak
	service *brokerpak.Service
	// plan is the pak's or the operator's plan with the broker's properties laid over it.
	plan brokerpak.Plan
	// serviceID and planID are the ids in the broker's catalog, "" where nothing told them.
	serviceID, planID string
}

func (h hints) property(key string) string {
	property, _ := h.properties[planProperty].(map[string]any)
	text, _ := property[key].(string)
	return text
}

func (h hints) request(key string) string {
	text, _ := h.body[key].(string)
	return text
}

// choose finds the service and plan, in this order: the plan property, the request's ids, the record of the instance, the
// configuration, the only service there is.
func (s *session) choose(h hints) (*selection, error) {
	chosen := &selection{}
	if err := s.chooseService(h, chosen); err != nil {
		return nil, err
	}
	plans, err := operatorPlans(chosen.service, s.config.Services[chosen.service.Name].Plans, s.Getenv)
	if err != nil {
		return nil, err
	}
	service := *chosen.service
	service.Plans = slices.Concat(service.Plans, plans)
	chosen.service = &service
	if chosen.plan, err = choosePlan(h, chosen.service); err != nil {
		return nil, err
	}
	if h.record != nil {
		chosen.serviceID = cmp.Or(chosen.serviceID, h.record.ServiceID)
		chosen.planID = cmp.Or(chosen.planID, h.record.PlanID)
	}
	chosen.serviceID = cmp.Or(chosen.serviceID, service.ID)
	return chosen, nil
}

// find looks for a service in paks. Where several have it, as an old and a new version of one pak do, the first one of the
// configuration counts. Nil when none has.
func find(paks []*brokerpak.Pak, match func(*brokerpak.Service) bool) (*brokerpak.Pak, *brokerpak.Service) {
	for _, pak := range paks {
		if at := slices.IndexFunc(pak.Services, match); at >= 0 {
			return pak, pak.Services[at]
		}
	}
	return nil, nil
}

// chooseService finds the service.
func (s *session) chooseService(h hints, chosen *selection) error {
	chosen.serviceID, chosen.planID = h.request("service_id"), h.request("plan_id")
	take := func(match func(*brokerpak.Service) bool) bool {
		pak, service := find(s.paks, match)
		if service != nil {
			chosen.pak, chosen.service = pak, service
		}
		return service != nil
	}
	named := func(name string) bool {
		return name != "" && take(func(service *brokerpak.Service) bool { return service.Name == name })
	}
	// must finds the service that somebody names for all requests.
	must := func(who, name string) error {
		if named(name) {
			return nil
		}
		return fmt.Errorf("%s names the service %q%s; the paks have: %s", who, name, diag.Suggest(name, s.serviceNames()), diag.Names(s.serviceNames()))
	}
	if name := h.property("service"); name != "" {
		return must("the plan property "+planProperty, name)
	}
	if id := chosen.serviceID; id != "" && take(func(service *brokerpak.Service) bool { return service.ID == id }) {
		return nil
	}
	hasPlan := func(plan brokerpak.Plan) bool { return plan.ID == chosen.planID }
	if chosen.planID != "" && take(func(service *brokerpak.Service) bool { return slices.ContainsFunc(service.Plans, hasPlan) }) {
		return nil
	}
	if h.record != nil && named(h.record.Service) {
		return nil
	}
	if s.config.Service != "" {
		return must("the configuration", s.config.Service)
	}
	if names := s.serviceNames(); len(names) != 1 {
		return fmt.Errorf("which service is meant? set `service` in the configuration or the plan property "+
			"%s: {service: NAME}; the paks have: %s", planProperty, diag.Names(names))
	}
	take(func(*brokerpak.Service) bool { return true })
	return nil
}

func (s *session) serviceNames() []string {
	names := slices.Concat(value.Each(s.paks, (*brokerpak.Pak).ServiceNames)...)
	slices.Sort(names)
	return slices.Compact(names)
}

// choosePlan finds the plan and lays the broker's properties over the pak's. A plan that nobody knows has no base.
func choosePlan(h hints, service *brokerpak.Service) (brokerpak.Plan, error) {
	base := knownPlan(h, service)
	if name := h.property("plan"); name != "" {
		if base = service.Plan(name); base == nil {
			names := service.PlanNames()
			return brokerpak.Plan{}, fmt.Errorf("the plan property %s names the plan %q%s; service %q has: %s",
				planProperty, name, diag.Suggest(name, names), service.Name, diag.Names(names))
		}
	}
	plan := *cmp.Or(base, &brokerpak.Plan{})
	laid := maps.Clone(h.properties)
	delete(laid, planProperty)
	plan.Properties = value.CloneMap(value.Merge(plan.Properties, laid))
	return plan, nil
}

// knownPlan finds the plan by the request's id or the record. The id may be one that only the broker's catalog knows, because a
// plan property named the plan when the record was made: the broker sends no properties with a bind.
func knownPlan(h hints, service *brokerpak.Service) *brokerpak.Plan {
	id := h.request("plan_id")
	if plan := service.Plan(id); plan != nil || h.record == nil {
		return plan
	}
	if id != "" && id != h.record.PlanID {
		return nil // another plan than the instance's
	}
	if plan := service.Plan(h.record.PlanID); plan != nil {
		return plan
	}
	return service.Plan(h.record.Plan)
}

// planKeys are the keys of an operator's plan that describe it; all others are its properties, as published.
var planKeys = []string{ //nolint:gochecknoglobals // a constant table
	"id", "name", "description", "free", "bindable", "metadata", "plan_updateable", "provision_overrides", "bind_overrides",
	"schemas", "maintenance_info", "maximum_polling_duration", "service_properties",
}

// AddPlans adds the plans of the environment, GSB_SERVICE_<NAME>_PLANS, to the services of a pak.
func AddPlans(pak *brokerpak.Pak, getenv func(string) (string, bool)) error {
	var failed []error
	for _, service := range pak.Services {
		plans, err := operatorPlans(service, nil, getenv)
		failed = append(failed, err)
		service.Plans = append(service.Plans, plans...)
	}
	return errors.Join(failed...)
}

// operatorPlans are the plans that the configuration or GSB_SERVICE_<NAME>_PLANS add to a service.
func operatorPlans(
	service *brokerpak.Service, configured []map[string]any, getenv func(string) (string, bool),
) ([]brokerpak.Plan, error) {
	entries := slices.Clone(configured)
	variable := "GSB_SERVICE_" + service.EnvName() + "_PLANS"
	if text, ok := getenv(variable); ok && text != "" {
		decoded, err := value.DecodeJSON([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", variable, jsonError(err))
		}
		list, ok := decoded.([]any)
		if !ok {
			return nil, fmt.Errorf("environment variable %s must be a JSON array of plans, not %s", variable, value.Kind(decoded))
		}
		for _, item := range list {
			entry, ok := item.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("environment variable %s: a plan must be an object, not %s", variable, value.Kind(item))
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

func operatorPlan(service *brokerpak.Service, raw map[string]any) (brokerpak.Plan, error) {
	entry, _ := value.Normalise(raw).(map[string]any)
	plan := brokerpak.Plan{Properties: map[string]any{}}
	plan.ID, _ = entry["id"].(string)
	plan.Name, _ = entry["name"].(string)
	plan.Description, _ = entry["description"].(string)
	if plan.ID == "" || plan.Name == "" {
		return plan, fmt.Errorf("a plan that the operator adds to service %q needs id and name, both texts", service.Name)
	}
	var failed []error
	fail := func(format string, args ...any) {
		failed = append(failed, fmt.Errorf("plan %q that the operator adds to service %q: %s", plan.Name, service.Name, fmt.Sprintf(format, args...)))
	}
	overrides := func(key string) map[string]any {
		found, ok := entry[key].(map[string]any)
		if !ok && entry[key] != nil {
			fail("%s must be an object, not %s", key, value.Kind(entry[key]))
		}
		return found
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
