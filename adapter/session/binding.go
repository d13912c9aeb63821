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
// not send: record, data of a foreign instance (see ForeignInstance), parameters, pak, service, plan, environment and
// defaults. If request.Instance, which must not be nil, has a record, the recorded plan id and plan properties take
// precedence over those of the chosen plan. CompleteBind registers the secrets of the request and of the instance for
// masking. size is the size of the body in bytes.
//
// CompleteBind returns a fault.UserError if the body is too large or its parameters are not an object, and another
// error if the record cannot be read, if no service or plan can be chosen, or if defaults of the operator are not
// valid. The request must not be used after an error.
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

// applyPlan copies the chosen pak, service and plan into the request, and sets its environment. The plan properties in
// the record of the instance take precedence over the chosen ones, and are copied into chosen, whose plan properties
// must not be nil.
func (s *Session) applyPlan(chosen *Selection, request *binding.Request) {
	if stored := request.Instance.Record; stored != nil {
		maps.Copy(chosen.Plan.Properties, stored.PlanProperties)
	}
	request.Pak, request.Service, request.Plan = chosen.Pak, chosen.Service, chosen.Plan
	request.ServiceID, request.PlanID = chosen.ServiceID, chosen.PlanID
	request.Environment = s.Values().Environment(chosen.Pak)
}

// CompleteUnbind sets the record, data of a foreign instance (see ForeignInstance), pak, service, plan, environment and
// defaults of a delete-binding as far as they can be determined. The state of the binding contains all inputs of the
// deletion, so errors in the record, the configuration and the paks are logged and do not prevent it. If no service can
// be chosen, the service of the request is nil, and its pak is the first one; at least one pak must be readable. The
// secrets of the instance are registered for masking. CompleteUnbind returns an error, which wraps
// record.ErrNoManifest, only if the manifest is not a YAML mapping. Parameters of the body are neither read nor
// checked.
func (s *Session) CompleteUnbind(request *binding.Request) error {
	view := request.Instance
	if err := s.readRecord(view); errors.Is(err, record.ErrNoManifest) {
		return err
	} else if err != nil {
		s.Logger.Warn("the instance is not readable", "error", err)
	}
	chosen, err := s.Catalog.Choose(Hints{Body: request.Body, Record: view.Record})
	if err != nil {
		s.Logger.Warn("the service of the binding is not known any more", "error", err)
		chosen = &Selection{Pak: s.Catalog.Paks[0], Plan: brokerpak.Plan{Properties: map[string]any{}}}
	}
	s.applyPlan(chosen, request)
	if chosen.Service != nil {
		if request.Defaults, err = s.Values().BindDefaults(chosen.Service); err != nil {
			s.Logger.Warn("the defaults of the bind action are not readable", "error", err)
		}
		if view.ForeignInstance, err = s.ForeignInstance(chosen); err != nil {
			s.Logger.Warn("the defaults of the provision action are not readable", "error", err)
		}
	}
	request.MaskEphemeral(s.Secrets)
	return nil
}

// ForeignInstance returns the service, plan and defaults that are used for an instance whose manifest has no record.
// chosen must have a service. The error is that of OperatorValues.ProvisionDefaults; the result has no defaults then.
func (s *Session) ForeignInstance(chosen *Selection) (instance.ForeignInstance, error) {
	plan := chosen.Plan
	plan.ID = chosen.PlanID
	defaults, err := s.Values().ProvisionDefaults(chosen.Service)
	return instance.ForeignInstance{ServiceID: chosen.ServiceID, Plan: plan, Defaults: defaults}, err
}

// readRecord sets the record of a view to the one in its manifest, or to nil if the manifest has none, and registers
// its secrets, and those that the broker sent with the view, for masking. The error wraps record.ErrNoManifest if the
// manifest is not a YAML mapping, and is another one if the record cannot be decoded. On an error the record is nil,
// and the rest of the view remains usable.
func (s *Session) readRecord(view *instance.View) (err error) {
	view.Record, err = record.FromManifest(string(view.Manifest))
	s.AddSecrets(view.Secrets, view.Record)
	return err
}

// ReadApplied reads the state of an instance that has a provision template, and returns the condition of the instance.
// The condition is "" if the instance has no template or if its state has not been read.
//
// If an errand applies the template, the manifest lacks the outputs: ReadApplied sets request.Instance.Applied to those
// of the state, registers secrets among them for masking, and returns an error if they cannot be read; see
// lifecycle.Manager.AppliedOutputs. If generate-manifest applies the template, the manifest contains the outputs. The
// state is then read only if toBind is set, which is for a create-binding, and an error is ignored.
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
