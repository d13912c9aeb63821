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

// handle runs the command of the session and returns its encoded product, or nil if the command has none. The product
// is JSON, except that a manifest is plain text if the broker passed its request as arguments; see plainManifest. The
// request is recorded when the answer has been written, also if the command failed.
//
// If no service of the paks supports the command, handle returns fault.ErrNotImplemented before it reads the input, as
// the SDK does, and the request is not recorded. Only delete-binding is attempted nevertheless, because an earlier
// version of a pak may have created bindings. Input that cannot be decoded is an input.Error, which for such a
// delete-binding also wraps fault.ErrNotImplemented. See respond for the other errors.
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

// record writes the request, whose input params contains, with its secrets masked, to the directory record_requests, if
// that is configured. An error is only logged. A field that cannot be masked before ctx ends is left out.
func (e *execution) record(ctx context.Context, params serviceadapter.InputParams) {
	dir := e.session.Config.RecordRequests
	if dir == "" {
		return
	}
	if err := recording.Write(ctx, dir, e.session.Command, params, e.session.Secrets); err != nil {
		e.session.Logger.Warn("recording the request", "error", err)
	}
}

// respond decodes the input, runs the command of the session and returns its product, which is to be encoded as JSON. A
// command that is none of the other four is treated as generate-plan-schemas. The product of delete-binding is nil. See
// package input for the errors of decoding, and the method of each command for its errors.
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

// plainManifest returns the manifest as text, without secrets and configs. A broker that passes its requests as
// arguments accepts nothing else. It returns an error if the manifest comes with secrets or BOSH configs.
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
	return nil, fmt.Errorf("the manifest comes with %s, which the broker would lose: "+
		"it passes its requests as arguments; set use_stdin of the broker's job to true", lost)
}

// implemented reports whether a service of the paks supports a command: a dashboard-url needs a service with a
// dashboard_url, and the commands for bindings one with a bind section or a backup agent; every service supports the
// other commands. It also reports true while a pak cannot be read, because that pak may contain such a service.
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

// missingFeature returns the reason for an error that says that a command is not implemented: that no service has a
// dashboard_url, for the command dashboard-url, and that none has a bind section, for any other command.
func missingFeature(command string) string {
	if command == input.DashboardURL {
		return "no service has a dashboard_url"
	}
	return "no service has a bind section"
}

// dashboardURL executes the command dashboard-url and returns a serviceadapter.DashboardUrl. The error is
// fault.ErrNotImplemented if the service has no dashboard, and an input.Error if the plan cannot be decoded. It is
// another one if the manifest is not a YAML mapping or its record cannot be decoded, no service can be chosen, defaults
// of the operator are not valid, or the URL cannot be evaluated.
func (e *execution) dashboardURL(raw serviceadapter.DashboardUrlJSONParams) (any, error) {
	plan, err := input.DecodePlan("service plan", raw.Plan)
	if err != nil {
		return nil, err
	}
	stored, err := record.FromManifest(raw.Manifest)
	if err != nil {
		return nil, err
	}
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

// planSchemas executes the command generate-plan-schemas and returns a serviceadapter.PlanSchema. It returns an
// input.Error if the plan cannot be decoded, and another error if no service can be chosen, the operator's defaults are
// not valid or a schema cannot be created.
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

// suppliedValues returns the values that inputs have if a user does not set them: the defaults of the operator, the
// overrides of the plan, and its properties. Later layers take precedence. For the bind action, only properties that
// are inputs of the action count. Secrets are replaced by schemas.Hidden. suppliedValues returns an error if defaults
// of the operator are not valid.
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

// hideSecrets replaces, in values, the secrets among the inputs of an action by schemas.Hidden, because every user can
// read the schemas. Secrets are the values of inputs that the action declares secret, and values that package redact
// recognises by their name or content.
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
