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

// A renderedDocument is a YAML mapping after ops files and variables have been applied, such as the manifest or a BOSH
// config, together with the documents that it was computed from, for the positions of errors.
type renderedDocument struct {
	tree    map[string]any
	sources sources
}

// interpolate applies the ops files, in their order, to a document, then replaces the variables in the result, and
// returns the result with its sources. References to names that variables does not have are left to BOSH, except in
// keys, where they are errors because BOSH does not resolve them there. files may be nil. No argument is changed.
//
// It returns a diag.Errors with positions if the document or an ops file is not valid or is ambiguous YAML, if an ops
// file is invalid or an operation cannot be applied, or if a variable cannot be replaced. It returns a *fault.UserError
// if a value from the request would form a reference, and other errors if the result is not a mapping or if only the
// library detects a fault. The result with an error must not be used.
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

// asMapping returns item, the content of a document, as a mapping, without copying it. item must have the types of
// package value. asMapping returns nil and an error with the position of the document if item is not a mapping, for
// example null in an empty document.
func asMapping(document brokerpak.Document, item any) (map[string]any, error) {
	tree, ok := item.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: the document must be a mapping, not %s", document.Pos, value.Kind(item))
	}
	return tree, nil
}

// A treeCapture is the operation (patch.Op) that the BOSH library applies last, after it has replaced the variables. It
// keeps the resulting tree, so that the tree need not be written as YAML and parsed again. The zero value is ready to
// use; its tree is nil until Apply is called.
type treeCapture struct{ tree any }

// Apply implements patch.Op. It stores a copy of the tree, which consists of the types of package value, in t. It
// returns nil as the new document, so that the library has no tree to write, and no error.
func (t *treeCapture) Apply(tree any) (any, error) {
	t.tree = value.Normalise(tree)
	return nil, nil
}

// evaluateYAML applies operations, which may be nil, to a YAML text, replaces the variables with the BOSH library, and
// returns the resulting value, which has the types of package value. In it, the parentheses of the variables' values
// are still masked (see masked), and references to names that variables does not have stay as they are. If the text is
// not valid YAML, an operation fails or the library cannot replace a variable, evaluateYAML returns nil and the
// library's or the operation's error.
func evaluateYAML(text []byte, ops patch.Ops, variables variables) (any, error) {
	var result treeCapture
	_, err := template.NewTemplate(text).Evaluate(variables, ops, template.EvaluateOpts{PostVarSubstitutionOp: &result})
	return result.tree, err
}

// evaluate applies operations, which may be nil, to a document, inspects the result (see inspection), replaces the
// variables, and returns the resulting value, which may have any type of package value. No parentheses in it are
// masked, and references to names that variables does not have stay as they are. documents are searched for the
// positions of errors; the list must not be empty.
//
// evaluate returns nil and a diag.Errors for faults that the inspection or an operation reports, a *fault.UserError if
// parentheses in a value from the request would form a reference to a credential, and an error of the library, with the
// name of the file, for other faults such as invalid YAML.
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
			Message: "a parameter must not contain parentheses that form a reference to a credential",
			Err:     fmt.Errorf("%s: a value from the request became a BOSH reference", document.Pos.File),
		}
	}
	return final, nil
}

// selectOps returns the documents of those ops files whose condition is true or missing, in their order, or nil if
// there are none. completed selects the kind: true for the files that are applied to the completed manifest, false for
// those that are applied to the template. The scope evaluates the conditions of this kind only. If a condition cannot
// be evaluated, selectOps returns nil and an error that wraps that of vars.Scope.Holds.
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
