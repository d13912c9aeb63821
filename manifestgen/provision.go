package manifestgen

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// Provisioning is a call of a service's provision template.
type Provisioning struct {
	*Request
	InstanceID string
	PlanID     string
	// Inputs are the resolved variables, Generated the generated values among them: input → call → value.
	Inputs    map[string]any
	Generated map[string]map[string]any
	// Resolve computes both again with values of user inputs that an import found: they count as parameters of earlier requests. The
	// error is that of a request with such parameters.
	Resolve func(found map[string]any) (inputs map[string]any, generated map[string]map[string]any, err error)
	// Remembered says that the previous manifest has outputs of the template.
	Remembered bool
	// Check asks to change nothing, because the broker only compares: the outputs are those that the manifest remembers.
	Check bool
}

// Provisioned is what a provision template gave.
type Provisioned struct {
	// Outputs are the values of its outputs; nil after a check.
	Outputs map[string]any
	// Sensitive names the outputs that the template declares sensitive.
	Sensitive []string
	// Changed says that OpenTofu ran, so that outputs may have other values than before.
	Changed bool
}

// detailsConstant is the published name of an instance's outputs.
const detailsConstant = "instance.details"

// provisionOnly is the manifest of a service that has no provision.bosh section: an empty deployment, in which the broker keeps the
// record.
func provisionOnly(service *brokerpak.Service) *brokerpak.Bosh {
	return &brokerpak.Bosh{Manifest: brokerpak.Document{Text: "instance_groups: []\n", Pos: diag.Pos{File: service.File}}}
}

// hasTemplate tells whether OpenTofu has anything to do for an instance of the service.
func hasTemplate(service *brokerpak.Service) bool { return len(service.Provision.Templates) > 0 }

// provision applies the provision template and makes its outputs known to expressions and to the manifest template.
func (w *generation) provision(ctx context.Context) error {
	if !hasTemplate(w.Service) {
		return nil
	}
	if err := w.checkBefore(); err != nil {
		return err
	}
	result, err := w.Provision(ctx, Provisioning{
		Request: &w.Request, InstanceID: instance.ID(w.Deployment.DeploymentName), PlanID: w.record.PlanID,
		Inputs: w.scope.Values, Generated: w.scope.Generated, Check: w.pendingCheck(),
		Remembered: w.remembers(), Resolve: w.resolveFound,
	})
	if err != nil {
		return err
	}
	if w.pendingCheck() {
		result = remembered(w.previous)
	}
	w.provisioned = result
	w.record.Template = &record.Template{Sensitive: slices.Sorted(slices.Values(result.Sensitive))}
	open := map[string]any{}
	for name, item := range result.Outputs {
		if item != nil && !slices.Contains(result.Sensitive, name) {
			open[name] = item
		}
	}
	if len(open) > 0 {
		w.record.Template.Outputs = open
	}
	w.scope = w.scope.With(map[string]any{detailsConstant: open}, nil)
	return w.resolveOutputSecrets()
}

// resolveFound resolves everything again with values that an import found.
func (w *generation) resolveFound(found map[string]any) (map[string]any, map[string]map[string]any, error) {
	w.found = found
	if err := w.resolve(); err != nil {
		return nil, nil, err
	}
	if err := w.secretsAndRules(); err != nil {
		return nil, nil, err
	}
	return w.scope.Values, w.scope.Generated, nil
}

// remembers tells whether the previous manifest has outputs of the template.
func (w *generation) remembers() bool { return w.previous != nil && w.previous.Template != nil }

// checkBefore finds what is wrong whatever the template's outputs will be: what was applied before a request fails has to be undone.
func (w *generation) checkBefore() error {
	if err := w.checkTemplateInputs(); err != nil {
		return err
	}
	if !w.remembers() { // else the instance may have an older template, and keep it
		if err := w.checkSensitive(SensitiveOutputs(w.Service)); err != nil {
			return err
		}
	}
	if w.pendingCheck() {
		return nil
	}
	return w.rehearse()
}

// checkTemplateInputs refuses a template that uses the value of a secret: only CredHub has it when the next request comes.
func (w *generation) checkTemplateInputs() error {
	var module *hclfile.Module
	for _, secret := range w.bosh.Secrets {
		if secret.Input == "" {
			continue
		}
		if module == nil {
			module, _ = hclfile.Inspect(w.Service.Provision.Templates) // OpenTofu reports what is wrong with it
		}
		_, declared := module.Variables[secret.Input]
		_, used := module.Undeclared[secret.Input]
		if declared || used {
			return fmt.Errorf("%s: input %q is the value of secret %q, so the provision template cannot use var.%s: later requests do not know it",
				secret.Pos, secret.Input, secret.Name, secret.Input)
		}
	}
	return nil
}

