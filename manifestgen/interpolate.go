package manifestgen

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cloudfoundry/bosh-cli/v7/director/template"
	"github.com/cppforlife/go-patch/patch"
	"gopkg.in/yaml.v2"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// interpolate applies operations to a document and puts the variables in.
func (w *generation) interpolate(document brokerpak.Document, ops patch.Ops, places places) (any, error) {
	ops = append(ops, inspection{variables: w.variables, places: places})
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
	return unmasked(document, raw)
}

// unmasked puts the parentheses of values back, and refuses those of users that make a reference.
func unmasked(document brokerpak.Document, raw any) (any, error) {
	trusted := value.Normalise(raw)
	if holdsMask(trusted) {
		trusted = unmask(trusted, trustedOpen, trustedClose)
	}
	if !holdsMask(trusted) {
		return trusted, nil
	}
	final := unmask(trusted, userOpen, userClose)
	if !slices.Equal(references(trusted), references(final)) {
		return nil, &fault.UserError{
			Message: "a parameter must not hold parentheses that form a reference to a credential",
			Err:     fmt.Errorf("%s: a value from the request became a BOSH reference", document.Pos.File),
		}
	}
	return final, nil
}
