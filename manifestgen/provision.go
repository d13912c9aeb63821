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

// applyTemplate applies the provision template by calling Generator.Provision, and returns new decisions that include
// the template's outputs; d is not changed. ctx is passed to Provision. While the broker checks for pending changes,
// Provision is called with check set, so it changes no resources, and the outputs are read from the record of the
// deployed manifest. Warnings may be logged a second time (see checkBeforeApply and decide).
//
// If it applies the template, Provision passes values of inputs back in two cases: if the template imports existing
// resources, and if an errand built the instance before, so that only the OpenTofu state has the values of some inputs
// (see unavailableInputs). The variables are then resolved and all decisions are taken a second time, with these values
// as imported ones; see resolve.
//
// If checkBeforeApply rejects the request, applyTemplate returns its error and does not call Provision. Otherwise it
// returns the error of Provision unchanged. If decide fails the second time, Provision fails with its error. If a
// sensitive output cannot become a secret, applyTemplate returns another error, and the resources of the template
// remain. The decisions are nil if there is an error.
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

// recordedOutputs returns the outputs in the record of the deployed manifest, in the form of a result of OpenTofu.
// Null and sensitive outputs are absent from Outputs, because the record does not contain them; Sensitive contains
// the names of the sensitive ones, whose values are secrets of the manifest. The map and the list are those of the
// record, so callers must not change them. If the record has no outputs, as on create, the result is empty, never
// nil. previous must not be nil, not even on create.
func recordedOutputs(previous *deployedInstance) *provision.Result {
	template := previous.record.Template
	if template == nil {
		return &provision.Result{}
	}
	return &provision.Result{Outputs: template.Outputs, Sensitive: template.Sensitive}
}

// withOutputs returns a copy of the decisions that includes the outputs in result, which must not be nil. Expressions
// can then read the outputs that are neither sensitive nor null as instance.details, the manifest template can refer to
// them, and the record will contain them. Neither d nor result is changed.
//
// Each sensitive output becomes a secret with the name of the output. While the broker checks for pending changes, the
// secret keeps its deployed value, so result need not contain that value. Otherwise, if the broker did not send the
// stored value for a comparison, result.Changed decides whether the value counts as a new one.
//
// withOutputs returns nil and an error if a sensitive output cannot become a secret: because the operator has not
// configured whether the broker stores secrets, because another secret has its name, because its entry in another
// adapter's manifest cannot be carried over, or because the manifest would contain its value literally and BOSH would
// take it for a reference.
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

// checkBeforeApply returns an error if the request must fail for every result of the provision template. It runs before
// OpenTofu, because resources that were created for a failing request would have to be destroyed again. It returns an
// error if the template uses an input that is the value of a secret. If the instance has no recorded outputs, it also
// returns an error if one of the outputs that the template declares sensitive cannot become a secret (see
// checkSensitive). Unless the broker checks for pending changes, it finally returns the error of checkWithoutOutputs,
// which may log warnings. If all checks succeed, it returns nil.
func checkBeforeApply(d *decisions) error {
	for _, secret := range d.definedSecrets {
		if d.usedByTemplate(secret.Input) { // later requests would lack the value, which is only in CredHub
			return fmt.Errorf("%s: input %q is the value of secret %q, so the provision template cannot use var.%s: "+
				"later requests cannot read it", secret.Pos, secret.Input, secret.Name, secret.Input)
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

// SensitiveOutputs returns the sorted names of the outputs that a service's provision template declares sensitive.
// Generate turns them into secrets of the manifest, unless an errand applies the template. Syntax errors are ignored:
// the result then contains the outputs in the parts that could be read. It is empty if there are none or the service
// has no template. service must not be nil.
func SensitiveOutputs(service *brokerpak.Service) []string {
	module, _ := hclfile.Inspect(service.Provision.Templates) // OpenTofu reports errors in the template
	return module.SensitiveOutputs
}

// checkSensitive returns an error if one of the outputs, which are names of sensitive outputs, cannot become a secret:
// because the operator has not configured whether the broker stores secrets, or because a secret in d has the same
// name. It returns nil if all of them can, and if outputs is empty.
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

// checkWithoutOutputs renders the parts of the manifest that do not depend on the outputs of the provision template,
// discards the result, and returns the first error: in the versions of releases, the stemcells, the values of variables
// or the instance groups. The error may be a *fault.UserError. If the ops files cannot be selected or the template
// cannot be interpolated without the outputs, or if the list of instance groups needs an output, checkWithoutOutputs
// returns nil; such errors are reported when the manifest itself is rendered. Warnings of instanceGroups are logged,
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

// independentOfOutputs reports whether a list of instance groups or jobs, after interpolation without the outputs of
// the template, is complete: every entry is a mapping, its name contains no unresolved ((variable)), and its list of
// jobs is complete as well. An entry may lack the name and the list of jobs. A nil list counts as complete; any other
// value that is not a list does not.
func independentOfOutputs(list any) bool {
	items, ok := list.([]any)
	return (ok || list == nil) && !slices.ContainsFunc(items, func(item any) bool {
		entry, ok := item.(map[string]any)
		return !ok || vars.HasReference(entry["name"]) || !independentOfOutputs(entry["jobs"])
	})
}

// outputReferences returns the references of the sensitive outputs, such as "((odb_secret:NAME))", by the names of the
// outputs, for the manifest's key record.OutputsKey. The manifest lists them because the broker stores and resolves
// only secrets that the manifest refers to. Outputs whose values the manifest contains literally are left out. The map
// is never nil; it is empty if there are no such outputs or d contains no result of a template.
func outputReferences(d *decisions) map[string]any {
	references := map[string]any{}
	for _, name := range cmp.Or(d.template, &record.Template{}).Sensitive {
		if reference := d.secrets[name].reference; reference != "" {
			references[name] = reference
		}
	}
	return references
}
