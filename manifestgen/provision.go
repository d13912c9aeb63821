package manifestgen

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/provision"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// applyTemplate applies the provision template and returns new decisions with the template's outputs; d is not changed.
// If the template imports existing resources, their values count as parameters, so the variables are resolved and all
// decisions are made again. While the broker checks for pending changes, OpenTofu does not run, and the outputs are
// read from the record of the deployed manifest.
//
// It returns an error before OpenTofu runs if the manifest cannot be rendered whatever the outputs are. After that, it
// returns the error of Generator.Provision. If a sensitive output cannot become a secret, it returns another error, and
// the resources of the template remain.
func applyTemplate(ctx context.Context, d *decisions) (*decisions, error) {
	if err := checkBeforeApply(d); err != nil {
		return nil, err
	}
	applied := d
	decideAgain := func(imported map[string]any) (map[string]any, map[string]map[string]any, error) {
		again, err := decide(d.inputs, imported)
		if err != nil {
			return nil, nil, err
		}
		applied = again
		return again.scope.Values, again.scope.Generated, nil
	}
	result, err := d.Provision(ctx, provision.Request{
		Pak: d.Pak, Service: d.Service, Instance: d.instance(), Owner: d.received.Owner,
		Inputs: d.scope.Values, Generated: d.scope.Generated, Resolve: decideAgain,
		Ephemeral: lifecycle.EphemeralInputs(&d.Service.Provision, d.scope),
		MustExist: d.previous.hasOutputs(), KeepRecorded: unavailableInputs(d.resolution),
	}, d.pendingCheck())
	if err != nil {
		return nil, err
	}
	if d.pendingCheck() {
		result = recordedOutputs(d.previous)
	}
	return applied.withOutputs(result)
}

// recordedOutputs returns the outputs in the record of the deployed manifest. The result is empty, never nil, if the
// record has none. Null and sensitive outputs are absent from Outputs; Sensitive contains the names of the sensitive
// ones. Their values are secrets of the manifest, which the check for pending changes leaves unchanged.
func recordedOutputs(previous *deployedInstance) *provision.Result {
	template := previous.record.Template
	if template == nil {
		return &provision.Result{}
	}
	return &provision.Result{Outputs: template.Outputs, Sensitive: template.Sensitive}
}

// withOutputs returns a copy of the decisions that includes the outputs of the template. Expressions and the manifest
// template can then read the outputs that are neither sensitive nor null, and the record will contain them. Each
// sensitive output becomes a secret with the name of the output. The result of the template is not changed. withOutputs
// returns an error if a sensitive output cannot become a secret; see checkSensitive and decideSecrets.
func (d *decisions) withOutputs(result *provision.Result) (*decisions, error) {
	open := value.Merge(result.Outputs)
	maps.DeleteFunc(open, func(name string, item any) bool {
		return item == nil || slices.Contains(result.Sensitive, name)
	})
	sensitive := slices.Sorted(slices.Values(result.Sensitive))
	if err := checkSensitive(d, sensitive); err != nil {
		return nil, err
	}
	secrets := value.Convert(sensitive, func(name string) brokerpak.Secret { return brokerpak.Secret{Name: name} })
	propose := func(secret brokerpak.Secret, _ record.Secret) (candidate, error) {
		return candidate{item: result.Outputs[secret.Name], available: true, changed: result.Changed}, nil
	}
	decided, err := decideSecrets(d.inputs, secrets, propose)
	if err != nil {
		return nil, err
	}
	resolved := *d.resolution
	resolved.scope = d.scope.With(map[string]any{brokerpak.InstanceDetails: open}, nil)
	provisioned := *d
	provisioned.resolution = &resolved
	provisioned.secrets = value.Merge(decided, d.secrets)
	provisioned.template = &record.Template{Outputs: open, Sensitive: sensitive}
	return &provisioned, nil
}

