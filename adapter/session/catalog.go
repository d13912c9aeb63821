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

// A Catalog contains the readable ones of the configured paks, the errors of the others, and the plans that the
// operator adds to their services. Its methods choose the service and plan of a request. The zero value has no paks, so
// no service can be chosen from it. A catalog must not be used after its session has been closed.
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

// newCatalog opens the paks that the configuration names, in the order of the configuration. A pak that cannot be
// opened is left out of Paks, and its error is added to Unreadable; newCatalog itself never fails. The catalog keeps
// getenv, which looks up environment variables, for the operator's plans; see OperatorPlans. The caller must close the
// catalog.
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

// close closes all paks of the catalog, which must not be used afterwards. Errors are ignored, because the paks were
// opened for reading only.
func (c *Catalog) close() {
	for _, pak := range c.Paks {
		_ = pak.Close() // opened for reading: closing cannot lose anything
	}
}

// UnreadableError returns one error that wraps the errors of all paks that cannot be read. It returns nil if all
// configured paks are readable.
func (c *Catalog) UnreadableError() error {
	if len(c.Unreadable) == 0 {
		return nil
	}
	return fmt.Errorf("loading the paks: %w", errors.Join(c.Unreadable...))
}

// publicNames returns the names and versions of the readable paks, the names and ids of their services and plans, and
// the names of the inputs of their provision and bind actions, with repetitions. The session passes them to
// redact.Secrets.NeverMask, because users and the broker refer to services, plans and inputs by them; only a word that
// a text itself labels as secret, as in password=WORD, is masked nevertheless. Plans that the operator adds are not
// included. The result is nil if no pak is readable.
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

// Hints are the parts of a request from which Catalog.Choose determines its service and plan: the plan properties, the
// body and the record of the instance. Each of them may be nil. The zero value leaves the choice of the service to the
// configuration, or else to the only service of the paks, and results in a plan without an id and a name. See
// Catalog.Choose for the order in which the parts are used.
type Hints struct {
	// Properties are the plan properties that the broker sends, or nil if it sends no plan.
	Properties map[string]any
	// Body is the body of the request.
	Body map[string]any
	// Record is the record in the manifest of the instance, or nil if it has none.
	Record *record.InstanceRecord
}

// A Selection is the service and plan that Catalog.Choose returns for a request, with the pak of the service, and their
// ids in the broker's catalog. The service is a copy that includes the plans of the operator. In the plan, the plan
// properties that the broker sent take precedence over its own. The ids are those in the request, or else in the record
// of the instance. If neither contains them, ServiceID is the id of the service in the pak, and PlanID is "".
type Selection struct {
	Pak     *brokerpak.Pak
	Service *brokerpak.Service
	// Plan is the plan of the pak or the operator. The plan properties that the broker sent override its own.
	Plan brokerpak.Plan
	// ServiceID and PlanID are the ids in the request, or else in the record. If neither contains them, ServiceID is
	// that of the service in the pak, and PlanID is "".
	ServiceID, PlanID string
}

// property returns the text at key, which is "service" or "plan", in the mapping that the plan property PlanProperty
// contains. It returns "" if the plan property is missing or not a mapping, or if the entry is missing or not a text.
func (h Hints) property(key string) string {
	property, _ := h.Properties[PlanProperty].(map[string]any)
	text, _ := property[key].(string)
	return text
}

// request returns the text at a top-level key of the request's body, such as "plan_id", or "" if the key is missing or
// its value is not a text.
func (h Hints) request(key string) string {
	text, _ := h.Body[key].(string)
	return text
}

// Choose determines the service and plan of a request. The service is determined by the first of these that applies:
// the name in the plan property PlanProperty, the service id in the request, a plan of a pak with the plan id in the
// request, the service in the record of the instance, the service in the configuration, the only service in the paks.
// An id in the request and a recorded service that no pak has are ignored in this choice. If services of several paks
// match, that of the first of these paks in the configuration is chosen, even if another pak is recorded; see below for
// paks that cannot be read.
//
// The plan is the one that PlanProperty names, or else that with the plan id in the request, or else the recorded one,
// unless the request contains the id of another plan. If none of these is found, the plan has no id and name, but the
// properties that the broker sent; see ChoosePlan. The returned service is a copy that includes the plans of the
// operator. See Selection for the ids.
//
// Choose returns nil and an error if no service is determined, if PlanProperty names an unknown service or plan, if the
// configuration has to be used and names an unknown service, or if a plan of the operator is not valid. While a pak
// cannot be read, Choose considers only the pak with the recorded name and version, and returns an error if the hints
// contain no record, or if no readable pak of that name and version has the recorded service.
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

