package manifestgen

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cloudfoundry/bosh-cli/v7/director/template"
	"github.com/cppforlife/go-patch/patch"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// rendered is a template after interpolation, with the documents that it is made of.
type rendered struct {
	tree   map[string]any
	places places
}

// interpolate applies ops files to a document and puts the variables in.
func interpolate(document brokerpak.Document, files []brokerpak.Document, variables variables) (*rendered, error) {
	if err := document.CheckYAML().Err(); err != nil {
		return nil, err
	}
	var ops patch.Ops
	for _, file := range files {
		more, err := readOps(file, file.Text)
		if err != nil {
			return nil, err
		}
		ops = append(ops, more...)
	}
	from := append(places{document}, files...)
	item, err := evaluate(document, ops, variables, from)
	if err != nil {
		return nil, err
	}
	tree, err := asMapping(document, item)
	return &rendered{tree, from}, err
}

// asMapping returns what a document gave, which must be a mapping.
func asMapping(document brokerpak.Document, item any) (map[string]any, error) {
	tree, ok := item.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: the document must be a mapping, not %s", document.Pos, value.Kind(item))
	}
	return tree, nil
}

// taken is a tree that the library made, before it writes a text that would only be read again.
type taken struct{ tree any }

// Apply takes the tree and leaves nothing to write.
func (t *taken) Apply(tree any) (any, error) {
	t.tree = value.Normalise(tree)
	return nil, nil
}

// interpolated applies operations to a YAML text and puts the variables in, as the BOSH library does.
func interpolated(text []byte, ops patch.Ops, variables variables) (any, error) {
	var result taken
	_, err := template.NewTemplate(text).Evaluate(variables, ops, template.EvaluateOpts{PostVarSubstitutionOp: &result})
	return result.tree, err
}

// evaluate applies operations to a document and puts the variables in.
func evaluate(document brokerpak.Document, ops patch.Ops, variables variables, from places) (any, error) {
	result, err := interpolated([]byte(document.Text), append(ops, inspection{variables: variables, places: from, diags: &diag.List{}}), variables)
	if errors.As(err, new(diag.Errors)) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("interpolating %s: %w", document.Pos.File, err)
	}
	trusted := unmask(result, trustedOpen, trustedClose)
	final := unmask(trusted, userOpen, userClose)
	if !slices.Equal(references(trusted), references(final)) {
		return nil, &fault.UserError{
			Message: "a parameter must not hold parentheses that form a reference to a credential",
			Err:     fmt.Errorf("%s: a value from the request became a BOSH reference", document.Pos.File),
		}
	}
	return final, nil
}

// selectOps returns the ops files whose condition holds, in order: those for the template, or those for the completed manifest.
func selectOps(ops []brokerpak.Conditional, scope *vars.Scope, completed bool) ([]brokerpak.Document, error) {
	var all []brokerpak.Document
	for i, entry := range ops {
		if entry.Completed != completed {
			continue
		}
		applies, err := scope.Holds(fmt.Sprintf("ops.%d", i), entry.If)
		if err != nil {
			return nil, fmt.Errorf("evaluating the condition of ops: %w", err)
		}
		if applies {
			all = append(all, entry.Document)
		}
	}
	return all, nil
}
