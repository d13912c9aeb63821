package manifestgen

import (
	"fmt"
	"regexp"

	"service-adapter/brokerpak/instance"
	"service-adapter/internal/value"
)

// labels are the instance's metadata labels.
func (w *generation) labels() (map[string]any, error) {
	if len(w.bosh.Labels) == 0 {
		return nil, nil
	}
	labels := map[string]any{}
	for _, name := range value.Keys(w.bosh.Labels) {
		text, err := w.scope.Text("labels."+name, w.bosh.Labels[name])
		if err != nil {
			return nil, fmt.Errorf("evaluating label %q: %w", name, err)
		}
		labels[name] = text
	}
	return labels, nil
}

// notLabel is a run of characters that a label cannot hold.
var notLabel = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// labelText replaces what a label cannot hold: each run of other characters by one _.
func labelText(text string) string { return notLabel.ReplaceAllString(text, "_") }

// defaultLabels is the name of the published labels.
const defaultLabels = "request.default_labels"

// defaultLabels are the published labels of an instance.
func (w *generation) defaultLabels() map[string]any {
	labels := map[string]any{}
	for name, text := range w.GlobalLabels {
		labels[name] = text
	}
	labels["pcf-organization-guid"] = labelText(w.record.OrganizationGUID)
	labels["pcf-space-guid"] = labelText(w.record.SpaceGUID)
	labels["pcf-instance-id"] = labelText(instance.ID(w.Deployment.DeploymentName))
	return labels
}
