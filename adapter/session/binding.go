package session

import (
	"cmp"
	"context"
	"errors"
	"maps"

	"service-adapter/adapter/input"
	"service-adapter/binding"
	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
	"service-adapter/manifestgen"
)

// CompleteBind chooses the service and plan of a create-binding and sets the fields of the request that the broker does
// not send: parameters, pak, service, plan and their ids, environment and defaults, and, in request.Instance, the
// record of the manifest and the data that replaces a missing record (see ForeignInstance). request.Instance must not
// be nil. If it has a record, the recorded plan id and plan properties take precedence over those of the chosen plan.
// CompleteBind registers for masking the secrets of the request and of the instance, and those among the bind inputs
// that the plan and the operator supply. size is the size of the body in bytes, which must not exceed
// Config.MaxRequest.
//
// CompleteBind returns a fault.UserError if the body is too large or its parameters are not an object. It returns
// another error if the manifest is neither a YAML mapping nor empty or null, if its record cannot be decoded, if no
// service or plan can be chosen (see Catalog.Choose), or if defaults or plans of the operator are not valid. The
// request must not be used after an error.
func (s *Session) CompleteBind(request *binding.Request, size int) error {
	s.Secrets.AddValues(request.Body)
	if err := input.CheckSize(s.Config.MaxRequest(), size, nil, nil); err != nil {
		return err
	}
	view := request.Instance
	if err := s.readRecord(view); err != nil {
		return err
	}
	chosen, err := s.Catalog.Choose(Hints{Body: request.Body, Record: view.Record})
	if err != nil {
		return err
	}
	if view.ForeignInstance, err = s.ForeignInstance(chosen); err != nil {
		return err
	}
	if request.Parameters, err = input.Parameters(request.Body); err != nil {
		return err
	}
	s.applyPlan(chosen, request)
	if view.Record != nil {
		// As documented for expressions, request.plan_id is the plan of the instance, not that of the request.
		request.PlanID = cmp.Or(view.Record.PlanID, request.PlanID)
	}
	request.Defaults, err = s.Values().BindDefaults(chosen.Service)
	s.maskInputs(&chosen.Service.Bind,
		request.Parameters, request.Defaults, chosen.Plan.Properties, chosen.Plan.BindOverrides)
	request.MaskEphemeral(s.Secrets)
	return err
}

// applyPlan copies the pak, service, plan and ids of chosen into the request, and sets the request's environment, from
// which expressions read variables and configuration values. If request.Instance has a record, its plan properties take
// precedence over the chosen ones, and are copied into chosen.Plan.Properties as well. request.Instance, chosen.Pak
// and, if there is a record, chosen.Plan.Properties must not be nil; chosen.Service may be nil.
func (s *Session) applyPlan(chosen *Selection, request *binding.Request) {
	if stored := request.Instance.Record; stored != nil {
		maps.Copy(chosen.Plan.Properties, stored.PlanProperties)
	}
	request.Pak, request.Service, request.Plan = chosen.Pak, chosen.Service, chosen.Plan
	request.ServiceID, request.PlanID = chosen.ServiceID, chosen.PlanID
	request.Environment = s.Values().Environment(chosen.Pak)
}

