package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/adapter/input"
	"service-adapter/binding"
	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/provision"
	"service-adapter/internal/fault"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/manifestgen"
	"service-adapter/schemas"
)

// GenerateManifest completes a request and generates its manifest within the budget of the configuration. It applies
// the provision template of an instance, unless an errand of the plan applies it or the broker is only checking for
// pending changes. It also starts to compile the schema of BOSH manifests in the background. size is the size of the
// request's body in bytes. See CompleteManifest for the fields of the request that are set; its errors and those of
// manifestgen.Generator.Generate are returned.
func (s *Session) GenerateManifest(
	ctx context.Context, request *manifestgen.Request, size int,
) (*serviceadapter.MarshalledGenerateManifest, error) {
	schemas.PreloadManifestSchema()
	if err := s.CompleteManifest(request, size); err != nil {
		return nil, err
	}
	ctx, cancel := lifecycle.WithBudget(ctx, s.Config.Budget)
	defer cancel()
	return s.Generator(request.Pak).Generate(ctx, *request)
}

// RenewedSecrets returns the names of the secrets that an upgrade of a deployed instance gives another value, sorted,
// and nil if there are none. It completes the request as CompleteManifest does, whose errors it returns. See
// manifestgen.Generator.RenewedSecrets for the other errors.
func (s *Session) RenewedSecrets(request *manifestgen.Request) ([]string, error) {
	if err := s.CompleteManifest(request, 0); err != nil {
		return nil, err
	}
	return s.Generator(request.Pak).RenewedSecrets(*request)
}

// CompleteManifest chooses the service and plan of a generate-manifest and sets the fields of the request that the
// broker does not send: record, parameters, pak, service, plan, previous plan properties and defaults. A request
// without a previous plan has no previous plan properties. CompleteManifest registers the secrets of the request, of
// the record and of the operator's defaults for masking. size is the size of the body in bytes. CompleteManifest
// returns a fault.UserError if the body is too large or its parameters are not an object, and another error if the
// record cannot be read, if no service or plan can be chosen, or if defaults of the operator are not valid. The request
// must not be used after an error.
func (s *Session) CompleteManifest(request *manifestgen.Request, size int) (err error) {
	if request.Record, err = record.FromManifest(request.PreviousManifest); err != nil {
		return err
	}
	s.AddSecrets(request.PreviousSecrets, request.Record)
	s.Secrets.Add(request.UAAClient["client_secret"])
	s.Secrets.AddValues(request.Body)
	s.Secrets.AddValues(request.BrokerPlan.Properties)
	if request.Parameters, err = input.Parameters(request.Body); err != nil {
		return err
	}
	if err := input.CheckSize(s.Config.MaxRequest(), size, request.Record, request.Parameters); err != nil {
		return err
	}
	chosen, err := s.Catalog.Choose(Hints{
		Properties: request.BrokerPlan.Properties, Body: request.Body, Record: request.Record,
	})
	if err != nil {
		return err
	}
	request.Pak, request.Service, request.Plan = chosen.Pak, chosen.Service, chosen.Plan
	request.ServiceID = chosen.ServiceID
	// The previous plan is the recorded one. As for the current plan, its properties override those of the pak.
	if plan := request.PreviousPlan; plan != nil && plan.Properties != nil {
		previous, err := ChoosePlan(Hints{Properties: plan.Properties, Record: request.Record}, chosen.Service)
		if err != nil {
			return err
		}
		request.PreviousProperties = previous.Properties
	}
	if request.PreviousManifest != "" {
		s.MaskDeployed(&instance.View{
			Manifest: []byte(request.PreviousManifest), Secrets: request.PreviousSecrets, Record: request.Record,
		}, chosen)
	}
	request.Defaults, err = s.Values().ProvisionDefaults(chosen.Service)
	s.maskInputs(&chosen.Service.Provision,
		append(request.Defaults, request.Parameters, chosen.Plan.Properties, chosen.Plan.ProvisionOverrides)...)
	return err
}

// MaskDeployed registers the values that the ephemeral inputs of the bind action have in a deployed manifest for
// masking, because a recording of a request contains the manifest. chosen must have a pak and a service.
func (s *Session) MaskDeployed(view *instance.View, chosen *Selection) {
	bind := binding.Request{
		Service: chosen.Service, Plan: chosen.Plan, ServiceID: chosen.ServiceID, PlanID: chosen.PlanID,
		Environment: s.Values().Environment(chosen.Pak), Instance: view,
	}
	bind.MaskEphemeral(s.Secrets)
}

