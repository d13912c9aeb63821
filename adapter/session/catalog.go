package session

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"service-adapter/adapter/config"
	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// PlanProperty is the plan property by which the operator assigns a service and plan of the paks to a plan of the
// broker.
const PlanProperty = "brokerpak"

// A Catalog contains the services of the configured paks, from which the service and plan of a request are chosen. It
// is not safe to use after its session is closed.
type Catalog struct {
	// Paks are the readable paks, in the order of the configuration.
	Paks []*brokerpak.Pak
	// Unreadable contains an error for each pak of the configuration that cannot be read.
	Unreadable []error
	// defaultService is the service of the configuration, or "".
	defaultService string
	// services contains the configured plans of the operator, by the name of the service. getenv looks up further ones.
	services map[string]config.Service
	getenv   func(string) (string, bool)
}

// newCatalog opens the configured paks. A pak that cannot be opened is left out of Paks, and its error is added to
// Unreadable. The catalog keeps getenv, with which it looks up the operator's plans; see OperatorPlans. The caller must
// close the catalog. newCatalog never fails; see UnreadableError.
func newCatalog(settings *config.Config, getenv func(string) (string, bool)) Catalog {
	catalog := Catalog{defaultService: settings.Service, services: settings.Services, getenv: getenv}
	for _, path := range settings.Paks {
		pak, err := brokerpak.Open(path)
		if err != nil {
			catalog.Unreadable = append(catalog.Unreadable, err)
			continue
		}
		catalog.Paks = append(catalog.Paks, pak)
	}
	return catalog
}

// close closes all paks. Errors are ignored.
func (c *Catalog) close() {
	for _, pak := range c.Paks {
		_ = pak.Close() // opened for reading: closing cannot lose anything
	}
}

// UnreadableError joins the errors of the unreadable paks into the error of a command that needs them. It returns nil
// if there are none.
func (c *Catalog) UnreadableError() error {
	if len(c.Unreadable) == 0 {
		return nil
	}
	return fmt.Errorf("loading the paks: %w", errors.Join(c.Unreadable...))
}

// publicNames returns the names and versions of the readable paks, the names and ids of their services and plans, and
// the names of their inputs, with repetitions. They are never masked, because users and the broker refer to services,
// plans and inputs by them.
func (c *Catalog) publicNames() []string {
	var names []string
	for _, pak := range c.Paks {
		names = append(names, pak.Manifest.Name, pak.Manifest.Version)
		for _, service := range pak.Services {
			names = append(names, service.Name, service.ID)
			for _, plan := range service.Plans {
				names = append(names, plan.Name, plan.ID)
			}
			names = append(names, service.Provision.InputNames()...)
			names = append(names, service.Bind.InputNames()...)
		}
	}
	return names
}

// Hints are the parts of a request from which its service and plan are determined.
type Hints struct {
	// Properties are the plan properties that the broker sends, or nil if it sends no plan.
	Properties map[string]any
	// Body is the body of the request.
	Body map[string]any
	// Record is the record in the manifest of the instance, or nil if it has none.
	Record *record.InstanceRecord
}

// A Selection is the service and plan that were chosen for a request, with the pak of the service.
type Selection struct {
	Pak     *brokerpak.Pak
	Service *brokerpak.Service
	// Plan is the plan of the pak or the operator. The plan properties that the broker sent override its own.
	Plan brokerpak.Plan
	// ServiceID and PlanID are the ids in the broker's catalog, or "" if neither the request nor the record contains
	// them.
	ServiceID, PlanID string
}

// property returns an entry of the plan property PlanProperty, such as "service", or "" if it is missing or not a text.
func (h Hints) property(key string) string {
	property, _ := h.Properties[PlanProperty].(map[string]any)
	text, _ := property[key].(string)
	return text
}

// request returns a field of the body, or "" if it is missing or not a text.
func (h Hints) request(key string) string {
	text, _ := h.Body[key].(string)
	return text
}

