package manifestgen

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/provision"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// provisionOnly is the manifest of a service that has no provision.bosh section: an empty deployment, in which the broker keeps the
// record.
func provisionOnly(service *brokerpak.Service) *brokerpak.Bosh {
	return &brokerpak.Bosh{Manifest: brokerpak.Document{Text: "instance_groups: []\n", Pos: diag.Pos{File: service.File}}}
}

// hasTemplate tells whether OpenTofu has anything to do for an instance of the service.
func hasTemplate(service *brokerpak.Service) bool { return len(service.Provision.Templates) > 0 }

// applyTemplate applies the provision template and makes its outputs known to expressions and to the manifest template. An import may find
// values that change what was prepared.
func applyTemplate(ctx context.Context, in *input, p *prepared) (*prepared, error) {
	if !hasTemplate(in.Service) {
		return p, nil
	}
	if err := checkBefore(in, p); err != nil {
		return nil, err
	}
	result, err := in.Provision(ctx, provision.Request{
		Pak: in.Pak, Service: in.Service, Instance: in.instance(p), Owner: p.record.Owner, Inputs: p.scope.Values, Generated: p.scope.Generated,
		Known: in.before.remembers(), Forgotten: forgotten(in, p),
		Resolve: func(found map[string]any) (map[string]any, map[string]map[string]any, error) {
			again, err := prepare(in, found)
			if err != nil {
				return nil, nil, err
			}
			p = again
			return p.scope.Values, p.scope.Generated, nil
		},
	}, in.pendingCheck())
	if err != nil {
		return nil, err
	}
	if in.pendingCheck() { // the outputs are those that the deployed manifest keeps; sensitive ones stay where they are
		kept := cmp.Or(in.before.record.Template, &record.Template{})
		result = &provision.Result{Outputs: kept.Outputs, Sensitive: kept.Sensitive}
	}
	return withOutputs(in, p, result)
}

// withOutputs adds what a template gave. Each sensitive output becomes a secret of the output's name.
func withOutputs(in *input, p *prepared, result *provision.Result) (*prepared, error) {
	open := value.Merge(result.Outputs)
	maps.DeleteFunc(open, func(name string, item any) bool { return item == nil || slices.Contains(result.Sensitive, name) })
	sensitive := slices.Sorted(slices.Values(result.Sensitive))
	if err := checkSensitive(in, p.secrets, sensitive); err != nil {
		return nil, err
	}
	var secrets []brokerpak.Secret
	for _, name := range sensitive {
		secrets = append(secrets, brokerpak.Secret{Name: name})
	}
	decided, err := decideSecrets(in, secrets, func(secret brokerpak.Secret, _ record.Secret) (candidate, error) {
		return candidate{item: result.Outputs[secret.Name], known: true, changed: result.Changed}, nil
	})
	if err != nil {
		return nil, err
	}
	provisioned := *p
	provisioned.secrets = value.Merge(decided, p.secrets)
	provisioned.record.Template = &record.Template{Outputs: open, Sensitive: sensitive}
	provisioned.scope = p.scope.With(map[string]any{brokerpak.InstanceDetails: open}, nil)
	return &provisioned, nil
}

// checkBefore finds what is wrong whatever the template's outputs will be: what was applied before a request fails has to be undone.
func checkBefore(in *input, p *prepared) error {
	for _, secret := range in.bosh.Secrets {
		if in.usedByTemplate(secret.Input) { // only CredHub has the value when the next request comes
			return fmt.Errorf("%s: input %q is the value of secret %q, so the provision template cannot use var.%s: later requests do not know it",
				secret.Pos, secret.Input, secret.Name, secret.Input)
		}
	}
	if !in.before.remembers() { // else the instance may have an older template, and keep it
		if err := checkSensitive(in, p.secrets, in.module.SensitiveOutputs); err != nil {
			return err
		}
	}
	if in.pendingCheck() {
		return nil
	}
	return rehearse(in, p)
}

// SensitiveOutputs names the outputs of a service's provision template that become secrets, sorted.
func SensitiveOutputs(service *brokerpak.Service) []string {
	module, _ := hclfile.Inspect(service.Provision.Templates) // OpenTofu reports what is wrong with it
	return module.SensitiveOutputs
}

// checkSensitive refuses sensitive outputs that cannot become secrets besides those of the definition.
func checkSensitive(in *input, secrets decisions, outputs []string) error {
	for _, name := range outputs {
		if err := in.secretsAllowed(fmt.Sprintf("service %q has sensitive outputs", in.Service.Name)); err != nil {
			return err
		}
		if _, taken := secrets[name]; taken {
			return fmt.Errorf("service %q: the sensitive output %q of the provision template has the name of a secret; rename one of them",
				in.Service.Name, name)
		}
	}
	return nil
}

// rehearse completes the manifest without the outputs, as far as they do not matter. What cannot be rendered without them is left to
// the manifest itself.
func rehearse(in *input, p *prepared) error {
	if _, err := releases(nil, in.Deployment.Releases); err != nil {
		return err
	}
	_, alias, err := stemcells(nil, nil, in.Deployment.Stemcells, in.before)
	if err != nil {
		return err
	}
	variables, err := templateVariables(in, p)
	if err != nil {
		return err
	}
	ops, err := selectOps(in.bosh.Ops, p.scope, false)
	if err != nil {
		return nil //nolint:nilerr // its condition may read an output
	}
	result, err := interpolate(in.bosh.Manifest, ops, variables)
	if err != nil {
		return nil //nolint:nilerr // a key may need an output
	}
	groups := result.tree["instance_groups"]
	if !isPlain(groups) {
		return nil
	}
	_, err = instanceGroups(in, groups, alias)
	return err
}

// isPlain tells whether a list of groups or of jobs, which may be missing, and the names in it are there without any output.
func isPlain(list any) bool {
	items, ok := list.([]any)
	return (ok || list == nil) && !slices.ContainsFunc(items, func(item any) bool {
		entry, ok := item.(map[string]any)
		return !ok || vars.HasReference(entry["name"]) || !isPlain(entry["jobs"])
	})
}

// outputReferences is what the manifest holds under record.OutputsKey: the broker stores and resolves secrets only that the
// manifest refers to.
func outputReferences(p *prepared) map[string]any {
	references := map[string]any{}
	for _, name := range cmp.Or(p.record.Template, &record.Template{}).Sensitive {
		if reference := p.secrets[name].reference; reference != "" {
			references[name] = reference
		}
	}
	return references
}
