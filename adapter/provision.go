package adapter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/provision"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/schemas"
)

// provisioner wires the provision templates of a pak to OpenTofu.
func (s *session) provisioner(pak *brokerpak.Pak) (*provision.Provisioner, error) {
	manager, err := s.manager(pak)
	if err != nil {
		return nil, err
	}
	return &provision.Provisioner{
		Manager: manager, Updates: s.config.BrokerpakUpdatesEnabled, Upgrades: s.config.TerraformUpgradesEnabled,
	}, nil
}

// provision applies the provision template for generate-manifest. For the broker's check for pending changes it changes nothing; that
// something would change is said where operators read it.
func (s *session) provision(ctx context.Context, request provision.Request, check bool) (result *provision.Result, err error) {
	ctx = s.Interruptible(ctx)
	if check {
		return nil, s.check(ctx, request)
	}
	about := aboutPak(request.Pak, lifecycle.Entry{
		Kind: lifecycle.Instance, ID: request.InstanceID, Service: request.Service.Name, Plan: request.Plan, Owner: request.Owner,
	})
	err = auditor{s}.change(ctx, about, func(func(lifecycle.Entry)) error {
		provisioner, err := s.provisioner(request.Pak)
		if err == nil {
			result, err = provisioner.Apply(ctx, request)
		}
		return err
	})
	if budget := new(fault.BudgetError); errors.As(err, &budget) {
		return nil, fmt.Errorf("%w; a plan with the lifecycle errands %s and %s has as long as it takes", err, record.ApplyErrand, record.DestroyErrand)
	}
	if err != nil {
		return nil, err
	}
	s.secrets.AddValues(result.Outputs, result.Sensitive...)
	return result, nil
}

// checkShare is the part of the budget, as a divisor, that a look at the state may take: the update that follows the broker's check
// runs within the same request of the platform.
const checkShare = 5

// warnOfPending says that the update which the broker checks for will change what OpenTofu built. The check itself must not fail for
// it, whatever is wrong with the state: it takes the outputs from the manifest.
func (s *session) warnOfPending(ctx context.Context, request provision.Request) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Budget/checkShare)
	defer cancel()
	provisioner, err := s.provisioner(request.Pak)
	var planned provision.Planned
	if err == nil {
		planned, err = provisioner.Plan(ctx, request, false)
	}
	switch {
	case err != nil:
		s.logger.Warn("the state of the instance could not be compared; its outputs are those of the deployed manifest",
			"instance", request.InstanceID, "error", err)
	case len(planned.Reasons) > 0:
		s.logger.Warn("the next update will change what the provision template built; the outputs are those of the deployed manifest",
			"instance", request.InstanceID)
	}
	return nil
}

// Intent is what the errand apply-instance is told: an instance as it shall be, and the values of its secret inputs.
type Intent struct {
	*record.Intent
	Secrets map[string]any
}

// ReadIntent reads the file that the job apply-instance renders: a JSON object with the text "intent" and the map "secrets".
func ReadIntent(text []byte) (*Intent, error) {
	var file struct {
		Intent  string         `json:"intent"`
		Secrets map[string]any `json:"secrets"`
	}
	if err := value.Decode(text, &file); err != nil {
		return nil, errors.New("reading the intent: it is no JSON object with the text \"intent\" and the map \"secrets\"") // which it may show
	}
	intent, err := record.DecodeIntent(file.Intent)
	if err != nil {
		return nil, err
	}
	secrets, _ := value.Normalise(file.Secrets).(map[string]any)
	return &Intent{Intent: intent, Secrets: secrets}, nil
}

// ApplyIntent makes an instance as it shall be. What fails is kept, so that a repeat goes on; why it failed is stored with the instance.
func (o *Operator) ApplyIntent(ctx context.Context, intent *Intent) error {
	about := lifecycle.Entry{
		Kind: lifecycle.Instance, ID: intent.InstanceID, Service: intent.Service, Plan: intent.Plan, Pak: intent.Pak, PakVersion: intent.PakVersion,
		Tofu: intent.Tofu, Owner: intent.Owner,
	}
	return auditor{o.session}.change(ctx, about, func(func(lifecycle.Entry)) error { return o.applyIntent(ctx, intent) })
}

