package manifestgen

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// render makes the texts of the result.
func render(in *input, p *prepared, variables variables) (*serviceadapter.MarshalledGenerateManifest, error) {
	manifest, err := renderManifest(in, p, variables)
	if err != nil {
		return nil, err
	}
	configs, err := renderConfigs(in, p, variables)
	if err != nil {
		return nil, err
	}
	labels, err := renderLabels(in.bosh.Labels, p.scope)
	if err != nil {
		return nil, err
	}
	if outputs := outputReferences(p); len(outputs) > 0 {
		manifest[record.OutputsKey] = outputs
	}
	if err := configureErrands(in, p, manifest); err != nil {
		return nil, err
	}
	used := references(manifest)
	remembered, err := finishRecord(in, p, used)
	if err != nil {
		return nil, err
	}
	manifest[record.Key] = remembered.Encode()
	text, err := encodeManifest(manifest)
	if err != nil {
		return nil, err
	}
	if text != in.before.text { // what is deployed was checked, and BOSH has taken it
		if err := check(in.CheckManifest, manifest, text); err != nil {
			return nil, fmt.Errorf("checking the manifest of service %q: %w", in.Service.Name, err)
		}
	}
	return &serviceadapter.MarshalledGenerateManifest{Manifest: text, ODBManagedSecrets: p.secrets.returned(used), Configs: configs, Labels: labels}, nil
}

// renderManifest interpolates the service's template, completes it, and checks its references.
func renderManifest(in *input, p *prepared, variables variables) (map[string]any, error) {
	ops, err := selectOps(in.bosh.Ops, p.scope, false)
	if err != nil {
		return nil, err
	}
	result, err := interpolate(in.bosh.Manifest, ops, variables)
	if err != nil {
		return nil, err
	}
	if result.tree, err = complete(in, p.scope, result.tree); err != nil {
		return nil, err
	}
	if ops, err = selectOps(in.bosh.Ops, p.scope, true); err != nil {
		return nil, err
	}
	if result, err = applyCompleted(ops, variables, result); err != nil {
		return nil, err
	}
	return result.tree, checkReferences(in, p.secrets, variables, result, "")
}

// renderConfigs interpolates the BOSH configs whose condition holds.
func renderConfigs(in *input, p *prepared, variables variables) (map[string]string, error) {
	configs := map[string]string{}
	for _, kind := range value.Keys(in.bosh.Configs) {
		config := in.bosh.Configs[kind]
		applies, err := p.scope.Holds("configs."+kind, config.If)
		if err != nil {
			return nil, fmt.Errorf("evaluating the condition of the %s config: %w", kind, err)
		}
		if !applies {
			continue
		}
		result, err := interpolate(config.Document, nil, variables)
		if err != nil {
			return nil, err
		}
		if err := checkReferences(in, p.secrets, variables, result, kind); err != nil {
			return nil, err
		}
		if configs[kind], err = encodeManifest(result.tree); err != nil {
			return nil, err
		}
	}
	if len(configs) == 0 {
		return nil, nil
	}
	if in.NoConfigs && !in.pendingCheck() {
		return nil, &fault.UserError{
			Message: fmt.Sprintf("the service instance needs a BOSH config (%s), and the operator has turned BOSH configs off", strings.Join(value.Keys(configs), ", ")),
			Err:     errors.New("the configuration has disable_bosh_configs, as the broker does"),
		}
	}
	return configs, nil
}

// renderLabels evaluates the instance's metadata labels.
func renderLabels(templates map[string]*expr.Template, scope *vars.Scope) (map[string]any, error) {
	if len(templates) == 0 {
		return nil, nil
	}
	labels := map[string]any{}
	for _, name := range value.Keys(templates) {
		text, err := scope.Text("labels."+name, templates[name])
		if err != nil {
			return nil, fmt.Errorf("evaluating label %q: %w", name, err)
		}
		labels[name] = text
	}
	return labels, nil
}
