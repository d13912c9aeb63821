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

// placedOp is an operation that knows where it stands.
type placedOp struct {
	patch.Op
	path     string
	document brokerpak.Document
	index    int
}

// Apply applies the operation. The error is a diag.Errors.
func (o placedOp) Apply(document any) (any, error) {
	changed, err := o.Op.Apply(document)
	if err != nil {
		return nil, opsFault(operationPlace(o.document, o.index), "operation on %s cannot be applied: %s", o.path, err)
	}
	return changed, nil
}

// readOps parses an ops file, whose text may have its variables replaced already. The error is a diag.Errors.
func readOps(document brokerpak.Document, text string) (patch.Ops, error) {
	if err := document.CheckYAML().Err(); err != nil {
		return nil, err
	}
	var definitions []patch.OpDefinition
	if err := yaml.UnmarshalStrict([]byte(text), &definitions); err != nil {
		return nil, opsFault(document.Pos, "an ops file must be a list of operations with type, path and value: %s",
			strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), " in type patch.OpDefinition", ""))
	}
	var all patch.Ops
	for i, definition := range definitions {
		op := placedOp{document: document, index: i}
		if definition.Path != nil {
			op.path = *definition.Path
		}
		ops, err := patch.NewOpsFromDefinitions([]patch.OpDefinition{definition})
		if err != nil {
			message, _, _ := strings.Cut(err.Error(), " within\n") // the operation follows; the library sees one at a time
			return nil, opsFault(operationPlace(document, i), "%s", strings.ReplaceAll(message, "operation [0]", "operation"))
		}
		op.Op = ops
		all = append(all, op)
	}
	return all, nil
}

// operationPlace is the place of an element of a document that is a list.
func operationPlace(document brokerpak.Document, index int) diag.Pos {
	root, _ := document.Tree()
	if root == nil || root.Kind != yamlv3.SequenceNode || index >= len(root.Content) {
		return document.Pos
	}
	element := root.Content[index]
	return document.At(element.Line, element.Column)
}

func opsFault(pos diag.Pos, format string, args ...any) error {
	list := &diag.List{}
	list.Errorf(pos, "ops", format, args...)
	return list.Err()
}

// applyCompleted applies the ops files for the completed manifest. Their variables are put in before: the manifest's own text may look
// like a variable by now.
func applyCompleted(files []brokerpak.Document, variables variables, result *rendered) (*rendered, error) {
	if len(files) == 0 {
		return result, nil
	}
	tree := value.AnyKeys(result.tree, nil)
	for _, file := range files {
		operations, err := evaluate(file, nil, variables, places{file})
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
	changed, err := asMapping(result.places[0], value.Normalise(tree))
	return &rendered{changed, append(result.places, files...)}, err
}
