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

// An Intent is the input of the errand apply-instance: the desired state of one service instance, and the values of its
// secret inputs by the names of the inputs. ReadIntent returns one. The embedded Intent must not be nil; Secrets may be
// nil or empty.
type Intent struct {
	*record.Intent
	Secrets map[string]any
}

// ReadIntent decodes the content of the file that the job apply-instance renders: a JSON object with "intent", the
// desired state as a text that record.Intent.Encode returned, and the mapping "secrets" from the names of inputs to
// values. Without secrets, Secrets is an empty map. ReadIntent returns nil and an error if the text does not have this
// form, or if the intent is invalid, has an unsupported format, or names no instance or service. Errors contain no
// secrets; they may contain parts of the intent, which has none.
func ReadIntent(text []byte) (*Intent, error) {
	var file struct {
		Intent  string         `json:"intent"`
		Secrets map[string]any `json:"secrets"`
	}
	if err := value.Decode(text, &file); err != nil {
		// err may contain secrets
		return nil, errors.New("reading the intent: " +
			"it is not a JSON object with the text \"intent\" and the map \"secrets\"")
	}
	intent, err := record.DecodeIntent(file.Intent)
	if err != nil {
		return nil, err
	}
	secrets, _ := value.Normalise(file.Secrets).(map[string]any)
	return &Intent{Intent: intent, Secrets: secrets}, nil
}

// ApplyIntent brings a service instance to the desired state in intent, which must not be nil. It applies only if
// something changes or the last apply was not finished. The template is that of the installed pak if the intent names
// it by its digest, or if no apply of the instance was ever complete; otherwise the instance keeps the template of
// its last complete apply. ApplyIntent writes events to the audit log. It registers for masking the secrets of the
// intent, the sensitive outputs of the template, and the parts of the other inputs and outputs that look like
// secrets. If the apply fails, the resources that exist are kept, so that the next call continues. The reason is
// stored with the instance if possible, but not after OpenTofu was killed or ctx was canceled.
//
// ApplyIntent returns an error in these cases; see provision.Provisioner.Apply for the types of errors:
//   - No pak has the service, the pak has no OpenTofu, or a pak cannot be read and the one that the intent names is
//     not among the readable ones.
//   - The intent names another template than that of the pak, and the record of the stored instance is missing,
//     cannot be read, or contains a third template.
//   - The expression of a default or a computed input fails, or a secret or a default does not fit its input.
//   - The workspace or its state cannot be read, or the deletion of the instance was begun.
//   - An apply of the instance was complete once, a change is due, and an older OpenTofu wrote the state, unless the
//     intent names both the template and the OpenTofu version of the pak.
//   - OpenTofu fails, or ctx or the time limit of errands ends.
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

// applyIntent applies the provision template of the service in intent with its inputs and secrets, as ApplyIntent does,
// but without events in the audit log. It registers the same values for masking. It returns an error if the pak, its
// OpenTofu or the service is not available, if the intent names a template that is neither that of the pak nor that of
// the stored instance, if an input cannot be evaluated or does not fit, if the state cannot be read, or if OpenTofu
// fails; see ApplyIntent.
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

// checkTemplate returns nil if the record of the stored instance of intent contains the provision template that the
// intent names by its digest. Otherwise, and if the instance is not stored or its record is not readable, it returns an
// error that advises to upgrade the instance. It returns another error if the state backend cannot be read or the state
// is locked. pak is the installed pak, whose template is a different one; its name and version are used only in the
// error.
func (o *Operator) checkTemplate(ctx context.Context, pak *brokerpak.Pak, intent *Intent) error {
	stored, err := o.Lookup(ctx, lifecycle.Instance, intent.InstanceID)
	if err != nil && !errors.Is(err, lifecycle.ErrNotStored) {
		return err
	}
	if err == nil && stored.Record != nil && brokerpak.Digest(stored.Record.Templates) == intent.Template {
		return nil
	}
	return fmt.Errorf("the manifest was generated for the provision template of pak %s %s, but the release of this "+
		"deployment contains pak %s %s: upgrade the service instance, so that both have the same version",
		intent.Pak, intent.PakVersion, pak.Manifest.Name, pak.Manifest.Version)
}

// inputs returns a new scope with the variables of the provision template of service, a service of pak, for an intent:
// the inputs of the intent, its secrets converted to the types of their inputs, and the defaults and computed inputs
// that the intent leaves to the errand. A secret replaces an input of the intent with the same name, and is not
// converted if the service does not declare the input. The defaults and computed inputs can read the configuration of
// the errand. inputs returns an error if a secret does not fit the type of its input, if an expression cannot be
// evaluated, or if a default does not meet the constraints of its input; the scope must not be used then.
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
