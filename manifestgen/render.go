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

// manifest is the result of the third stage of Generator.Generate: the manifest as a tree, its references, the BOSH
// configs and the labels, but neither the record nor the values of secrets, which respond adds to the response. Only
// render returns manifests.
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

// render performs the third stage of Generator.Generate: it returns the manifest with the references to sensitive
// outputs and the properties of errands, the BOSH configs and the labels. It may log warnings; see instanceGroups.
//
// render returns nil and an error if an expression or a condition cannot be evaluated, if an ops file cannot be
// applied or a variable cannot be replaced, if a manifest cannot contain a value, if BOSH cannot or must not resolve
// a reference, if the template, the deployment or the plan is not valid or they do not fit together, or if a BOSH
// config is needed and the broker rejects them. Causes in the user's parameters, outputs of the provision template
// that a manifest cannot contain, faults in the plan's groups or in the releases of jobs, a lost secret that the user
// must supply again, and the rejected configs are *fault.UserErrors; see templateVariables, complete, checkReferences
// and renderConfigs.
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
	if err := configureErrands(d, tree); err != nil {
		return nil, err
	}
	return &manifest{tree: tree, references: references(tree), configs: configs, labels: labels}, nil
}

// renderManifest returns the manifest as a tree, without the record and the properties of errands. It applies the ops
// files whose condition is true or missing to the manifest template, replaces the variables, completes the result with
// the broker's values (see complete), and applies such ops files for the completed manifest. It may log warnings; see
// instanceGroups.
//
// It returns an error if a condition cannot be evaluated, if a document is not valid YAML, if an operation cannot be
// applied or a variable cannot be replaced, if complete returns one, or if BOSH cannot or must not resolve a reference
// in the result (see checkReferences). A value from the request that would form a reference, faults in the plan's
// groups or releases of jobs, and a lost secret that the user must supply again (see lostValue) are *fault.UserErrors.
// The tree that is returned with an error must not be used.
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

// renderConfigs returns the BOSH configs whose condition is true or missing, as YAML by type, such as "cloud" or
// "runtime". It returns nil if there are none. variables are those of the manifest template.
//
// If there are configs and the operator has set that the broker rejects BOSH configs, renderConfigs returns nil and a
// *fault.UserError; only while the broker checks for pending changes, it returns the configs nevertheless. It also
// returns nil and a *fault.UserError if a value from the request would form a reference. If a condition cannot be
// evaluated, the error wraps that of vars.Scope.Holds. It is another error if a config is not valid YAML or not a
// mapping, if a variable cannot be replaced, or if a config contains a reference that BOSH cannot or must not
// resolve; see checkReferences.
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
				"and the operator has disabled BOSH configs",
				strings.Join(value.Keys(configs), ", ")),
			Err: errors.New("disable_bosh_configs is set in the configuration"),
		}
	}
	return configs, nil
}

// renderLabels evaluates the metadata labels of the instance and returns their values as texts, by the names of the
// labels. A value that is null gives "". It returns nil and no error if the definition has no labels. If an expression
// cannot be evaluated, it returns nil and an error that wraps that of vars.Scope.Text.
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
