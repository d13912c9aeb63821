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

// A locatedOp is an operation together with its position, for errors: its path, the ops file and its index in that
// file.
type locatedOp struct {
	patch.Op
	path     string
	document brokerpak.Document
	index    int
}

// Apply implements patch.Op. It returns the result of the operation, which may change the document in place. The error
// is a diag.Errors at the position of the operation.
func (o locatedOp) Apply(document any) (any, error) {
	changed, err := o.Op.Apply(document)
	if err != nil {
		return nil, opsError(operationPos(o.document, o.index), "operation on %s cannot be applied: %s", o.path, err)
	}
	return changed, nil
}

// readOps parses an ops file. The text is that of the document, or the same with its variables replaced; the document
// is used for positions. The result is nil if the file has no operations. The error is a diag.Errors with positions:
// the document is not valid or ambiguous YAML, the text is not a list of operations with the keys of an operation, or
// the type or path of an operation is not valid. Only the first invalid operation is reported. Nothing is applied.
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

// operationPos returns the position of the element with this index in a document that is a list, or the position of the
// document if there is no such element or the document cannot be parsed.
func operationPos(document brokerpak.Document, index int) diag.Pos {
	root, _ := document.Tree()
	if root == nil || root.Kind != yamlv3.SequenceNode || index >= len(root.Content) {
		return document.Pos
	}
	element := root.Content[index]
	return document.At(element.Line, element.Column)
}

// opsError returns a diag.Errors with a single error of the rule "ops".
func opsError(pos diag.Pos, format string, args ...any) error {
	list := &diag.List{}
	list.Errorf(pos, "ops", format, args...)
	return list.Err()
}

// applyCompleted applies the ops files for the completed manifest and returns the result, or the argument result itself
// if there are no files; it does not change the argument. Only the variables in the ops files are replaced: the text of
// the manifest may look like a variable after interpolation. It returns an error if an ops file or an operation is
// invalid or the manifest is no longer a mapping; see evaluate and readOps for the types.
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
