package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/fault"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/record"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
	"service-adapter/manifestgen"
	"service-adapter/schemas"
)

// handle runs the command. What no service of the paks has is refused before anything is read, as the SDK does; but bindings that an
// earlier version of a pak made can be deleted.
func (s *session) handle(ctx context.Context) ([]byte, error) {
	if s.command != deleteBinding && !s.implements(s.command) {
		return nil, fmt.Errorf("%s: %w", lacking(s.command), fault.ErrNotImplemented)
	}
	params, err := s.readInput(s.command)
	var product any
	if err == nil {
		product, err = s.respond(ctx, params)
	}
	// Afterwards, when all secrets of the request are known.
	recorder{s}.record(params)
	switch {
	case errors.As(err, new(inputError)) && !s.implements(s.command):
		return nil, fmt.Errorf("%s: %w: %w", lacking(s.command), fault.ErrNotImplemented, err)
	case err != nil || product == nil:
		return nil, err
	}
	if made, ok := product.(*serviceadapter.MarshalledGenerateManifest); ok && params.TextOutput {
		return plainManifest(made)
	}
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(product); err != nil {
		return nil, fmt.Errorf("encoding the result: %w", err)
	}
	return out.Bytes(), nil
}

// respond runs the command and returns what the broker gets, encoded as JSON; nil when it gets nothing.
func (s *session) respond(ctx context.Context, params serviceadapter.InputParams) (any, error) {
	switch s.command {
	case generateManifest:
		request, size, err := decodeManifestInput(params.GenerateManifest)
		if err != nil {
			return nil, err
		}
		return s.generateManifest(ctx, request, size)
	case createBinding, deleteBinding:
		request, size, err := decodeBindInput(s.command, params)
		if err != nil {
			return nil, err
		}
		if s.command == deleteBinding {
			return nil, s.deleteBinding(ctx, request)
		}
		return s.createBinding(ctx, request, size)
	case dashboardURL:
		return s.dashboardURL(params.DashboardUrl)
	default:
		return s.planSchemas(params.GeneratePlanSchemas)
	}
}

// plainManifest is the product where the broker passes its request as arguments: it then reads nothing but a manifest.
func plainManifest(made *serviceadapter.MarshalledGenerateManifest) ([]byte, error) {
	lost := ""
	switch {
	case len(made.ODBManagedSecrets) > 0:
		lost = "secrets"
	case len(made.Configs) > 0:
		lost = "BOSH configs"
	default:
		return []byte(made.Manifest), nil
	}
	return nil, fmt.Errorf("the manifest comes with %s, which the broker would lose: it passes its requests as arguments; "+
		"set use_stdin of the broker's job to true", lost)
}

// implements tells whether any service of the paks has what a command is for.
func (s *session) implements(command string) bool {
	_, found := find(s.paks, func(service *brokerpak.Service) bool {
		switch command {
		case dashboardURL:
			return service.Provision.Bosh != nil && service.Provision.Bosh.DashboardURL != nil
		case createBinding, deleteBinding:
			return service.Binds() || service.HasBackupAgent()
		default:
			return true
		}
	})
	return found != nil
}

// lacking says what no service has when a command is not implemented.
func lacking(command string) string {
	if command == dashboardURL {
		return "no service has a dashboard_url"
	}
	return "no service has a bind section"
}

// generateManifest is the command of that name.
func (s *session) generateManifest(
	ctx context.Context, request *manifestgen.Request, size int,
) (*serviceadapter.MarshalledGenerateManifest, error) {
	schemas.ExpectManifest()
	if err := s.completeManifest(request, size); err != nil {
		return nil, err
	}
	ctx, cancel := lifecycle.WithBudget(ctx, s.config.Budget)
	defer cancel()
	return s.generator(request.Pak).Generate(ctx, *request)
}

// completeManifest chooses service and plan of a generate-manifest, and adds what the adapter knows. size is that of the body in bytes.
func (s *session) completeManifest(request *manifestgen.Request, size int) (err error) {
	if request.Record, err = record.FromManifest(request.PreviousManifest); err != nil {
		return err
	}
	s.addSecrets(request.PreviousSecrets, request.Record)
	s.secrets.Add(request.UAAClient["client_secret"])
	s.secrets.AddValues(request.Body)
	s.secrets.AddValues(request.BrokerPlan.Properties)
	if request.Parameters, err = parameters(request.Body); err != nil {
		return err
	}
	if err := s.config.checkSize(size, request.Record, request.Parameters); err != nil {
		return err
	}
	chosen, err := s.choose(hints{properties: request.BrokerPlan.Properties, body: request.Body, record: request.Record})
	if err != nil {
		return err
	}
	request.Pak, request.Service, request.Plan, request.ServiceID = chosen.pak, chosen.service, chosen.plan, chosen.serviceID
	// The previous plan is that of the record; its properties lie over those of the pak, too.
	if plan := request.PreviousPlan; plan != nil && plan.Properties != nil {
		previous, err := choosePlan(hints{properties: plan.Properties, record: request.Record}, chosen.service)
		if err != nil {
			return err
		}
		request.PreviousProperties = previous.Properties
	}
	request.Defaults, err = s.provisionDefaults(chosen.service)
	s.addDeclared(&chosen.service.Provision, append(request.Defaults, request.Parameters)...)
	return err
}

