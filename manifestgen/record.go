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

// newRecord returns the record of the new manifest, which is the last stage. The used references are those of the
// manifest. The owner is left out if no expression or errand needs it, and values that the broker stores as secrets are
// left out as well. It returns an error if an output or the dashboard URL cannot be evaluated.
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

// provisionedResults returns the results of the provision action for the record: the outputs of the template and, if an
// errand applies it, its versions. It also evaluates the definition's outputs and its dashboard URL. For expressions
// that a later call must evaluate (see deferred), it returns the variables that they use instead. It returns an error
// if an expression fails.
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

// deferred reports whether the expression must be evaluated by a later call: because it reads the deployed manifest or
// BOSH, or because it reads outputs of a template that an errand applies after the deployment.
func deferred(in *inputs, template *expr.Template) bool {
	return instance.Deferred(template) || in.appliesByErrand && brokerpak.ReadsDetails(template)
}

// usedVariables returns the variables that the expression refers to and that have a value; for a dotted name, that is
// the longest prefix with a value. A later call needs them to evaluate the expression. Published constants are not
// among them, because they are derived from the record, except the default labels. The map is never nil.
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

// generatedValues returns the generated values to record, by input and generating call: those that this call used, and
// recorded ones of inputs that currently have another value, so that an input that is reset gets its first value again.
// Values that the broker stores as secrets are omitted, and those of ephemeral inputs.
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
