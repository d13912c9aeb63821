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

// text returns the field for a key that contains a string; a field describes the value of a key and decodes it.
// Decoding stores any scalar in target as text. A number or boolean keeps the spelling of the file, so that the version
// 1.20 keeps its zero. Null leaves target unchanged. A list or mapping is reported as an error in the diagnostics of d
// and also leaves target unchanged. The label names the value in error messages, such as "bind.command".
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

// texts returns the field for a key that contains a list of strings; decoding appends the elements to target. Any
// scalar is accepted as an element, with the spelling of the file; null is appended as "". An element that is a list or
// mapping is reported as an error in the diagnostics of d and appended as "". Null in place of the list is an empty
// list. Any other value that is not a list is reported as an error and appends nothing. The label names the list in
// error messages.
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

// booleanShape returns a new JSON Schema that allows true, false, null and the strings that are accepted for a boolean
// in addition: y, yes, on, n, no and off, in lower case, upper case and with a capital first letter.
func booleanShape() schema {
	return schema{"enum": append([]any{true, false, nil}, value.Texts(value.Keys(booleans))...)}
}

// boolean returns the field for a key that contains a boolean; decoding stores the value in target. It accepts true
// and false without quotes, and y, yes, on, n, no and off with or without quotes, each in lower case, in upper case
// or with a capital first letter. Null leaves target unchanged. Any other value is reported as an error in the
// diagnostics of d and not stored. The label names the value in error messages.
func (d *document) boolean(label string, target *bool) field {
	return field{words: "boolean", newSchema: booleanShape, decode: func(node *yaml.Node) {
		tag := node.ShortTag()
		truth, isWord := booleans[node.Value]
		isTrue, isFalse := strings.EqualFold(node.Value, "true"), strings.EqualFold(node.Value, "false")
		switch {
		case yamltree.IsNull(node):
		case tag == "!!bool" && (isTrue || isFalse):
			*target = isTrue
		case (tag == "!!str" || tag == "!!bool") && isWord:
			*target = truth
		default:
			d.errorf(node, "type", "%s must be true or false, not %s", label, yamltree.Kind(node))
		}
	}}
}

// integer returns the field for a key that contains an integer of 32 bits; decoding stores the value in target. A
// number such as 5.0 or 1e3 counts as an integer. Null leaves target unchanged. Any other value, such as a quoted
// number, 1.5 or a number that needs more bits, is reported as an error in the diagnostics of d and not stored. The
// label names the value in error messages.
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

// value decodes any YAML node to a Go value: nil, bool, string, int64, uint64, float64, []any or map[string]any. A key
// of a mapping becomes the text of its value, so 1.20 becomes "1.2", and null ""; of keys with the same text, the last
// one counts. A scalar that JSON cannot represent, such as .inf, or that does not fit its YAML tag, is reported as an
// error in the diagnostics of d and becomes nil; see scalar. Empty lists and mappings are not nil.
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

// scalar decodes a scalar YAML node to nil, bool, string, int64, uint64 or float64. A number without a fraction becomes
// an integer if it fits in 64 bits, even if it is written as 5.0. Null becomes nil, and a date becomes a string with
// the text in the file. A scalar that does not have the form of its YAML tag, such as !!int x, and an infinity or NaN,
// which JSON cannot represent, are reported as errors in the diagnostics of d, and the result is nil.
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

// object returns the field for a key that contains a mapping with arbitrary content; decoding replaces target by a new
// map with that content. See value for the Go types in it and for scalars that it reports as errors, which are nil in
// the map. Null leaves target unchanged. Any other value that is not a mapping is reported as an error in the
// diagnostics of d and not stored. The label names the value in error messages.
func (d *document) object(label string, target *map[string]any) field {
	return field{words: "map", newSchema: typed("object"), decode: func(node *yaml.Node) {
		d.pairs(node, label) // reports an error if the node is not a mapping
		if node.Kind == yaml.MappingNode {
			*target, _ = d.value(node).(map[string]any)
		}
	}}
}

// textMap returns the field for a key that contains a mapping from strings to strings; decoding replaces target by a
// new map. Keys and values may be any scalars and are stored with the spelling of the file, except that a value of null
// is stored as "". A value that is a list or mapping is reported as an error in the diagnostics of d and stored as "".
// Null in place of the mapping leaves target unchanged. Any other value that is not a mapping is reported as an error,
// and target becomes an empty map. The label names the mapping in error messages.
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

// expression returns the field for a key that contains an expression, which is a string that may contain ${...}, such
// as "redis-${size}"; decoding stores the parsed expression in target. Scalars other than strings are parsed as text.
// Null leaves target unchanged. A list, a mapping and a syntax error are reported as errors in the diagnostics of d and
// also leave target unchanged; a syntax error has its position within the scalar, if that is known. The label names the
// value in error messages.
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

// reportExpression adds an error of expr.Parse to the diagnostics of d. If err is a diag.Errors, each of its
// diagnostics is added at its own position in the file. Any other error is added at the position of the node.
func (d *document) reportExpression(node *yaml.Node, err error) {
	if diagnostics, ok := err.(diag.Errors); ok { //nolint:errorlint // Parse returns this type unwrapped
		for _, item := range diagnostics {
			d.failf(item.Pos, item.Rule, "%s", item.Message)
		}
		return
	}
	d.errorf(node, "expression-syntax", "%s", err)
}
