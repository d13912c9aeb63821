package manifestgen

import (
	"errors"
	"fmt"

	"github.com/cloudfoundry/bosh-cli/v7/director/template"
	"github.com/cppforlife/go-patch/patch"
	"gopkg.in/yaml.v2"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
)

// interpolate applies operations to a document and puts the variables in. The result is as yaml.v2 decodes it.
func (w *generation) interpolate(document brokerpak.Document, ops patch.Ops) (any, error) {
	out, err := template.NewTemplate([]byte(document.Text)).Evaluate(w.variables, ops, template.EvaluateOpts{})
	var placed diag.Errors
	if errors.As(err, &placed) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("interpolating %s: %w", document.Pos.File, err)
	}
	var raw any
	if err := yaml.Unmarshal(out, &raw); err != nil {
		return nil, fmt.Errorf("reading %s after interpolation: %w", document.Pos.File, err)
	}
	return raw, nil
}
