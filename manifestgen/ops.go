package manifestgen

import (
	"fmt"
	"strings"

	"github.com/cppforlife/go-patch/patch"
	"gopkg.in/yaml.v2"
	yamlv3 "gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// A locatedOp is an operation of an ops file together with its path, the ops file and its index in that file, which are
// used for errors. The embedded operation must not be nil.
type locatedOp struct {
	patch.Op
	path     string
	document brokerpak.Document
	index    int
}

// Apply implements patch.Op. It applies the operation to a document, which may be changed in place, and returns the
// result. If the operation fails, for example because its path does not exist, Apply returns nil and a diag.Errors at
// the position of the operation in its ops file.
func (o locatedOp) Apply(document any) (any, error) {
	changed, err := o.Op.Apply(document)
	if err != nil {
		return nil, opsError(operationPos(o.document, o.index), "operation on %s cannot be applied: %s", o.path, err)
	}
	return changed, nil
}

// readOps parses an ops file into its operations, without applying them. text is the text of the document, or the same
// text with its variables replaced; document is only used for a check of its YAML and for positions. The result is nil
// without an error if the file has no operations.
//
// readOps returns nil and a diag.Errors with positions if the document is not valid YAML or is ambiguous, if the text
// is not a list of operations with only the keys of an operation, or if the type, path or value of an operation is not
// valid. Only the first invalid operation is reported.
func readOps(document brokerpak.Document, text string) (patch.Ops, error) {
	if err := document.CheckYAML().Err(); err != nil {
		return nil, err
	}
	var definitions []patch.OpDefinition
	if err := yaml.UnmarshalStrict([]byte(text), &definitions); err != nil {
		return nil, opsError(document.Pos, "an ops file must be a list of operations with type, path and value: %s",
			strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), " in type patch.OpDefinition", ""))
	}
	var all patch.Ops
	for i, definition := range definitions {
		op := locatedOp{document: document, index: i}
		if definition.Path != nil {
			op.path = *definition.Path
		}
		ops, err := patch.NewOpsFromDefinitions([]patch.OpDefinition{definition})
		if err != nil {
			message, _, _ := strings.Cut(err.Error(), " within\n") // the rest repeats the operation
			return nil, opsError(operationPos(document, i), "%s",
				strings.ReplaceAll(message, "operation [0]", "operation"))
		}
		op.Op = ops
		all = append(all, op)
	}
	return all, nil
}

// operationPos returns the position of the element with this index, which counts from 0, in a document that is a YAML
// list. If the document is not a list, cannot be parsed or has no such element, it returns the position of the
// document.
func operationPos(document brokerpak.Document, index int) diag.Pos {
	root, _ := document.Tree()
	if root == nil || root.Kind != yamlv3.SequenceNode || index >= len(root.Content) {
		return document.Pos
	}
	element := root.Content[index]
	return document.At(element.Line, element.Column)
}

// opsError returns a diag.Errors, never nil, with a single error of the rule "ops" at pos, whose message is formatted
// as by fmt.Sprintf.
func opsError(pos diag.Pos, format string, args ...any) error {
	list := &diag.List{}
	list.Errorf(pos, "ops", format, args...)
	return list.Err()
}

// applyCompleted applies the ops files for the completed manifest, in their order, to result and returns the changed
// manifest with the files added to its sources. It returns the argument result itself if there are no files, and does
// not change the argument otherwise. Only the variables in the ops files are replaced, because text of the completed
// manifest may look like a variable.
//
// It returns a diag.Errors if an operation is invalid or cannot be applied, if the YAML of an ops file is ambiguous
// or not a list of operations, or if a variable in it cannot be replaced. It returns a *fault.UserError if a value
// from the request would form a reference in an ops file. An ops file that is not valid YAML, that the library
// cannot interpolate or that cannot be encoded, and a manifest that is no longer a mapping, are other errors. The
// result with an error must not be used.
func applyCompleted(
	files []brokerpak.Document, variables variables, result *renderedDocument,
) (*renderedDocument, error) {
	if len(files) == 0 {
		return result, nil
	}
	tree := value.AnyKeys(result.tree, nil)
	for _, file := range files {
		operations, err := evaluate(file, nil, variables, sources{file})
		if err != nil {
			return nil, err
		}
		text, err := yaml.Marshal(operations)
		if err != nil {
			return nil, fmt.Errorf("encoding %s after interpolation: %w", file.Pos.File, err)
		}
		ops, err := readOps(file, string(text))
		if err != nil {
			return nil, err
		}
		if tree, err = ops.Apply(tree); err != nil {
			return nil, err
		}
	}
	changed, err := asMapping(result.sources[0], value.Normalise(tree))
	return &renderedDocument{changed, append(result.sources, files...)}, err
}
