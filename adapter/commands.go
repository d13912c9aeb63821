package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/adapter/input"
	"service-adapter/adapter/session"
	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/fault"
	"service-adapter/internal/instance"
	"service-adapter/internal/operate/recording"
	"service-adapter/internal/record"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
	"service-adapter/schemas"
)

// handle reads the input, runs the command of the session and returns its encoded product, which is nil after an error
// and for delete-binding. The product is JSON with a line break at its end, except that a manifest is plain YAML if the
// broker passed its request as arguments; see plainManifest. If record_requests is configured, the request is recorded
// after the answer has been written, also if the command failed or the input could not be read, but not after a panic.
//
// If no service of the paks supports the command (see implemented), handle returns fault.ErrNotImplemented before it
// reads the input, as the SDK does, and the request is not recorded. Only delete-binding is attempted nevertheless,
// because an earlier version of a pak may have created bindings. Input that cannot be read or decoded is an
// input.Error, which for such a delete-binding also wraps fault.ErrNotImplemented. Other errors are those of the
// command, which respond returns, such as a *fault.UserError for a body that is nested too deeply, those of
// plainManifest, and a product that cannot be encoded.
func (e *execution) handle(ctx context.Context) ([]byte, error) {
	if e.session.Command != input.DeleteBinding && !e.implemented(e.session.Command) {
		return nil, fmt.Errorf("%s: %w", missingFeature(e.session.Command), fault.ErrNotImplemented)
	}
	params, err := input.Read(e.invocation.Args, e.invocation.Stdin, e.invocation.Stderr)
	var product any
	if err == nil {
		product, err = e.respond(ctx, params)
	}
	e.session.Journal.After(ctx, func(ctx context.Context) { e.record(ctx, params) })
	switch {
	case errors.As(err, new(input.Error)) && !e.implemented(e.session.Command):
		return nil, fmt.Errorf("%s: %w: %w", missingFeature(e.session.Command), fault.ErrNotImplemented, err)
	case err != nil || product == nil:
		return nil, err
	}
	if manifest, ok := product.(*serviceadapter.MarshalledGenerateManifest); ok && params.TextOutput {
		return plainManifest(manifest)
	}
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(product); err != nil {
		return nil, fmt.Errorf("encoding the result: %w", err)
	}
	return out.Bytes(), nil
}

// record writes params, the input of the command, with its secrets masked as a new file to the directory that
// record_requests configures, and deletes the oldest recordings there, so that at most 200 remain. It does nothing if
// record_requests is not configured. A field that cannot be parsed, or cannot be masked before ctx ends, is left out
// and named in the file. An error, such as an input that is too large, is only logged.
func (e *execution) record(ctx context.Context, params serviceadapter.InputParams) {
	dir := e.session.Config.RecordRequests
	if dir == "" {
		return
	}
	if err := recording.Write(ctx, dir, e.session.Command, params, e.session.Secrets); err != nil {
		e.session.Logger.Warn("recording the request", "error", err)
	}
}

// respond decodes params, the input, runs the command of the session and returns its product for encoding as JSON: a
// *serviceadapter.MarshalledGenerateManifest, a *binding.Binding, nil for delete-binding, a
// serviceadapter.DashboardUrl, or a serviceadapter.PlanSchema for generate-plan-schemas and any unknown command. After
// an error, the product must not be used.
//
// Fields that cannot be decoded are an input.Error, or a fault.UserError if the body is nested too deeply. Other errors
// are those of session.Session.GenerateManifest, createBinding, deleteBinding, dashboardURL and planSchemas.
func (e *execution) respond(ctx context.Context, params serviceadapter.InputParams) (any, error) {
	switch e.session.Command {
	case input.GenerateManifest:
		request, size, err := input.DecodeManifest(params.GenerateManifest)
		if err != nil {
			return nil, err
		}
		return e.session.GenerateManifest(ctx, request, size)
	case input.CreateBinding, input.DeleteBinding:
		request, size, err := input.DecodeBinding(e.session.Command, params)
		if err != nil {
			return nil, err
		}
		if e.session.Command == input.DeleteBinding {
			return nil, e.deleteBinding(ctx, request)
		}
		return e.createBinding(ctx, request, size)
	case input.DashboardURL:
		return e.dashboardURL(params.DashboardUrl)
	default:
		return e.planSchemas(params.GeneratePlanSchemas)
	}
}