// SensitiveOutputs names the outputs of a service's provision template that become secrets, sorted.
func SensitiveOutputs(service *brokerpak.Service) []string {
	module, _ := hclfile.Inspect(service.Provision.Templates) // OpenTofu reports what is wrong with it
	return module.SensitiveOutputs
}

// checkSensitive refuses sensitive outputs that cannot become secrets.
func (w *generation) checkSensitive(outputs []string) error {
	for _, name := range outputs {
		if w.Secure == nil {
			return fmt.Errorf("service %q has sensitive outputs: set secure_manifests in the adapter's configuration to what the broker's "+
				"enable_secure_manifests says", w.Service.Name)
		}
		if _, taken := w.secrets[name]; taken {
			return fmt.Errorf("service %q: the sensitive output %q of the provision template has the name of a secret; rename one of them",
				w.Service.Name, name)
		}
	}
	return nil
}

// rehearse completes the manifest without the outputs, as far as they do not matter. What cannot be rendered without them is left to
// the manifest itself.
func (w *generation) rehearse() error {
	if _, err := w.releases(nil); err != nil {
		return err
	}
	_, alias, err := w.stemcells(nil, nil)
	if err != nil {
		return err
	}
	rehearsal := *w
	if rehearsal.variables, err = w.templateVariables(); err != nil {
		return err
	}
	ops, err := rehearsal.selectOps(false)
	if err != nil {
		return nil //nolint:nilerr // its condition may read an output
	}
	result, err := rehearsal.renderDocument(w.bosh.Manifest, ops)
	if err != nil {
		return nil //nolint:nilerr // a key may need an output
	}
	groups := result.tree["instance_groups"]
	if !isPlain(groups) {
		return nil
	}
	_, err = rehearsal.instanceGroups(groups, alias)
	return err
}

// isPlain tells whether the groups, their jobs, and the names of both are there without any output.
func isPlain(groups any) bool {
	return named(groups, func(group map[string]any) bool {
		return named(group["jobs"], func(map[string]any) bool { return true })
	})
}

// named tells whether a list, which may be missing, has only mappings with plain names that are as they should be.
func named(list any, good func(entry map[string]any) bool) bool {
	items, ok := list.([]any)
	return (ok || list == nil) && !slices.ContainsFunc(items, func(item any) bool {
		entry, ok := item.(map[string]any)
		return !ok || hasReference(entry["name"]) || !good(entry)
	})
}

func hasReference(item any) bool { return strings.Contains(value.Text(item), "((") }

// remembered are the outputs that the deployed manifest keeps. Sensitive ones stay where they are.
func remembered(previous *record.Record) *Provisioned {
	if previous == nil || previous.Template == nil {
		return &Provisioned{}
	}
	return &Provisioned{Outputs: previous.Template.Outputs, Sensitive: previous.Template.Sensitive}
}

// resolveOutputSecrets makes a secret of each sensitive output. It has the output's name.
func (w *generation) resolveOutputSecrets() error {
	if err := w.checkSensitive(w.record.Template.Sensitive); err != nil {
		return err
	}
	var secrets []brokerpak.Secret
	for _, name := range w.record.Template.Sensitive {
		secrets = append(secrets, brokerpak.Secret{Name: name})
	}
	return w.resolveSecrets(secrets)
}

// outputCandidate is the value of a sensitive output; ok is false for other secrets.
func (w *generation) outputCandidate(secret brokerpak.Secret) (candidate, bool) {
	if w.provisioned == nil || !slices.Contains(w.provisioned.Sensitive, secret.Name) {
		return candidate{}, false
	}
	return candidate{item: w.provisioned.Outputs[secret.Name], known: true, changed: w.provisioned.Changed}, true
}

// outputVariables are the outputs as variables of the manifest template. Inputs of the same name win.
func (w *generation) outputVariables(values map[string]any) error {
	if w.provisioned == nil {
		return nil
	}
	for _, output := range w.Service.Provision.Outputs {
		if _, input := values[output.Name]; !input {
			values[output.Name] = nil
		}
	}
	for name, item := range w.record.Template.Outputs {
		if values[name] != nil {
			continue
		}
		// What a provider answers may hold what a user sent.
		if err := checkReserved(name, item, true); err != nil {
			return err
		}
		values[name] = masked(item, true)
	}
	return nil
}

// outputReferences is what the manifest holds under record.OutputsKey: the broker stores and resolves secrets only that the
// manifest refers to.
func (w *generation) outputReferences() map[string]any {
	if w.provisioned == nil {
		return nil
	}
	references := map[string]any{}
	for _, name := range w.provisioned.Sensitive {
		if reference := w.secrets[name].reference; reference != "" {
			references[name] = reference
		}
	}
	return references
}