// AddSecrets registers the secrets of an instance for masking: the values in sent, which the broker sent, and those in
// the record, which contains the values of secrets if the broker does not manage them. Of the record's parameters and
// plan properties, only those that package redact recognises as secrets are registered. A nil record contains none.
func (s *Session) AddSecrets(sent map[string]string, stored *record.InstanceRecord) {
	for _, secret := range sent {
		s.Secrets.Add(secret)
	}
	if stored == nil {
		return
	}
	s.Secrets.AddValues(stored.Parameters)
	s.Secrets.AddValues(stored.PlanProperties)
	for _, secret := range stored.Secrets {
		s.Secrets.Add(secret.Value)
	}
}

// Generator returns a manifestgen.Generator with the configuration of the session for the services of a pak. Its
// Provision function applies templates with this session.
func (s *Session) Generator(pak *brokerpak.Pak) *manifestgen.Generator {
	return &manifestgen.Generator{
		Secure: s.Config.SecureManifests, NoConfigs: s.Config.DisableBoshConfigs,
		AllowedReferences: s.Config.AllowedReferences, GlobalLabels: s.Config.GlobalLabels,
		Environment:   s.Values().Environment(pak),
		CheckManifest: schemas.CheckManifest,
		Errands: manifestgen.Errands{
			Properties: value.NormaliseMap(s.Config.ErrandProperties), Limit: s.Config.ErrandLimit.String(),
			Check:                s.Config.InstanceErrandsCheck(s.Logger),
			UseInstalledTemplate: s.Config.BrokerpakUpdatesEnabled, AllowUpgrade: s.Config.TerraformUpgradesEnabled,
		},
		Provision: s.provision,
		Logger:    s.Logger,
	}
}

// provision applies the provision template of an instance for generate-manifest, with an entry in the audit log, and
// registers secrets among the outputs for masking. If check is set, the broker is checking for pending changes:
// provision then only calls CheckPending and returns its error, or logs planned changes if CheckPending is nil. A check
// has no entry in the audit log and a nil result.
//
// Otherwise provision returns an error if the session replays a recording, and the errors of Session.Manager and of
// provision.Provisioner.Apply. If the budget ends, the error wraps a fault.BudgetError and recommends lifecycle
// errands. The result is nil after an error.
func (s *Session) provision(
	ctx context.Context, request provision.Request, check bool,
) (result *provision.Result, err error) {
	ctx = s.Interruptible(ctx)
	switch {
	case check && s.CheckPending != nil:
		return nil, s.CheckPending(ctx, request)
	case check:
		return nil, s.warnOfPending(ctx, request)
	case s.Replaying:
		return nil, fmt.Errorf("a replay does not apply the provision template of service %q, so the outputs that the "+
			"manifest depends on are missing", request.Service.Name)
	}
	entry := WithPak(request.Pak, lifecycle.Entry{
		Identity: lifecycle.Identity{
			Kind: lifecycle.Instance, ID: request.InstanceID, Service: request.Service.Name, Plan: request.Plan,
		},
		Owner: request.Owner,
	})
	err = s.Audited(ctx, entry, func(func(lifecycle.Entry)) error {
		provisioner, err := s.Provisioner(request.Pak)
		if err == nil {
			result, err = provisioner.Apply(ctx, request)
		}
		return err
	})
	if budget := new(fault.BudgetError); errors.As(err, &budget) {
		return nil, fmt.Errorf("%w; a plan with the lifecycle errands %s and %s has as long as it takes", err,
			record.ApplyErrand, record.DestroyErrand)
	}
	if err != nil {
		return nil, err
	}
	s.Secrets.AddValues(result.Outputs, result.Sensitive...)
	return result, nil
}

// checkShare is the divisor for the part of the budget that warnOfPending may take. The update that follows the
// broker's check runs within the same request of the platform.
const checkShare = 5

// warnOfPending logs a warning if the next update will change resources that OpenTofu has created, or if the state
// cannot be compared. It always returns nil: the check of the broker must not fail because of the state, and takes the
// outputs from the deployed manifest. It takes at most a part of the budget; see checkShare.
func (s *Session) warnOfPending(ctx context.Context, request provision.Request) error {
	ctx, cancel := context.WithTimeout(ctx, s.Config.Budget/checkShare)
	defer cancel()
	provisioner, err := s.Provisioner(request.Pak)
	var planned provision.Planned
	if err == nil {
		planned, err = provisioner.Plan(ctx, request, false)
	}
	switch {
	case err != nil:
		s.Logger.Warn("the state of the instance could not be compared; its outputs are those of the deployed manifest",
			"instance", request.InstanceID, "error", err)
	case len(planned.Reasons) > 0:
		s.Logger.Warn("the next update will change what the provision template built; "+
			"the outputs are those of the deployed manifest", "instance", request.InstanceID)
	}
	return nil
}
