package manifestgen

import (
	"fmt"
	"maps"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// finishRecord completes the record and drops what no expression uses, so that it holds no more of a request than it must. Used are the
// references of the manifest.
func finishRecord(in *input, p *prepared, used []string) (record.Record, error) {
	r := p.record
	if err := recordOutputs(in, p, &r); err != nil {
		return r, err
	}
	r.Generated = generatedValues(in, p)
	if keys, whole := in.Service.Provision.Uses(defaultLabels); !whole && len(keys) == 0 && r.Errand == nil {
		r.Owner = record.Owner{}
	}
	r.Secrets = p.secrets.remembered(used)
	r.UAAClient = maps.Clone(r.UAAClient)
	for _, secret := range in.bosh.Secrets {
		if field, ok := strings.CutPrefix(secret.Input, brokerpak.UAAClient); ok && in.storesSecrets() {
			delete(r.UAAClient, field)
		}
	}
	return r, nil
}

// recordOutputs evaluates the outputs and the dashboard URL, which later calls find in the record. Those that read the deployed
// manifest or BOSH wait for these calls; the variables they use are recorded.
func recordOutputs(in *input, p *prepared, r *record.Record) error {
	r.Outputs, r.Variables = map[string]any{}, map[string]any{}
	for _, name := range value.Keys(in.bosh.Outputs) {
		output := in.bosh.Outputs[name]
		switch {
		case output.Expr == nil:
			r.Outputs[name] = output.Literal
		case waits(in, output.Expr):
			maps.Copy(r.Variables, variablesOf(output.Expr, in, p))
		default:
			item, err := p.scope.Eval("outputs."+name, output.Expr)
			if err != nil {
				return fmt.Errorf("evaluating output %q: %w", name, err)
			}
			r.Outputs[name] = item
		}
	}
	switch url := in.bosh.DashboardURL; {
	case url == nil:
	case waits(in, url):
		maps.Copy(r.Variables, variablesOf(url, in, p))
	default:
		var err error
		if r.DashboardURL, err = p.scope.Text("dashboard_url", url); err != nil {
			return fmt.Errorf("evaluating the dashboard URL: %w", err)
		}
	}
	return nil
}

// waits tells whether an expression is for a later call to evaluate.
func waits(in *input, template *expr.Template) bool {
	return instance.Deferred(template) || in.applies && brokerpak.ReadsDetails(template)
}

// variablesOf are the variables that an expression of a later call refers to. Constants are in the record anyway, but for the labels.
func variablesOf(template *expr.Template, in *input, p *prepared) map[string]any {
	used := map[string]any{}
	for _, reference := range template.References() {
		for name := range reference.Names() {
			item, ok := p.scope.Values[name]
			if name == defaultLabels {
				item, ok = labelsByDefault(&p.record, in.GlobalLabels), true
			}
			if ok {
				used[name] = item
				break
			}
		}
	}
	return used
}

// generatedValues are those that this call used, and those of inputs that had another value this time: an input that is reset
// gets its first value again. Those that the broker stores as secrets are not in the record.
func generatedValues(in *input, p *prepared) map[string]map[string]any {
	generated := map[string]map[string]any(maps.Clone(p.scope.Generated))
	for _, name := range in.Service.Provision.InputNames() {
		if calls, ok := in.before.record.Generated[name]; ok && generated[name] == nil {
			generated[name] = calls
		}
	}
	maps.DeleteFunc(generated, func(input string, _ map[string]any) bool { return p.generated[input] && in.storesSecrets() })
	return generated
}
