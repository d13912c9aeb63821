package manifestgen

import (
	"fmt"
	"maps"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// newRecord returns the record of the new manifest, from which the next call generates the same manifest. used contains
// the references in the manifest, with their parentheses, which decide what the record contains about secrets (see
// recordEntries). The owner is left out if no expression of the provision action reads the default labels and no errand
// applies the provision template. Fields of the UAA client that the broker stores as secrets are left out as well.
// newRecord returns a zero record and an error if an output of the definition or its dashboard URL cannot be evaluated;
// see vars.Scope.Eval.
func newRecord(d *decisions, used []string) (record.InstanceRecord, error) {
	provisioned, err := provisionedResults(d)
	if err != nil {
		return record.InstanceRecord{}, err
	}
	received := d.received
	if keys, whole := d.Service.Provision.KeysRead(defaultLabels); !whole && len(keys) == 0 && !d.appliesByErrand {
		received.Owner = record.Owner{}
	}
	received.UAAClient = maps.Clone(received.UAAClient)
	for _, secret := range d.definedSecrets {
		if field, ok := strings.CutPrefix(secret.Input, brokerpak.UAAClient); ok && d.storesSecrets() {
			delete(received.UAAClient, field)
		}
	}
	kept := record.KeptValues{
		Secrets: d.secrets.recordEntries(used), Generated: generatedValues(d), Sticky: d.sticky,
	}
	return record.InstanceRecord{
		Identity: d.identity, Received: received, KeptValues: kept, Provisioned: provisioned,
	}, nil
}

// provisionedResults returns the results of the provision action for the record: the result of the template, which is
// nil if generate-manifest applies none, the versions of the pak, the template and OpenTofu that an errand must use,
// if an errand applies the template, and the values of the definition's outputs and of its dashboard URL. Expressions
// of outputs or of the URL that a later call must evaluate (see deferred) are not evaluated; instead, the results
// contain the variables that they use. If the evaluation of an expression fails, provisionedResults returns an error
// that wraps that of vars.Scope.Eval; the results are then incomplete.
func provisionedResults(d *decisions) (record.Provisioned, error) {
	results := record.Provisioned{
		Outputs: map[string]any{}, Variables: map[string]any{}, Template: d.template,
	}
	if d.appliesByErrand {
		results.Errand = &d.versions
	}
	for _, name := range value.Keys(d.bosh.Outputs) {
		output := d.bosh.Outputs[name]
		switch {
		case output.Expr == nil:
			results.Outputs[name] = output.Literal
		case deferred(d.inputs, output.Expr):
			maps.Copy(results.Variables, usedVariables(d.resolution, output.Expr))
		default:
			item, err := d.scope.Eval("outputs."+name, output.Expr)
			if err != nil {
				return results, fmt.Errorf("evaluating output %q: %w", name, err)
			}
			results.Outputs[name] = item
		}
	}
	switch url := d.bosh.DashboardURL; {
	case url == nil:
	case deferred(d.inputs, url):
		maps.Copy(results.Variables, usedVariables(d.resolution, url))
	default:
		var err error
		if results.DashboardURL, err = d.scope.Text("dashboard_url", url); err != nil {
			return results, fmt.Errorf("evaluating the dashboard URL: %w", err)
		}
	}
	return results, nil
}

// deferred reports whether a later call must evaluate the expression: because it reads the deployed manifest or
// addresses from BOSH, or because it reads outputs of the provision template (instance.details) and an errand applies
// the template after the deployment. in states whether an errand applies it. template must not be nil.
func deferred(in *inputs, template *expr.Template) bool {
	return instance.Deferred(template) || in.appliesByErrand && brokerpak.ReadsDetails(template)
}

// usedVariables returns the variables that the expression refers to and that are set, by name, because a later call
// needs them to evaluate the expression. For a dotted name, the result contains the longest prefix that is set: "a" for
// a reference to "a.b" if only a is a variable. Of the published constants, only request.default_labels is included,
// because the others are derived from the record. A variable that is not set is omitted; one that is null is included.
// The map is never nil.
func usedVariables(r *resolution, template *expr.Template) map[string]any {
	variables := map[string]any{}
	for _, reference := range template.References() {
		for name := range reference.Names() {
			item, ok := r.scope.Values[name]
			if name == defaultLabels {
				item, ok = instanceLabels(r.identity.Deployment, r.received.Owner, r.GlobalLabels), true
			}
			if ok {
				variables[name] = item
				break
			}
		}
	}
	return variables
}

// generatedValues returns the results of generating functions for the record, by input and call (such as
// "rand.base64#1"); the key of an expression that belongs to no input is its name, such as "outputs.NAME". They are the
// results that this call used, and for inputs without such results those in the record of the deployed manifest. An
// input that a parameter sets in this call therefore gets its first value again when it is reset. Values of inputs that
// the broker stores as secrets for an errand, and those of ephemeral inputs, are omitted. The map is never nil. Its
// elements may be those of d and the record, which are not changed.
func generatedValues(d *decisions) map[string]map[string]any {
	generated := map[string]map[string]any(maps.Clone(d.scope.Generated))
	for _, name := range d.Service.Provision.InputNames() {
		if calls, ok := d.previous.record.Generated[name]; ok && generated[name] == nil {
			generated[name] = calls
		}
	}
	maps.DeleteFunc(generated, func(input string, _ map[string]any) bool {
		return d.errand.generated[input] && d.storesSecrets() || d.isEphemeral(input)
	})
	return generated
}
