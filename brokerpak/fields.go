package brokerpak

import (
	"math"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// text returns the field of a string; a field describes and decodes the value of a key. Any scalar is accepted and
// decoded as it is written in the file, so that "version: 1.20" keeps its zero. Null leaves the target unchanged. A
// list or mapping is reported as an error and also leaves it unchanged. The label names the value in errors, as it does
// in all fields below.
func (d *document) text(label string, target *string) field {
	return field{words: "text", newSchema: typed("string", "number", "boolean"), decode: func(node *yaml.Node) {
		if node.Kind != yaml.ScalarNode {
			d.errorf(node, "type", "%s must be a string, not %s", label, yamltree.Kind(node))
			return
		}
		if !yamltree.IsNull(node) {
			*target = node.Value
		}
	}}
}

// texts returns the field of a list of strings, which are decoded as in text and appended to the target. Null is an
// empty list. A value that is not a list is reported as an error and appends nothing. An element that is null, or that
// is reported because it is not a scalar, is appended as "". The label names the list in errors.
func (d *document) texts(label string, target *[]string) field {
	shape := listOf(typed("string", "number", "boolean"))
	return field{words: "list of texts", newSchema: shape, decode: func(node *yaml.Node) {
		d.sequence(node, label, func(element *yaml.Node) {
			var text string
			d.text("an entry of "+label, &text).decode(element)
			*target = append(*target, text)
		})
	}}
}

// booleans maps the words that other brokers accept as booleans, in addition to true and false.
var booleans = map[string]bool{ //nolint:gochecknoglobals // a constant table
	"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "on": true, "On": true, "ON": true,
	"n": false, "N": false, "no": false, "No": false, "NO": false, "off": false, "Off": false, "OFF": false,
}

// booleanShape returns the schema of a boolean or null, with all words that are accepted for it.
func booleanShape() schema {
	return schema{"enum": append([]any{true, false, nil}, value.Texts(value.Keys(booleans))...)}
}

// boolean returns the field of a boolean. It accepts true, false and the words of the table booleans. Null leaves the
// target unchanged. Any other value is reported as an error and not stored. The label names the value in errors.
func (d *document) boolean(label string, target *bool) field {
	return field{words: "boolean", newSchema: booleanShape, decode: func(node *yaml.Node) {
		truth, isWord := booleans[node.Value]
		switch {
		case yamltree.IsNull(node):
		case node.ShortTag() == "!!bool":
			*target = strings.EqualFold(node.Value, "true")
		case node.ShortTag() == "!!str" && isWord:
			*target = truth
		default:
			d.errorf(node, "type", "%s must be true or false, not %s", label, yamltree.Kind(node))
		}
	}}
}

// integer returns the field of an integer of 32 bits. Null leaves the target unchanged. Any other value is reported as
// an error and not stored. The label names the value in errors.
func (d *document) integer(label string, target *int) field {
	return field{words: "integer", newSchema: typed("integer"), decode: func(node *yaml.Node) {
		if yamltree.IsNull(node) {
			return
		}
		number, ok := d.value(node).(int64)
		if !ok || number < math.MinInt32 || number > math.MaxInt32 {
			d.errorf(node, "type", "%s must be an integer, not %s", label, yamltree.Kind(node))
			return
		}
		*target = int(number)
	}}
}

// value decodes any node to nil, bool, string, int64, uint64, float64, []any or map[string]any, the types of package
// internal/value. Scalars are decoded by scalar, which reports those that JSON cannot represent and returns nil for
// them. The keys of a mapping become texts.
func (d *document) value(node *yaml.Node) any {
	switch node.Kind {
	case yaml.MappingNode:
		object := map[string]any{}
		for key, item := range d.pairs(node, "the value") {
			object[value.Text(d.scalar(key))] = d.value(item)
		}
		return object
	case yaml.SequenceNode:
		list := make([]any, len(node.Content))
		for i, element := range node.Content {
			list[i] = d.value(element)
		}
		return list
	default:
		return d.scalar(node)
	}
}

// scalar decodes a scalar node as in value. A date is decoded as the text in the file. A scalar that does not have the
// form of its YAML tag, and a number that JSON cannot represent, are reported as errors, and nil is returned.
func (d *document) scalar(node *yaml.Node) any {
	if node.ShortTag() == "!!timestamp" {
		return node.Value // package value has no type for dates, and authors mean the text
	}
	var raw any
	if err := node.Decode(&raw); err != nil {
		d.errorf(node, "yaml-syntax", "not a usable value: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	if number, ok := raw.(float64); ok && (math.IsInf(number, 0) || math.IsNaN(number)) {
		d.errorf(node, "type", "%s is not a number that JSON can represent", node.Value)
		return nil
	}
	return value.Normalise(raw)
}

// object returns the field of a mapping with arbitrary content, which replaces the content of the target. Null leaves
// the target unchanged. Any other value is reported as an error and not stored. The label names the value in errors.
func (d *document) object(label string, target *map[string]any) field {
	return field{words: "map", newSchema: typed("object"), decode: func(node *yaml.Node) {
		d.pairs(node, label) // reports an error if the node is not a mapping
		if node.Kind == yaml.MappingNode {
			*target, _ = d.value(node).(map[string]any)
		}
	}}
}

// textMap returns the field of a mapping from strings to strings, which replaces the content of the target. The values
// are decoded as in text; one that is null, or that is reported because it is not a scalar, is stored as "". Null
// instead of the mapping leaves the target unchanged. Any other value is reported as an error, and the target becomes
// empty. The label names the mapping in errors.
func (d *document) textMap(label string, target *map[string]string) field {
	shape := mapOf(typed("string", "number", "boolean"))
	return field{words: "map of texts", newSchema: shape, decode: func(node *yaml.Node) {
		if yamltree.IsNull(node) {
			return
		}
		*target = map[string]string{}
		for key, item := range d.pairs(node, label) {
			var text string
			d.text(label+"."+key.Value, &text).decode(item)
			(*target)[key.Value] = text
		}
	}}
}

// expression returns the field of an expression, which is a string with ${...}. Scalars other than strings are parsed
// as they are written in the file. Null leaves the target unchanged. A list, a mapping and a syntax error are reported
// and leave the target unchanged, too; a syntax error has its position within the scalar. The label names the value in
// errors.
func (d *document) expression(label string, target **expr.Template) field {
	return field{words: "expression", newSchema: typed("string", "number", "boolean"), decode: func(node *yaml.Node) {
		if yamltree.IsNull(node) {
			return
		}
		if node.Kind != yaml.ScalarNode {
			d.errorf(node, "type", "%s must be a string with an expression such as ${name}, not %s", label,
				yamltree.Kind(node))
			return
		}
		parsed, err := expr.Parse(expr.SourceOf(node, d.file, d.lines))
		if err != nil {
			d.reportExpression(node, err)
			return
		}
		*target = parsed
	}}
}

// reportExpression reports an error of expr.Parse: at the positions of its diagnostics, or at the node if it has
// none.
func (d *document) reportExpression(node *yaml.Node, err error) {
	if diagnostics, ok := err.(diag.Errors); ok { //nolint:errorlint // Parse returns this type unwrapped
		for _, item := range diagnostics {
			d.failf(item.Pos, item.Rule, "%s", item.Message)
		}
		return
	}
	d.errorf(node, "expression-syntax", "%s", err)
}
