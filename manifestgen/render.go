package manifestgen

import (
	"errors"
	"fmt"
	"strings"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/fault"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// manifest is the third stage: everything in the response to the broker but the record. Only render returns manifests.
type manifest struct {
	// tree is the manifest without the record.
	tree map[string]any
	// references are all references in the tree, with their parentheses.
	references []string
	// configs are the BOSH configs as YAML, by type, and labels the metadata labels of the instance. Both are nil if
	// there are none.
	configs map[string]string
	labels  map[string]any
}

// render returns the manifest, the BOSH configs and the labels. It returns an error if an expression or an operation
// fails, if a reference cannot be resolved, if the template does not fit the deployment or the plan, or if the broker
// rejects BOSH configs. See complete, checkReferences and renderConfigs for the types of the errors.
func render(d *decisions) (*manifest, error) {
	variables, err := templateVariables(d)
	if err != nil {
		return nil, err
	}
	tree, err := renderManifest(d, variables)
	if err != nil {
		return nil, err
	}
	configs, err := renderConfigs(d, variables)
	if err != nil {
		return nil, err
	}
	labels, err := renderLabels(d.bosh.Labels, d.scope)
	if err != nil {
		return nil, err
	}
	if outputs := outputReferences(d); len(outputs) > 0 {
		tree[record.OutputsKey] = outputs
	}
	configureErrands(d, tree)
	return &manifest{tree: tree, references: references(tree), configs: configs, labels: labels}, nil
}

// renderManifest returns the manifest as a tree, without the record and the properties of errands. It applies the ops
// files whose condition holds, interpolates the variables, completes the result with the broker's values, and applies
// the ops files for the completed manifest. It returns an error if any of these steps fails or if a reference in the
// result cannot be resolved; see complete and checkReferences for the types. It may log warnings; see instanceGroups.
func renderManifest(d *decisions, variables variables) (map[string]any, error) {
	ops, err := selectOps(d.bosh.Ops, d.scope, false)
	if err != nil {
		return nil, err
	}
	result, err := interpolate(d.bosh.Manifest, ops, variables)
	if err != nil {
		return nil, err
	}
	if result.tree, err = complete(d, result.tree); err != nil {
		return nil, err
	}
	if ops, err = selectOps(d.bosh.Ops, d.scope, true); err != nil {
		return nil, err
	}
	if result, err = applyCompleted(ops, variables, result); err != nil {
		return nil, err
	}
	return result.tree, checkReferences(d, variables, result, "")
}

// renderConfigs returns the BOSH configs whose condition holds, as YAML by type, or nil if there are none. It returns a
// *fault.UserError if there are some and the broker rejects BOSH configs; while the broker checks for pending changes,
// it returns the configs instead. It returns another error if a condition or a variable cannot be evaluated, or if a
// config contains a reference that BOSH cannot or must not resolve; see checkReferences.
func renderConfigs(d *decisions, variables variables) (map[string]string, error) {
	configs := map[string]string{}
	for _, kind := range value.Keys(d.bosh.Configs) {
		config := d.bosh.Configs[kind]
		applies, err := d.scope.Holds("configs."+kind, config.If)
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
		if err := checkReferences(d, variables, result, kind); err != nil {
			return nil, err
		}
		if configs[kind], err = encodeManifest(result.tree); err != nil {
			return nil, err
		}
	}
	if len(configs) == 0 {
		return nil, nil
	}
	if d.NoConfigs && !d.pendingCheck() {
		return nil, &fault.UserError{
			Message: fmt.Sprintf("the service instance needs a BOSH config (%s), "+
				"and the operator has turned BOSH configs off",
				strings.Join(value.Keys(configs), ", ")),
			Err: errors.New("the configuration has disable_bosh_configs, as the broker does"),
		}
	}
	return configs, nil
}

// renderLabels evaluates the metadata labels of the instance. It returns nil if the definition has none, and an error
// if an expression fails.
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