// Choose determines the service and plan of a request. The service is determined by the first of these that applies:
// PlanProperty, the ids in the request, the record of the instance, the configuration, the only service in the paks.
// The plan is the one that PlanProperty names, else that of the id in the request, else the recorded one. An id in the
// request that no service or plan has is ignored. See ChoosePlan for a request without any of them. The returned
// service is a copy that includes the plans of the operator.
//
// While a pak cannot be read, Choose considers the recorded pak only, and returns an error if that is not readable or
// there is no record; see Candidates. It returns an error if no service is determined, if PlanProperty or the
// configuration names an unknown service or plan, or if a plan of the operator is not valid.
func (c *Catalog) Choose(h Hints) (*Selection, error) {
	if len(c.Unreadable) > 0 {
		stored := cmp.Or(h.Record, &record.InstanceRecord{})
		paks, err := c.Candidates(stored.Pak, stored.PakVersion, stored.Service)
		if err != nil {
			return nil, err
		}
		recorded := *c
		recorded.Paks, recorded.Unreadable = paks, nil
		return recorded.Choose(h)
	}
	chosen := &Selection{}
	if err := c.chooseService(h, chosen); err != nil {
		return nil, err
	}
	plans, err := c.OperatorPlans(chosen.Service)
	if err != nil {
		return nil, err
	}
	service := *chosen.Service
	service.Plans = slices.Concat(service.Plans, plans)
	chosen.Service = &service
	if chosen.Plan, err = ChoosePlan(h, chosen.Service); err != nil {
		return nil, err
	}
	if h.Record != nil {
		chosen.ServiceID = cmp.Or(chosen.ServiceID, h.Record.ServiceID)
		chosen.PlanID = cmp.Or(chosen.PlanID, h.Record.PlanID)
	}
	chosen.ServiceID = cmp.Or(chosen.ServiceID, service.ID)
	return chosen, nil
}

// Candidates returns the paks from which a service may be chosen. These are all paks, or, while a pak of the
// configuration cannot be read, only the one with the name, version and service; otherwise an older pak could be chosen
// instead of the unreadable one. It returns an error, which wraps those of the unreadable paks, if a pak cannot be read
// and no readable one has that name, version and service. A name of "" means that no pak is recorded.
func (c *Catalog) Candidates(name, version, service string) ([]*brokerpak.Pak, error) {
	err := c.UnreadableError()
	if err == nil {
		return c.Paks, nil
	}
	at := slices.IndexFunc(c.Paks, func(pak *brokerpak.Pak) bool {
		return pak.Manifest.Name == name && pak.Manifest.Version == version && pak.Service(service) != nil
	})
	switch {
	case at >= 0:
		return c.Paks[at : at+1], nil
	case name != "":
		return nil, fmt.Errorf("pak %s %s, which the record names, is not among the readable ones: %w",
			name, version, err)
	default:
		return nil, err
	}
}

// FindService returns the first service that matches, and its pak, or nil for both if none does. If several paks have
// the service, such as an old and a new version of one pak, the first one in the list takes precedence.
func FindService(paks []*brokerpak.Pak, match func(*brokerpak.Service) bool) (*brokerpak.Pak, *brokerpak.Service) {
	for _, pak := range paks {
		if at := slices.IndexFunc(pak.Services, match); at >= 0 {
			return pak, pak.Services[at]
		}
	}
	return nil, nil
}

// Owns reports whether an instance with this record, which must not be nil, belongs to a service of the readable paks:
// the record has the id of one of these services or none, or brokerServiceID, the id of the service in the broker's
// catalog, which may be another one than that of the pak. Owns returns false if the readable paks have no services.
func (c *Catalog) Owns(stored *record.InstanceRecord, brokerServiceID string) bool {
	_, service := FindService(c.Paks, func(service *brokerpak.Service) bool {
		return slices.Contains([]string{"", brokerServiceID, service.ID}, stored.ServiceID)
	})
	return service != nil
}

