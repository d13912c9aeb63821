package manifestgen

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cloudfoundry/bosh-cli/v7/director/template"
	"github.com/cppforlife/go-patch/patch"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// A renderedDocument is a document after interpolation, together with its source documents.
type renderedDocument struct {
	tree    map[string]any
	sources sources
}

// interpolate applies ops files to a document and replaces the variables. It returns an error if a text is not valid
// YAML, if an operation or a variable cannot be applied, or if the result is not a mapping. The error is a
// *fault.UserError if a value from the request would form a reference. Errors in the texts contain their positions: all
// are a diag.Errors, except that of a result that is not a mapping and those that only the library detects.
func interpolate(
	document brokerpak.Document, files []brokerpak.Document, variables variables,
) (*renderedDocument, error) {
	if err := document.CheckYAML().Err(); err != nil {
		return nil, err
	}
	var ops patch.Ops
	for _, file := range files {
		operations, err := readOps(file, file.Text)
		if err != nil {
			return nil, err
		}
		ops = append(ops, operations...)
	}
	documents := append(sources{document}, files...)
	item, err := evaluate(document, ops, variables, documents)
	if err != nil {
		return nil, err
	}
	tree, err := asMapping(document, item)
	return &renderedDocument{tree, documents}, err
}

// asMapping returns the content of a document as a mapping. It returns an error, with the position of the document, if
// it is not one.
func asMapping(document brokerpak.Document, item any) (map[string]any, error) {
	tree, ok := item.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: the document must be a mapping, not %s", document.Pos, value.Kind(item))
	}
	return tree, nil
}

// A treeCapture is the operation that the BOSH library applies last, after it has replaced the variables. It keeps the
// resulting tree, so that the tree need not be written as YAML and parsed again.
type treeCapture struct{ tree any }

// Apply implements patch.Op. It stores the tree and returns nil, so that the library has nothing to write.
func (t *treeCapture) Apply(tree any) (any, error) {
	t.tree = value.Normalise(tree)
	return nil, nil
}

// evaluateYAML applies operations, of which there may be none, to a YAML text and replaces the variables with the BOSH
// library. The result is a value that still has masked parentheses; see masked. The error is that of an operation or of
// the library.
func evaluateYAML(text []byte, ops patch.Ops, variables variables) (any, error) {
	var result treeCapture
	_, err := template.NewTemplate(text).Evaluate(variables, ops, template.EvaluateOpts{PostVarSubstitutionOp: &result})
	return result.tree, err
}

// evaluate applies operations to a document, replaces the variables, and returns the resulting value, in which no
// parentheses are masked. The documents, of which there must be at least one, are searched for the positions of errors.
// It returns a diag.Errors for errors that an inspection or an operation reports, and a *fault.UserError if a value
// from the request would form a reference to a credential. Other errors are those of the library.
func evaluate(document brokerpak.Document, ops patch.Ops, variables variables, documents sources) (any, error) {
	inspect := inspection{variables: variables, sources: documents, diags: &diag.List{}}
	result, err := evaluateYAML([]byte(document.Text), append(ops, inspect), variables)
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

// selectOps returns the ops files whose condition holds, in order. If completed is true, these are the files for the
// completed manifest, otherwise those for the template. The result is nil if there are none. It returns an error if a
// condition cannot be evaluated.
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
