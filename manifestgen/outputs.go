package manifestgen

import (
	"fmt"
	"strings"

	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/value"
)

// recordOutputs evaluates the outputs and the dashboard URL, which later calls find in the record. Those that read the deployed
// manifest or BOSH wait for these calls; the variables they use are recorded.
func (w *generation) recordOutputs() error {
	for _, name := range value.Keys(w.bosh.Outputs) {
		output := w.bosh.Outputs[name]
		if output.Expr != nil && instance.Deferred(output.Expr) {
			w.recordVariables(output.Expr)
			continue
		}
		item := output.Literal
		if output.Expr != nil {
			var err error
			if item, err = w.scope.Eval("outputs."+name, output.Expr); err != nil {
				return fmt.Errorf("evaluating output %q: %w", name, err)
			}
		}
		if w.record.Outputs == nil {
			w.record.Outputs = map[string]any{}
		}
		w.record.Outputs[name] = item
	}
	return w.recordDashboard()
}

func (w *generation) recordDashboard() error {
	if w.bosh.DashboardURL == nil {
		return nil
	}
	if instance.Deferred(w.bosh.DashboardURL) {
		w.recordVariables(w.bosh.DashboardURL)
		return nil
	}
	text, err := w.scope.Text("dashboard_url", w.bosh.DashboardURL)
	if err != nil {
		return fmt.Errorf("evaluating the dashboard URL: %w", err)
	}
	w.record.DashboardURL = text
	return nil
}

// recordVariables keeps the variables that an expression of a later call refers to. Constants are in the record anyway, but for
// the labels.
func (w *generation) recordVariables(template *expr.Template) {
	for _, reference := range template.References() {
		for name := reference.Name; name != ""; name = name[:max(strings.LastIndexByte(name, '.'), 0)] {
			item, ok := w.scope.Values[name]
			if name == defaultLabels {
				item, ok = w.defaultLabels(), true
			}
			if !ok {
				continue
			}
			if w.record.Variables == nil {
				w.record.Variables = map[string]any{}
			}
			w.record.Variables[name] = item
			break
		}
	}
}