// plainManifest returns the YAML text of the manifest in product, without the JSON object around it. It is for a broker
// that passes its requests as arguments, and therefore accepts only the text. Such a broker would lose the secrets and
// the BOSH configs of the product, so plainManifest returns nil and an error if the product has any. product must not
// be nil.
func plainManifest(product *serviceadapter.MarshalledGenerateManifest) ([]byte, error) {
	lost := ""
	switch {
	case len(product.ODBManagedSecrets) > 0:
		lost = "secrets"
	case len(product.Configs) > 0:
		lost = "BOSH configs"
	default:
		return []byte(product.Manifest), nil
	}
	return nil, fmt.Errorf("the broker discards the %s of the manifest, because it passes its requests as arguments; "+
		"set use_stdin of the broker's job to true", lost)
}

// implemented reports whether at least one service of the paks supports a command of the protocol. A dashboard-url
// needs a service with a dashboard_url, and the commands for bindings need one with a bind section or a backup agent.
// Every service supports the other commands, so implemented returns false for these only if the paks have no
// services. implemented also returns true if a pak cannot be read, because that pak may contain such a service.
func (e *execution) implemented(command string) bool {
	if len(e.session.Catalog.Unreadable) > 0 {
		return true
	}
	_, service := session.FindService(e.session.Catalog.Paks, func(service *brokerpak.Service) bool {
		switch command {
		case input.DashboardURL:
			return service.Provision.Bosh != nil && service.Provision.Bosh.DashboardURL != nil
		case input.CreateBinding, input.DeleteBinding:
			return service.Binds() || service.HasBackupAgent()
		default:
			return true
		}
	})
	return service != nil
}

// missingFeature returns the reason for an error that says that no service implements a command: "no service has a
// dashboard_url" for the command dashboard-url, and "no service has a bind section" for any other command.
func missingFeature(command string) string {
	if command == input.DashboardURL {
		return "no service has a dashboard_url"
	}
	return "no service has a bind section"
}

// dashboardURL executes the command dashboard-url and returns a serviceadapter.DashboardUrl, or nil and an error. The
// error wraps fault.ErrNotImplemented if the service has no dashboard_url, if the URL is empty, or if it depends on
// outputs of a provision template that an errand applies. It is an input.Error if the plan cannot be decoded. It is
// another error if the manifest is not a YAML mapping or its record cannot be decoded, if no service and plan can be
// chosen, if the operator's plans or provision defaults for the service are not valid, or if the URL cannot be
// evaluated.
//
// An empty manifest is allowed. The secrets in the record of the manifest, and the values that ephemeral bind inputs
// have for the instance, are registered for masking; see session.Session.AddSecrets and MaskDeployed.
func (e *execution) dashboardURL(raw serviceadapter.DashboardUrlJSONParams) (any, error) {
	plan, err := input.DecodePlan("service plan", raw.Plan)
	if err != nil {
		return nil, err
	}
	stored, err := record.FromManifest(raw.Manifest)
	if err != nil {
		return nil, err
	}
	e.session.AddSecrets(nil, stored)
	chosen, err := e.session.Catalog.Choose(session.Hints{Properties: plan.Properties, Record: stored})
	if err != nil {
		return nil, err
	}
	view := &instance.View{Manifest: []byte(raw.Manifest), Record: stored}
	e.session.MaskDeployed(view, chosen)
	if view.ForeignInstance, err = e.session.ForeignInstance(chosen); err != nil {
		return nil, err
	}
	url, err := view.DashboardURL(chosen.Service, e.session.Values().Environment(chosen.Pak), map[string]any{
		"request.instance_id": raw.InstanceId, "request.service_id": chosen.ServiceID, "request.plan_id": chosen.PlanID,
	})
	if err != nil {
		return nil, err
	}
	if url == "" {
		return nil, fmt.Errorf("service %q has no dashboard: %w", chosen.Service.Name, fault.ErrNotImplemented)
	}
	return serviceadapter.DashboardUrl{DashboardUrl: url}, nil
}