// addSecrets masks the secrets of an instance: those that the broker sent, and those that a record keeps where the broker
// manages none.
func (s *session) addSecrets(sent map[string]string, known *record.Record) {
	for _, secret := range sent {
		s.secrets.Add(secret)
	}
	if known == nil {
		return
	}
	s.secrets.AddValues(known.Parameters)
	s.secrets.AddValues(known.PlanProperties)
	for _, secret := range known.Secrets {
		s.secrets.Add(secret.Value)
	}
}

func (s *session) generator(pak *brokerpak.Pak) *manifestgen.Generator {
	return &manifestgen.Generator{
		Secure: s.config.SecureManifests, NoConfigs: s.config.DisableBoshConfigs, AllowedReferences: s.config.AllowedReferences,
		GlobalLabels: s.config.GlobalLabels, Environment: s.environment(pak),
		CheckManifest: schemas.CheckManifest,
		Errands: manifestgen.Errands{
			Properties: normalised(s.config.ErrandProperties), Limit: s.config.ErrandLimit.String(),
			Updates: s.config.BrokerpakUpdatesEnabled, Upgrades: s.config.TerraformUpgradesEnabled,
		},
		Provision: s.provision,
		Logger:    s.logger,
	}
}

// dashboardURL is the command of that name.
func (s *session) dashboardURL(raw serviceadapter.DashboardUrlJSONParams) (any, error) {
	plan, err := decodePlan("service plan", raw.Plan)
	if err != nil {
		return nil, err
	}
	known, err := record.FromManifest(raw.Manifest)
	if err != nil {
		return nil, err
	}
	chosen, err := s.choose(hints{properties: plan.Properties, record: known})
	if err != nil {
		return nil, err
	}
	view := &instance.View{Manifest: []byte(raw.Manifest), Record: known}
	if view.Unrecorded, err = s.unrecorded(chosen); err != nil {
		return nil, err
	}
	url, err := view.DashboardURL(chosen.service, s.environment(chosen.pak), map[string]any{
		"request.instance_id": raw.InstanceId, "request.service_id": chosen.serviceID, "request.plan_id": chosen.planID,
	})
	if err != nil {
		return nil, err
	}
	if url == "" {
		return nil, fmt.Errorf("service %q has no dashboard: %w", chosen.service.Name, fault.ErrNotImplemented)
	}
	return serviceadapter.DashboardUrl{DashboardUrl: url}, nil
}

// planSchemas is the command generate-plan-schemas.
func (s *session) planSchemas(raw serviceadapter.GeneratePlanSchemasJSONParams) (any, error) {
	plan, err := decodePlan("plan JSON", raw.Plan)
	if err != nil {
		return nil, err
	}
	chosen, err := s.choose(hints{properties: plan.Properties})
	if err != nil {
		return nil, err
	}
	supplied, err := s.supplied(chosen)
	if err != nil {
		return nil, err
	}
	create, update, bind, err := schemas.ForPlan(chosen.service, chosen.plan.Properties, supplied)
	if err != nil {
		return nil, err
	}
	var schema serviceadapter.PlanSchema
	schema.ServiceInstance.Create.Parameters = create
	schema.ServiceInstance.Update.Parameters = update
	schema.ServiceBinding.Create.Parameters = bind
	return schema, nil
}

// supplied are the values that the operator and the plan set when a user does not, those of the later layer for each name.
func (s *session) supplied(chosen *selection) (schemas.Supplied, error) {
	provision, err := s.provisionDefaults(chosen.service)
	bind, bindErr := s.bindDefaults(chosen.service)
	if err := errors.Join(err, bindErr); err != nil {
		return schemas.Supplied{}, err
	}
	supplied := schemas.Supplied{
		Provision: value.Merge(append(provision, chosen.plan.ProvisionOverrides, chosen.plan.Properties)...),
		Bind:      value.Merge(bind, chosen.plan.BindOverrides),
	}
	for _, input := range chosen.service.Bind.PlanInputs {
		if item, ok := chosen.plan.Properties[input.Name]; ok {
			supplied.Bind[input.Name], _ = expr.Cast(item, input.Type) // a bind is refused where that fails
		}
	}
	hide(&chosen.service.Provision, supplied.Provision)
	hide(&chosen.service.Bind, supplied.Bind)
	return supplied, nil
}

// hide keeps secrets out of schemas, which every user reads.
func hide(action *brokerpak.Action, values map[string]any) {
	declared := secretInputs(action)
	for name, item := range values {
		var found redact.Secrets
		found.AddValues(map[string]any{name: item}, declared...)
		if found.Any() {
			values[name] = schemas.Hidden{}
		}
	}
}
