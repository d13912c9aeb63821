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

// text decodes any scalar as the text that stands in the file, so that "version: 1.20" keeps its zero.
func (d *document) text(what string, target *string) field {
	return field{words: "text", shape: typed("string", "number", "boolean"), decode: func(node *yaml.Node) {
		if node.Kind != yaml.ScalarNode {
			d.errorf(node, "type", "%s must be a string, not %s", what, yamltree.Kind(node))
			return
		}
		if !yamltree.IsNull(node) {
			*target = node.Value
		}
	}}
}

func (d *document) texts(what string, target *[]string) field {
	return field{words: "list of texts", shape: listOf(typed("string", "number", "boolean")), decode: func(node *yaml.Node) {
		d.sequence(node, what, func(element *yaml.Node) {
			var text string
			d.text("an entry of "+what, &text).decode(element)
			*target = append(*target, text)
		})
	}}
}

// booleans are the words that other brokers take for a boolean besides true and false.
var booleans = map[string]bool{ //nolint:gochecknoglobals // a constant table
	"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "on": true, "On": true, "ON": true,
	"n": false, "N": false, "no": false, "No": false, "NO": false, "off": false, "Off": false, "OFF": false,
}

func booleanShape() schema {
	return schema{"enum": append([]any{true, false, nil}, value.Texts(value.Keys(booleans))...)}
}

func (d *document) boolean(what string, target *bool) field {
	return field{words: "boolean", shape: booleanShape, decode: func(node *yaml.Node) {
		meant, known := booleans[node.Value]
		switch {
		case yamltree.IsNull(node):
		case node.ShortTag() == "!!bool":
			*target = strings.EqualFold(node.Value, "true")
		case node.ShortTag() == "!!str" && known:
			*target = meant
		default:
			d.errorf(node, "type", "%s must be true or false, not %s", what, yamltree.Kind(node))
		}
	}}
}

// integer decodes an integer; null leaves the target.
func (d *document) integer(what string, target *int) field {
	return field{words: "integer", shape: typed("integer"), decode: func(node *yaml.Node) {
		if yamltree.IsNull(node) {
			return
		}
		number, ok := d.value(node).(int64)
		if !ok || number < math.MinInt32 || number > math.MaxInt32 {
			d.errorf(node, "type", "%s must be an integer, not %s", what, yamltree.Kind(node))
			return
		}
		*target = int(number)
	}}
}

// value decodes any YAML as a value of package value.
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

func (d *document) scalar(node *yaml.Node) any {
	if node.ShortTag() == "!!timestamp" {
		return node.Value // a value knows no dates, and authors mean the text
	}
	var raw any
	if err := node.Decode(&raw); err != nil {
		d.errorf(node, "yaml-syntax", "not a usable value: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	if number, ok := raw.(float64); ok && (math.IsInf(number, 0) || math.IsNaN(number)) {
		d.errorf(node, "type", "%s is no number that JSON can hold", node.Value)
		return nil
	}
	return value.Normalise(raw)
}

// object decodes a mapping of any content; null gives none.
func (d *document) object(what string, target *map[string]any) field {
	return field{words: "map", shape: typed("object"), decode: func(node *yaml.Node) {
		d.pairs(node, what) // reports what is no mapping
		if node.Kind == yaml.MappingNode {
			*target, _ = d.value(node).(map[string]any)
		}
	}}
}

// textMap decodes a mapping of texts; null gives none.
func (d *document) textMap(what string, target *map[string]string) field {
	return field{words: "map of texts", shape: mapOf(typed("string", "number", "boolean")), decode: func(node *yaml.Node) {
		if yamltree.IsNull(node) {
			return
		}
		*target = map[string]string{}
		for key, item := range d.pairs(node, what) {
			var text string
			d.text(what+"."+key.Value, &text).decode(item)
			(*target)[key.Value] = text
		}
	}}
}

// expression parses a scalar as an expression template; other scalars than strings are their text, null is none.
func (d *document) expression(what string, target **expr.Template) field {
	return field{words: "expression", shape: typed("string", "number", "boolean"), decode: func(node *yaml.Node) {
		if yamltree.IsNull(node) {
			return
		}
		if node.Kind != yaml.ScalarNode {
			d.errorf(node, "type", "%s must be a string with an expression such as ${name}, not %s", what, yamltree.Kind(node))
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

func (d *document) reportExpression(node *yaml.Node, err error) {
	if found, ok := err.(diag.Errors); ok { //nolint:errorlint // Parse documents the bare type
		for _, item := range found {
			d.failf(item.Pos, item.Rule, "%s", item.Message)
		}
		return
	}
	d.errorf(node, "expression-syntax", "%s", err)
}