// Candidates returns the paks from which a service may be chosen. If all configured paks are readable, these are all of
// them, and the parameters have no effect. Otherwise it is only the first readable pak with the name and version that
// contains the service, which is a name as well; an older pak could otherwise be chosen instead of the unreadable one.
// Candidates returns nil and an error, which wraps those of the unreadable paks, if a pak cannot be read and no
// readable one fits. The parameters are read from the record of an instance or a binding. A name of "" means that no
// pak is recorded; the error then does not mention a record.
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
		return nil, fmt.Errorf("pak %s %s, which the record names, is not among the paks that can be read: %w",
			name, version, err)
	default:
		return nil, err
	}
}

// FindService returns the first service for which match returns true, and its pak, or nil for both if there is none.
// The paks are searched in their order, and so are the services of each pak. If several paks have the service, such as
// an old and a new version of one pak, the first pak in the list takes precedence. Plans that the operator adds are not
// part of the services.
func FindService(paks []*brokerpak.Pak, match func(*brokerpak.Service) bool) (*brokerpak.Pak, *brokerpak.Service) {
	for _, pak := range paks {
		if at := slices.IndexFunc(pak.Services, match); at >= 0 {
			return pak, pak.Services[at]
		}
	}
	return nil, nil
}

// Owns reports whether an instance belongs to the broker, according to stored, its record, which must not be nil.
// brokerServiceID is the id of the service in the broker's catalog, which may differ from the id in the pak. If the
// readable paks have no services, Owns always returns false. Otherwise the instance belongs to the broker if the
// service id in its record is "" or brokerServiceID. It also does if that id is the id of a service of the readable
// paks and brokerServiceID is not, because the operator may have changed the id in the catalog after the instance was
// created.
func (c *Catalog) Owns(stored *record.InstanceRecord, brokerServiceID string) bool {
	has := func(id string) bool {
		_, service := FindService(c.Paks, func(service *brokerpak.Service) bool { return service.ID == id })
		return service != nil
	}
	if stored.ServiceID == "" || stored.ServiceID == brokerServiceID {
		_, service := FindService(c.Paks, func(*brokerpak.Service) bool { return true })
		return service != nil
	}
	return has(stored.ServiceID) && !has(brokerServiceID)
}

// chooseService sets the pak and service of chosen, and its ServiceID and PlanID to the ids in the request, which are
// "" if it has none. The service is the first that applies: the one that PlanProperty names, the one with the service
// id in the request, the one in a pak with a plan of the plan id in the request, the one that the record names, the one
// that the configuration names, the only one in the paks, where services with the same name count as one. If several
// paks have the service, that of the first pak is chosen.
//
// chooseService returns an error if PlanProperty or, when it is reached, the configuration names an unknown service,
// and if the paks have no or several services to choose from in the last step. chosen has no service then.
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
		return fmt.Errorf("the request does not determine the service; set `service` in the configuration "+
			"or the plan property %s: {service: NAME}; the paks have: %s", PlanProperty, diag.Names(names))
	}
	use(func(*brokerpak.Service) bool { return true })
	return nil
}

// ServiceNames returns the names of the services of all readable paks, sorted and without repetitions. The result is
// empty if the paks have no services.
func (c *Catalog) ServiceNames() []string {
	names := slices.Concat(value.Convert(c.Paks, (*brokerpak.Pak).ServiceNames)...)
	slices.Sort(names)
	return slices.Compact(names)
}

// ChoosePlan returns a copy of the plan for a request. It is the plan of the service that the plan property
// PlanProperty names by its name or id, or else the one with the plan id in the request, or else the recorded one,
// unless the request contains the id of another plan; see requestedPlan. service.Plans must include the plans of the
// operator. If none of them is found, which is not an error, the plan has neither id nor name. The plan properties that
// the broker sends are merged over those of the plan, without PlanProperty itself. Without an error, the result's
// Properties are not nil.
//
// ChoosePlan returns an error, and an empty plan, only if PlanProperty names a plan that the service does not have.
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

// requestedPlan returns the plan of the service whose id or name is the plan_id in the request. If there is none, it
// returns the recorded plan, by its recorded id or else by its recorded name, unless the request contains a plan_id
// that differs from the recorded one. The result points into service.Plans, and is nil if no plan is found.
//
// The recorded name is needed if a plan property chose the plan when the record was written. The recorded id then
// exists only in the broker's catalog, and a bind request contains no plan properties that could choose the plan again.
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