func (o *Operator) applyIntent(ctx context.Context, intent *Intent) error {
	s := o.session
	for _, item := range intent.Secrets {
		s.secrets.Add(item)
	}
	s.secrets.AddValues(intent.Inputs)
	pak, service := find(s.paks, func(service *brokerpak.Service) bool { return service.Name == intent.Service })
	if service == nil {
		return fmt.Errorf("no pak of `paks` has the service %q, which the manifest is for", intent.Service)
	}
	inputs, err := o.inputs(pak, service, intent)
	if err != nil {
		return err
	}
	updates := intent.Template == brokerpak.Digest(service.Provision.Templates)
	if !updates && intent.Template != "" {
		if err := o.checkTemplate(ctx, pak, intent); err != nil {
			return err
		}
	}
	target, err := pak.Manifest.DefaultVersion()
	if err != nil {
		return err
	}
	provisioner := &provision.Provisioner{Manager: o.Manager, Updates: updates, Upgrades: updates && intent.Tofu == target, Errand: true}
	result, err := provisioner.Apply(ctx, provision.Request{
		Pak: pak, Service: service, Instance: intent.Instance, Owner: intent.Owner, Inputs: inputs,
		Resolve: func(map[string]any) (map[string]any, map[string]map[string]any, error) { return inputs, nil, nil },
	})
	if err != nil {
		return err
	}
	s.secrets.AddValues(result.Outputs, result.Sensitive...)
	return nil
}

// checkTemplate refuses an intent for a template that neither the installed pak nor the instance has.
func (o *Operator) checkTemplate(ctx context.Context, pak *brokerpak.Pak, intent *Intent) error {
	stored, err := o.Read(ctx, lifecycle.Instance, intent.InstanceID)
	if err != nil && !errors.Is(err, lifecycle.ErrNotStored) {
		return err
	}
	if err == nil && stored.Record != nil && brokerpak.Digest(stored.Record.Templates) == intent.Template {
		return nil
	}
	return fmt.Errorf("the manifest was made for the provision template of pak %s %s, and the release of this deployment has that of %s %s: "+
		"upgrade the service instance, so that both are of one version", intent.Pak, intent.PakVersion, pak.Manifest.Name, pak.Manifest.Version)
}

// inputs are the variables of the template: those of the intent, its secrets, and those that depend on the errand's configuration.
func (o *Operator) inputs(pak *brokerpak.Pak, service *brokerpak.Service, intent *Intent) (map[string]any, error) {
	scope := vars.NewScope(vars.Options{Constants: intent.Constants, Environment: o.session.environment(pak)})
	scope.Set("intent", intent.Inputs)
	action, types := &service.Provision, map[string]string{}
	for _, input := range slices.Concat(action.PlanInputs, action.UserInputs, action.ComputedInputs) {
		types[input.Name] = input.Type
	}
	for name, item := range intent.Secrets {
		typed, err := expr.Cast(item, types[name])
		if err != nil {
			return nil, fmt.Errorf("the secret input %q cannot be used: %w", name, err)
		}
		scope.Set("intent", map[string]any{name: typed})
	}
	isOther := func(input brokerpak.Variable) bool { return !slices.Contains(intent.Later, input.Name) }
	defaults := slices.DeleteFunc(slices.Clone(action.UserInputs), isOther)
	computed := slices.DeleteFunc(slices.Clone(action.ComputedInputs), isOther)
	if err := errors.Join(scope.Defaults(defaults), scope.Computed(computed)); err != nil {
		return nil, err
	}
	err := schemas.CheckValues(defaults, scope.Values, func(name string) string { return fmt.Sprintf("the default of input %q", name) })
	return scope.Values, err
}
