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

// GenerateManifest executes generate-manifest: it sets the fields of the request that the broker does not send (see
// CompleteManifest), and generates and returns the manifest, within the budget of the configuration. size is the size
// of the request's body in bytes, which must not exceed Config.MaxRequest.
//
// If the service has a provision template that no errand of the plan applies, GenerateManifest applies it, with an
// entry in the audit log. If the broker is only checking for pending changes, GenerateManifest compares the instance
// with that template instead, as the field CheckPending determines. See the field Replaying for a session that must
// do neither.
//
// GenerateManifest returns nil and an error if CompleteManifest or manifestgen.Generator.Generate fails. The error
// contains a *fault.UserError if the user's parameters are not valid, and for some faults that the operator must
// correct. It wraps fault.ErrNotImplemented if the service has neither a provision.bosh section nor a provision
// template. If GenerateManifest fails after the template has been applied, the resources of the template remain.
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
// and nil if there are none. The request is that of the broker's check for pending changes. RenewedSecrets sets the
// fields that the broker does not send, as CompleteManifest does, and returns its errors. It also returns an error if
// the request is invalid for the service, or if the new value of a secret or another part of the manifest cannot be
// determined. It generates no manifest and runs no OpenTofu.
func (s *Session) RenewedSecrets(request *manifestgen.Request) ([]string, error) {
	if err := s.CompleteManifest(request, 0); err != nil {
		return nil, err
	}
	return s.Generator(request.Pak).RenewedSecrets(*request)
}

// CompleteManifest chooses the service and plan of a generate-manifest and sets the fields of the request that the
// broker does not send: record, parameters, pak, service and its id, plan, previous plan properties and defaults. The
// previous plan properties stay unset if the request has no previous plan or the previous plan has no properties.
// CompleteManifest registers the secrets of the request, of the record and of the operator's defaults for masking, and,
// if there is a previous manifest, the values of ephemeral bind inputs (see MaskDeployed). size is the size of the body
// in bytes.
//
// CompleteManifest returns a fault.UserError if the body, or the parameters together with the recorded ones, are larger
// than Config.MaxRequest, or if the parameters are not an object. It returns another error if the previous manifest is
// neither empty nor a YAML mapping, if its record cannot be decoded, if no service or plan can be chosen, if the
// previous plan names an unknown plan, or if defaults or plans of the operator are not valid. The request must not be
// used after an error.
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

// MaskDeployed registers for masking the values that the ephemeral inputs of the bind action, which must never be
// stored, have for a deployed instance. A recording of a request contains the manifest of the instance, and therefore
// possibly these values. view is the instance; chosen must have a pak and a service. Values that the operator set as
// defaults of the bind action, or that a user sent, are not registered. Inputs that cannot be evaluated without a bind
// request are skipped, and errors are ignored.
func (s *Session) MaskDeployed(view *instance.View, chosen *Selection) {
	bind := binding.Request{
		Service: chosen.Service, Plan: chosen.Plan, ServiceID: chosen.ServiceID, PlanID: chosen.PlanID,
		Environment: s.Values().Environment(chosen.Pak), Instance: view,
	}
	bind.MaskEphemeral(s.Secrets)
}

// AddSecrets registers the secrets of an instance for masking: all values in sent, a map from references to the secrets
// that the broker sent, and those in stored, the record of the instance. The record contains the values of secrets if
// the broker does not manage them. Of the record's parameters and plan properties, only those that package redact
// recognises as secrets are registered. Both parameters may be nil.
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

// Generator returns a manifestgen.Generator with the configuration of the session, for the services of a pak, which
// must not be nil. The generator logs to the session's Logger. Its Provision function applies provision templates with
// this session, and writes them to the audit log.
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

// provision applies the provision template of an instance for generate-manifest, with an entry in the audit log,
// registers secrets among the outputs for masking, and returns the outputs. The work also ends with the first signal
// that Interruptible handles.
//
// If check is true, the broker is only checking for pending changes: provision applies nothing, writes nothing to the
// audit log and returns a nil result. It calls CheckPending and returns its error or, if CheckPending is nil, logs
// planned changes and returns no error. If the session replays a recording, it does neither and returns no error.
//
// Without check, provision returns nil and an error if the session replays a recording, or if Session.Manager or
// provision.Provisioner.Apply fails; see Apply for the resources that may remain. An error of Apply that wraps a
// fault.BudgetError is returned with a recommendation of the lifecycle errands.
func (s *Session) provision(
	ctx context.Context, request provision.Request, check bool,
) (result *provision.Result, err error) {
	ctx = s.Interruptible(ctx)
	switch {
	case check && s.Replaying:
		return nil, nil // a comparison would read and lock the state of the instance
	case check && s.CheckPending != nil:
		return nil, s.CheckPending(ctx, request)
	case check:
		s.warnOfPending(ctx, request)
		return nil, nil
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
		return nil, fmt.Errorf("%w; a plan with the lifecycle errands %s and %s is limited by errand_limit instead",
			err, record.ApplyErrand, record.DestroyErrand)
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

// warnOfPending logs a warning if the next update will change resources that OpenTofu has created for the instance of
// the request, or if the state cannot be compared. It returns no error: the check of the broker must not fail because
// of the state, and takes the outputs from the deployed manifest. It stops comparing after a fifth of the budget; see
// checkShare.
//
// warnOfPending reads the state, for which it waits for other runs, and runs no OpenTofu plan. A state that an earlier
// run could not save is saved, an empty workspace is deleted, and the directories of Manager are created.
func (s *Session) warnOfPending(ctx context.Context, request provision.Request) {
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
		s.Logger.Warn("the next update will change resources of the provision template; "+
			"the outputs are those of the deployed manifest", "instance", request.InstanceID)
	}
}
