package states

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"service-adapter/adapter/session"
	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/provision"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
	"service-adapter/schemas"
)

// An Intent is the input of the errand apply-instance: the desired state of an instance, and the values of its secret
// inputs, by the names of the inputs. Secrets may be empty.
type Intent struct {
	*record.Intent
	Secrets map[string]any
}

// ReadIntent decodes the file that the job apply-instance renders: a JSON object with the text "intent" and the mapping
// "secrets". Missing secrets are an empty map. It returns an error if the text does not have this form or if the intent
// cannot be decoded. Errors do not contain the text, which may contain secrets.
func ReadIntent(text []byte) (*Intent, error) {
	var file struct {
		Intent  string         `json:"intent"`
		Secrets map[string]any `json:"secrets"`
	}
	if err := value.Decode(text, &file); err != nil {
		// err may contain secrets
		return nil, errors.New("reading the intent: " +
			"it is no JSON object with the text \"intent\" and the map \"secrets\"")
	}
	intent, err := record.DecodeIntent(file.Intent)
	if err != nil {
		return nil, err
	}
	secrets, _ := value.Normalise(file.Secrets).(map[string]any)
	return &Intent{Intent: intent, Secrets: secrets}, nil
}

// ApplyIntent applies the provision template to bring an instance to its desired state, with an entry in the audit log.
// The secrets of the intent and the secret outputs are registered for masking. If OpenTofu fails, the resources that
// exist are kept, so that the next call continues, and the reason is stored with the instance unless OpenTofu was
// killed.
//
// ApplyIntent returns an error if no pak has the service, if a pak cannot be read and the recorded one is not among the
// readable ones, if the template of the intent is neither that of the pak nor that of the instance, or the latter
// cannot be read to compare it, if an expression of a default or of a computed input that the errand evaluates fails,
// such as one that reads a missing value of the errand's configuration, if a secret or a default does not fit its
// input, if OpenTofu fails, or if ctx ends; see provision.Provisioner.Apply for further errors.
func (o *Operator) ApplyIntent(ctx context.Context, intent *Intent) error {
	entry := lifecycle.Entry{
		Identity: lifecycle.Identity{
			Kind: lifecycle.Instance, ID: intent.InstanceID, Service: intent.Service, Plan: intent.Plan,
		},
		AppliedWith: lifecycle.AppliedWith{Pak: intent.Pak, PakVersion: intent.PakVersion, Tofu: intent.Tofu},
		Owner:       intent.Owner,
	}
	return o.session.Audited(ctx, entry, func(func(lifecycle.Entry)) error { return o.applyIntent(ctx, intent) })
}

// applyIntent applies the provision template of the service that intent names, with its inputs and secrets, as
// ApplyIntent describes it, but without an entry in the audit log. See ApplyIntent for the errors.
func (o *Operator) applyIntent(ctx context.Context, intent *Intent) error {
	s := o.session
	for _, item := range intent.Secrets {
		s.Secrets.Add(item)
	}
	s.Secrets.AddValues(intent.Inputs)
	paks, err := s.Catalog.Candidates(intent.Pak, intent.PakVersion, intent.Service)
	if err != nil {
		return err
	}
	named := func(service *brokerpak.Service) bool { return service.Name == intent.Service }
	pak, service := session.FindService(paks, named)
	if service == nil {
		return fmt.Errorf("no pak of `paks` has the service %q, which the manifest is for", intent.Service)
	}
	scope, err := o.inputs(pak, service, intent)
	if err != nil {
		return err
	}
	inputs := scope.Values
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
	provisioner := &provision.Provisioner{
		Manager: o.Manager, UseInstalledTemplate: updates, AllowUpgrade: updates && intent.Tofu == target, Errand: true,
	}
	result, err := provisioner.Apply(ctx, provision.Request{
		Pak: pak, Service: service, Instance: intent.Instance, Owner: intent.Owner, Inputs: inputs,
		Ephemeral: lifecycle.EphemeralInputs(&service.Provision, scope),
		Resolve:   func(map[string]any) (map[string]any, map[string]map[string]any, error) { return inputs, nil, nil },
	})
	if err != nil {
		return err
	}
	s.Secrets.AddValues(result.Outputs, result.Sensitive...)
	return nil
}

// checkTemplate returns an error unless the stored instance was created with the template of the intent. The caller
// must have found that the template of the installed pak, which the error names, is another one. An instance that is
// not stored or whose record is not readable is an error too, and so is a state backend that cannot be read.
func (o *Operator) checkTemplate(ctx context.Context, pak *brokerpak.Pak, intent *Intent) error {
	stored, err := o.Lookup(ctx, lifecycle.Instance, intent.InstanceID)
	if err != nil && !errors.Is(err, lifecycle.ErrNotStored) {
		return err
	}
	if err == nil && stored.Record != nil && brokerpak.Digest(stored.Record.Templates) == intent.Template {
		return nil
	}
	return fmt.Errorf("the manifest was made for the provision template of pak %s %s, and the release of this "+
		"deployment has that of %s %s: upgrade the service instance, so that both are of one version",
		intent.Pak, intent.PakVersion, pak.Manifest.Name, pak.Manifest.Version)
}

// inputs returns a scope with the variables of the provision template of service, a service of pak, for an intent: the
// inputs and the secrets of the intent, and the defaults and computed inputs that depend on the configuration of the
// errand. It returns an error if a secret does not fit the type of its input, if an expression cannot be evaluated, or
// if a default does not meet the constraints of its input.
func (o *Operator) inputs(pak *brokerpak.Pak, service *brokerpak.Service, intent *Intent) (*vars.Scope, error) {
	scope := vars.NewScope(vars.Options{Constants: intent.Constants, Environment: o.session.Values().Environment(pak)})
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
	alreadyResolved := func(input brokerpak.Variable) bool {
		return !slices.Contains(intent.EvaluatedByErrand, input.Name)
	}
	defaults := slices.DeleteFunc(slices.Clone(action.UserInputs), alreadyResolved)
	computed := slices.DeleteFunc(slices.Clone(action.ComputedInputs), alreadyResolved)
	if err := errors.Join(scope.Defaults(defaults), scope.Computed(computed)); err != nil {
		return nil, err
	}
	err := schemas.CheckValues(defaults, scope.Values,
		func(name string) string { return fmt.Sprintf("the default of input %q", name) })
	return scope, err
}