// checkBeforeApply returns an error if the request must fail whatever the outputs of the template will be: because the
// template uses an input that is the value of a secret, or because checkSensitive or checkWithoutOutputs returns one.
// The former is not called if the instance has recorded outputs, and the latter not while the broker checks for pending
// changes. The check runs before OpenTofu does, because resources that were created for a failing request would have to
// be destroyed again.
func checkBeforeApply(d *decisions) error {
	for _, secret := range d.definedSecrets {
		if d.usedByTemplate(secret.Input) { // later requests would lack the value, which is only in CredHub
			return fmt.Errorf("%s: input %q is the value of secret %q, so the provision template cannot use var.%s: "+
				"later requests do not know it", secret.Pos, secret.Input, secret.Name, secret.Input)
		}
	}
	if !d.previous.hasOutputs() { // otherwise the instance may keep an older template
		if err := checkSensitive(d, d.module.SensitiveOutputs); err != nil {
			return err
		}
	}
	if d.pendingCheck() {
		return nil
	}
	return checkWithoutOutputs(d)
}

// SensitiveOutputs returns the sorted names of the outputs of a service's provision template that are declared
// sensitive. Generate turns them into secrets of the manifest. A template that cannot be parsed has none, and so has a
// service without a template.
func SensitiveOutputs(service *brokerpak.Service) []string {
	module, _ := hclfile.Inspect(service.Provision.Templates) // OpenTofu reports errors in the template
	return module.SensitiveOutputs
}

// checkSensitive returns an error if one of the sensitive outputs, whose names are the parameter, cannot become a
// secret: because the operator has not configured whether the broker stores secrets, or because one of the existing
// secrets has the same name. Without outputs it returns nil.
func checkSensitive(d *decisions, outputs []string) error {
	for _, name := range outputs {
		if err := d.requireSecretsSetting(fmt.Sprintf("service %q has sensitive outputs", d.Service.Name)); err != nil {
			return err
		}
		if _, exists := d.secrets[name]; exists {
			return fmt.Errorf("service %q: the sensitive output %q of the provision template "+
				"has the name of a secret; rename one of them", d.Service.Name, name)
		}
	}
	return nil
}

// checkWithoutOutputs renders the parts of the manifest that do not depend on the outputs of the template, and returns
// the first error: in the releases, the stemcells, the variables or the instance groups. Parts that need an output are
// skipped; errors in them are reported when the manifest itself is rendered. Warnings of instanceGroups are logged,
// here and again when the manifest is rendered.
func checkWithoutOutputs(d *decisions) error {
	if _, err := releases(nil, d.Deployment.Releases); err != nil {
		return err
	}
	_, alias, err := stemcells(nil, nil, d.Deployment.Stemcells, d.previous)
	if err != nil {
		return err
	}
	variables, err := templateVariables(d)
	if err != nil {
		return err
	}
	ops, err := selectOps(d.bosh.Ops, d.scope, false)
	if err != nil {
		return nil //nolint:nilerr // the condition may read an output
	}
	result, err := interpolate(d.bosh.Manifest, ops, variables)
	if err != nil {
		return nil //nolint:nilerr // a key may need an output
	}
	groups := result.tree["instance_groups"]
	if !independentOfOutputs(groups) {
		return nil
	}
	_, err = instanceGroups(d, groups, alias)
	return err
}

// independentOfOutputs reports whether a list of instance groups or jobs is complete before the outputs of the template
// exist: every entry is a mapping whose name contains no variable, at every level. A missing list counts as complete.
func independentOfOutputs(list any) bool {
	items, ok := list.([]any)
	return (ok || list == nil) && !slices.ContainsFunc(items, func(item any) bool {
		entry, ok := item.(map[string]any)
		return !ok || vars.HasReference(entry["name"]) || !independentOfOutputs(entry["jobs"])
	})
}

// outputReferences returns the references of the sensitive outputs by name, for the manifest's key record.OutputsKey.
// They are listed there because the broker stores and resolves only secrets that the manifest refers to. Outputs whose
// values the manifest contains literally are left out. The map is never nil; without a template it is empty.
func outputReferences(d *decisions) map[string]any {
	references := map[string]any{}
	for _, name := range cmp.Or(d.template, &record.Template{}).Sensitive {
		if reference := d.secrets[name].reference; reference != "" {
			references[name] = reference
		}
	}
	return references
}