// planSchemas executes the command generate-plan-schemas and returns a serviceadapter.PlanSchema with the JSON Schemas
// of the parameters for creating and updating an instance and for creating a binding. The schemas show values of the
// operator and the plan as defaults, but no secrets; see suppliedValues. planSchemas returns nil and an input.Error if
// the plan cannot be decoded, and nil and another error if no service and plan can be chosen, if the operator's plans
// or defaults are not valid or if a schema cannot be created.
func (e *execution) planSchemas(raw serviceadapter.GeneratePlanSchemasJSONParams) (any, error) {
	plan, err := input.DecodePlan("plan JSON", raw.Plan)
	if err != nil {
		return nil, err
	}
	chosen, err := e.session.Catalog.Choose(session.Hints{Properties: plan.Properties})
	if err != nil {
		return nil, err
	}
	supplied, err := suppliedValues(e.session, chosen)
	if err != nil {
		return nil, err
	}
	create, update, bind, err := schemas.ForPlan(chosen.Service, chosen.Plan.Properties, supplied)
	if err != nil {
		return nil, err
	}
	var schema serviceadapter.PlanSchema
	schema.ServiceInstance.Create.Parameters = create
	schema.ServiceInstance.Update.Parameters = update
	schema.ServiceBinding.Create.Parameters = bind
	return schema, nil
}

// suppliedValues returns the values that the inputs of the provision and bind actions of a chosen service have if a
// user does not set them, by name. For the provision action, these are the operator's defaults, the overrides of the
// plan and all plan properties. For the bind action, they are the operator's defaults, the overrides of the plan, and
// the plan properties that are declared as plan inputs of the bind action, which are converted to their types. Later
// layers take precedence. A plan property of the bind action that cannot be converted becomes nil. A value that is or
// contains a secret is replaced by schemas.Hidden; see hideSecrets. suppliedValues registers secrets in the environment
// variables with the operator's defaults for masking. It returns an error, and no values, if such a variable is neither
// empty nor a JSON object or null.
func suppliedValues(s *session.Session, chosen *session.Selection) (schemas.Supplied, error) {
	provision, err := s.Values().ProvisionDefaults(chosen.Service)
	bind, bindErr := s.Values().BindDefaults(chosen.Service)
	if err := errors.Join(err, bindErr); err != nil {
		return schemas.Supplied{}, err
	}
	supplied := schemas.Supplied{
		Provision: value.Merge(append(provision, chosen.Plan.ProvisionOverrides, chosen.Plan.Properties)...),
		Bind:      value.Merge(bind, chosen.Plan.BindOverrides),
	}
	for _, input := range chosen.Service.Bind.PlanInputs {
		if item, ok := chosen.Plan.Properties[input.Name]; ok {
			supplied.Bind[input.Name], _ = expr.Cast(item, input.Type) // if the cast fails, a bind returns the error
		}
	}
	hideSecrets(&chosen.Service.Provision, supplied.Provision)
	hideSecrets(&chosen.Service.Bind, supplied.Bind)
	return supplied, nil
}

// hideSecrets replaces the values in values that are or contain a secret by schemas.Hidden, because every user can
// read the schemas of a plan. values maps the names of an action's inputs to their values and is changed in the call.
//
// A value is replaced as a whole in two cases. The first is that its input is declared secret by the action (see
// session.SecretInputs) and the value is or contains a number or a text, except for blank texts and ((references)).
// The second is that package redact recognises a secret in it by the name of the input or by its content. Each value
// is checked on its own: the text of a declared secret is not recognised in the value of another input.
func hideSecrets(action *brokerpak.Action, values map[string]any) {
	declared := session.SecretInputs(action)
	for name, item := range values {
		var secrets redact.Secrets
		secrets.AddValues(map[string]any{name: item}, declared...)
		if secrets.Any() {
			values[name] = schemas.Hidden{}
		}
	}
}