// chooseService sets the pak and service of chosen, and the ids that the request contains, which are "" if it has none.
// See Choose for the order and the errors.
func (c *Catalog) chooseService(h Hints, chosen *Selection) error {
	chosen.ServiceID, chosen.PlanID = h.request("service_id"), h.request("plan_id")
	use := func(match func(*brokerpak.Service) bool) bool {
		pak, service := FindService(c.Paks, match)
		if service != nil {
			chosen.Pak, chosen.Service = pak, service
		}
		return service != nil
	}
	named := func(name string) bool {
		return name != "" && use(func(service *brokerpak.Service) bool { return service.Name == name })
	}
	// must uses the service that the operator has named, which has to exist.
	must := func(who, name string) error {
		if named(name) {
			return nil
		}
		return fmt.Errorf("%s names the service %q%s; the paks have: %s", who, name,
			diag.Suggest(name, c.ServiceNames()), diag.Names(c.ServiceNames()))
	}
	if name := h.property("service"); name != "" {
		return must("the plan property "+PlanProperty, name)
	}
	if id := chosen.ServiceID; id != "" && use(func(service *brokerpak.Service) bool { return service.ID == id }) {
		return nil
	}
	hasPlan := func(plan brokerpak.Plan) bool { return plan.ID == chosen.PlanID }
	offersPlan := func(service *brokerpak.Service) bool { return slices.ContainsFunc(service.Plans, hasPlan) }
	if chosen.PlanID != "" && use(offersPlan) {
		return nil
	}
	if h.Record != nil && named(h.Record.Service) {
		return nil
	}
	if c.defaultService != "" {
		return must("the configuration", c.defaultService)
	}
	if names := c.ServiceNames(); len(names) != 1 {
		return fmt.Errorf("which service is meant? set `service` in the configuration or the plan property "+
			"%s: {service: NAME}; the paks have: %s", PlanProperty, diag.Names(names))
	}
	use(func(*brokerpak.Service) bool { return true })
	return nil
}

// ServiceNames returns the sorted names of the services of all readable paks, each one once.
func (c *Catalog) ServiceNames() []string {
	names := slices.Concat(value.Convert(c.Paks, (*brokerpak.Pak).ServiceNames)...)
	slices.Sort(names)
	return slices.Compact(names)
}

// ChoosePlan returns a copy of the plan for a request: the plan of the service that PlanProperty names, or else that of
// the request or of the record; see requestedPlan. The plan properties that the broker sends are merged over those of
// the plan; PlanProperty itself is left out, and the result's Properties are never nil. service.Plans must include the
// plans of the operator. If PlanProperty names no plan, and the service has none with the ids in the request and in the
// record, the result contains only the properties of the broker, and no id and name.
//
// ChoosePlan returns an error only if PlanProperty names a plan that the service does not have.
func ChoosePlan(h Hints, service *brokerpak.Service) (brokerpak.Plan, error) {
	base := requestedPlan(h, service)
	if name := h.property("plan"); name != "" {
		if base = service.Plan(name); base == nil {
			names := service.PlanNames()
			return brokerpak.Plan{}, fmt.Errorf("the plan property %s names the plan %q%s; service %q has: %s",
				PlanProperty, name, diag.Suggest(name, names), service.Name, diag.Names(names))
		}
	}
	plan := *cmp.Or(base, &brokerpak.Plan{})
	overlay := maps.Clone(h.Properties)
	delete(overlay, PlanProperty)
	plan.Properties = value.CloneMap(value.Merge(plan.Properties, overlay))
	return plan, nil
}

// requestedPlan returns the plan of the service whose id or name the request contains as plan_id. If there is none, it
// returns the recorded plan, by its recorded id or else by its recorded name, unless the request contains an id other
// than the recorded one: that never selects the recorded plan. An id may exist in the broker's catalog only, because a
// plan property named the plan when the record was written; a bind request contains no plan properties. The result is
// nil if no plan is found, and points into service.Plans otherwise.
func requestedPlan(h Hints, service *brokerpak.Service) *brokerpak.Plan {
	id := h.request("plan_id")
	if plan := service.Plan(id); plan != nil || h.Record == nil {
		return plan
	}
	if id != "" && id != h.Record.PlanID {
		return nil // another plan than the instance's
	}
	if plan := service.Plan(h.Record.PlanID); plan != nil {
		return plan
	}
	return service.Plan(h.Record.Plan)
}