// CompleteUnbind sets the pak, service, plan and their ids, environment and defaults of a delete-binding, and the
// record and the data of a foreign instance (see ForeignInstance) in request.Instance, as far as they can be
// determined. request.Instance must not be nil. Catalog.Choose determines the service, the plan and the ids; the
// recorded plan properties take precedence over those of the plan. The secrets of the instance are registered for
// masking. Parameters of the body are neither read nor checked.
//
// The state of the binding contains all inputs of the deletion, so errors in the record, the configuration and the paks
// are logged and do not prevent it. If no service can be chosen, the service of the request is nil, the ids are "", the
// plan has only the recorded properties, and the pak is the first readable one; at least one pak must be readable.
//
// CompleteUnbind returns an error, which wraps record.ErrNoManifest, only if the manifest is not a YAML mapping; an
// empty manifest is allowed. The fields of the request are not set then.
func (s *Session) CompleteUnbind(request *binding.Request) error {
	view := request.Instance
	if err := s.readRecord(view); errors.Is(err, record.ErrNoManifest) {
		return err
	} else if err != nil {
		s.Logger.Warn("the record of the instance cannot be read", "error", err)
	}
	chosen, err := s.Catalog.Choose(Hints{Body: request.Body, Record: view.Record})
	if err != nil {
		s.Logger.Warn("the service of the binding cannot be determined", "error", err)
		chosen = &Selection{Pak: s.Catalog.Paks[0], Plan: brokerpak.Plan{Properties: map[string]any{}}}
	}
	s.applyPlan(chosen, request)
	if chosen.Service != nil {
		if request.Defaults, err = s.Values().BindDefaults(chosen.Service); err != nil {
			s.Logger.Warn("the defaults of the bind action cannot be read", "error", err)
		}
		if view.ForeignInstance, err = s.ForeignInstance(chosen); err != nil {
			s.Logger.Warn("the defaults of the provision action cannot be read", "error", err)
		}
	}
	request.MaskEphemeral(s.Secrets)
	return nil
}

// ForeignInstance returns the data that replaces the record of an instance whose manifest has none, because another
// adapter created it: the service id and the plan of chosen, and the operator's defaults for the provision action of
// its service. chosen must have a service. ForeignInstance registers secrets in the environment variables with
// defaults for masking. If such a variable is neither empty nor a JSON object or null, it returns an error, and the
// data without defaults.
func (s *Session) ForeignInstance(chosen *Selection) (instance.ForeignInstance, error) {
	plan := chosen.Plan
	plan.ID = chosen.PlanID
	defaults, err := s.Values().ProvisionDefaults(chosen.Service)
	return instance.ForeignInstance{ServiceID: chosen.ServiceID, Plan: plan, Defaults: defaults}, err
}

// readRecord sets view.Record to the record in the manifest of the view, or to nil if the manifest is empty or has no
// record. It registers for masking the secrets in the record and those that the broker sent with the view. readRecord
// returns an error that wraps record.ErrNoManifest if the manifest is not a YAML mapping, and another error if the
// record cannot be decoded. On an error the record is nil, and the rest of the view remains usable.
func (s *Session) readRecord(view *instance.View) (err error) {
	view.Record, err = record.FromManifest(string(view.Manifest))
	s.AddSecrets(view.Secrets, view.Record)
	return err
}

// ReadApplied reads the state of an instance that has a provision template, and returns the condition of the instance,
// such as lifecycle.Deleting, or lifecycle.Unreadable if the state or its record cannot be read or decoded.
// request.Instance, which must not be nil, is the instance with its record. The condition is "" if the instance has no
// record or no template, if its state is not read or does not exist, if the state backend cannot be reached, if the
// state is locked, if ctx ends, or if no pak has a usable OpenTofu.
//
// If an errand applies the template, the manifest lacks the outputs: ReadApplied sets request.Instance.Applied to
// those of the state and registers secrets among them for masking. It returns the condition and an error if the
// outputs cannot be read, and therefore whenever the condition is "" or Unreadable. The error is a *fault.UserError
// if the template has never been applied completely; see lifecycle.Manager.AppliedOutputs. Applied is nil then. If
// generate-manifest applies the template, the manifest contains the outputs. The state is then read only if toBind is
// true, which is for a create-binding, and an error is ignored.
//
// Reading can have side effects, such as the deletion of an empty workspace; see lifecycle.Manager.Lookup.
func (s *Session) ReadApplied(
	ctx context.Context, manager *lifecycle.Manager, request *binding.Request, toBind bool,
) (lifecycle.Condition, error) {
	view := request.Instance
	if view.Record == nil || view.Record.Errand == nil && (view.Record.Template == nil || !toBind) {
		return "", nil
	}
	outputs, condition, err := manager.AppliedOutputs(ctx, view.InstanceID())
	if view.Record.Errand == nil {
		return condition, nil // the manifest contains the outputs
	}
	var sensitive []string
	if request.Service != nil { // an unbind may have none
		sensitive = manifestgen.SensitiveOutputs(request.Service)
	}
	view.Applied = outputs
	s.Secrets.AddValues(outputs, sensitive...)
	return condition, err
}
