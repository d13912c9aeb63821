package brokerpak

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// maxNodes bounds the nodes visited in one file: merges and aliases can multiply a small text without end.
const maxNodes = 1_000_000

// maxNesting bounds how deep merges and nested lists are followed.
const maxNesting = 200

// document decodes one YAML file node by node, so that every fault keeps its place and none hides another.
type document struct {
	file    string
	lines   []string
	diags   *diag.List
	visited int
}

// field decodes the value of one key of a mapping.
type field func(node *yaml.Node)

// syntaxLine finds the line in a message of the YAML library.
var syntaxLine = regexp.MustCompile(`^yaml: line (\d+): (.*)$`)

// parseDocument returns the root of the only document of a text, or nil when a diagnostic was added.
func parseDocument(file, text string, diags *diag.List) (*document, *yaml.Node) {
	doc := &document{file: file, lines: strings.Split(text, "\n"), diags: diags}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var root yaml.Node
	if err := decoder.Decode(&root); err != nil {
		doc.syntaxError(err)
		return doc, nil
	}
	var second yaml.Node
	if err := decoder.Decode(&second); err == nil {
		diags.Errorf(doc.pos(&second), "yaml-syntax", "the file holds more than one YAML document; only one is allowed")
	}
	return doc, root.Content[0]
}

func (d *document) syntaxError(err error) {
	pos, message := diag.Pos{File: d.file}, strings.TrimPrefix(err.Error(), "yaml: ")
	if found := syntaxLine.FindStringSubmatch(err.Error()); found != nil {
		pos.Line, _ = strconv.Atoi(found[1]) // the expression admits digits only; an overflow leaves the file as place
		message = found[2] + " (near this line)"
	}
	if message == "EOF" {
		message = "the file is empty"
	}
	d.diags.Errorf(pos, "yaml-syntax", "not valid YAML: %s", message)
}

func (d *document) pos(node *yaml.Node) diag.Pos {
	return diag.Pos{File: d.file, Line: node.Line, Column: node.Column}
}

func (d *document) errorf(node *yaml.Node, rule, format string, args ...any) {
	d.diags.Errorf(d.pos(node), rule, format, args...)
}

// resolve follows aliases.
func resolve(node *yaml.Node) *yaml.Node {
	for range maxNesting {
		if node.Kind != yaml.AliasNode {
			return node
		}
		node = node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool {
	node = resolve(node)
	return node.Kind == yaml.ScalarNode && node.Tag == "!!null"
}

// pair is a key of a mapping and its value.
type pair struct{ key, value *yaml.Node }

// pairs returns the keys of a mapping with YAML merges applied: a key of the mapping itself wins over merged ones, the
// first merged mapping over later ones. What is no mapping is reported.
func (d *document) pairs(node *yaml.Node, what string) []pair {
	return d.merged(node, what, 0)
}

func (d *document) merged(node *yaml.Node, what string, depth int) []pair {
	node = resolve(node)
	if node.Kind != yaml.MappingNode {
		d.errorf(node, "type", "%s must be a mapping, not %s", what, kindOf(node))
		return nil
	}
	if d.visited += len(node.Content); d.visited > maxNodes || depth > maxNesting {
		d.errorf(node, "yaml-aliases", "too many nested aliases or merges")
		return nil
	}
	var own, merges []pair
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, item := node.Content[i], node.Content[i+1]
		if key.Tag == "!!merge" {
			merges = append(merges, pair{key, item})
			continue
		}
		if first, ok := seen[key.Value]; ok {
			d.errorf(key, "duplicate-key", "key %q is already in line %d", key.Value, first.Line)
			continue
		}
		seen[key.Value] = key
		own = append(own, pair{key, item})
	}
	for _, merge := range merges {
		for _, source := range mergeSources(merge.value) {
			for _, inherited := range d.merged(source, "the value of <<", depth+1) {
				if _, ok := seen[inherited.key.Value]; !ok {
					seen[inherited.key.Value] = inherited.key
					own = append(own, inherited)
				}
			}
		}
	}
	return own
}

func mergeSources(node *yaml.Node) []*yaml.Node {
	if node = resolve(node); node.Kind == yaml.SequenceNode {
		return node.Content
	}
	return []*yaml.Node{node}
}

// mapping decodes a mapping by its fields. Unknown keys are errors where strict, else warnings.
func (d *document) mapping(node *yaml.Node, what string, strict bool, fields map[string]field) {
	for _, p := range d.pairs(node, what) {
		decode, ok := fields[p.key.Value]
		if ok {
			decode(p.value)
			continue
		}
		known := slices.Sorted(maps.Keys(fields))
		hint := diag.Suggest(p.key.Value, known)
		if hint == "" {
			hint = "; allowed: " + diag.Names(known)
		}
		if strict {
			d.errorf(p.key, "unknown-key", "unknown key %q in %s%s", p.key.Value, what, hint)
		} else {
			d.diags.Warnf(d.pos(p.key), "unknown-key", "unknown key %q in %s is ignored%s", p.key.Value, what, hint)
		}
	}
}

// sequence calls item for each element of a list. Null is an empty list.
func (d *document) sequence(node *yaml.Node, what string, item func(node *yaml.Node)) {
	node = resolve(node)
	if isNull(node) {
		return
	}
	if node.Kind != yaml.SequenceNode {
		d.errorf(node, "type", "%s must be a list, not %s", what, kindOf(node))
		return
	}
	if d.visited += len(node.Content); d.visited > maxNodes {
		d.errorf(node, "yaml-aliases", "too many nested aliases or merges")
		return
	}
	for _, element := range node.Content {
		item(element)
	}
}

// text decodes any scalar as the text that stands in the file, so that "version: 1.20" keeps its zero.
func (d *document) text(what string, target *string) field {
	return func(node *yaml.Node) {
		node = resolve(node)
		if node.Kind != yaml.ScalarNode {
			d.errorf(node, "type", "%s must be a string, not %s", what, kindOf(node))
			return
		}
		if node.Tag != "!!null" {
			*target = node.Value
		}
	}
}

func (d *document) texts(what string, target *[]string) field {
	return func(node *yaml.Node) {
		d.sequence(node, what, func(element *yaml.Node) {
			var text string
			d.text("an entry of "+what, &text)(element)
			*target = append(*target, text)
		})
	}
}

func (d *document) boolean(what string, target *bool) field {
	return func(node *yaml.Node) {
		node = resolve(node)
		if isNull(node) {
			return
		}
		if node.Kind != yaml.ScalarNode || node.Tag != "!!bool" {
			d.errorf(node, "type", "%s must be true or false, not %s", what, kindOf(node))
			return
		}
		*target = strings.EqualFold(node.Value, "true")
	}
}

func (d *document) integer(what string, target *int) field {
	return func(node *yaml.Node) {
		node = resolve(node)
		parsed, err := strconv.Atoi(node.Value)
		if node.Kind != yaml.ScalarNode || err != nil {
			d.errorf(node, "type", "%s must be an integer, not %s", what, kindOf(node))
			return
		}
		*target = parsed
	}
}

// value decodes any YAML as a value of package value.
func (d *document) value(node *yaml.Node) any {
	var raw any
	if err := resolve(node).Decode(&raw); err != nil {
		d.errorf(node, "yaml-syntax", "not a usable value: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	return value.Normalise(raw)
}

// object decodes a mapping of any content; null gives an empty one.
func (d *document) object(what string, target *map[string]any) field {
	return func(node *yaml.Node) {
		if isNull(node) {
			return
		}
		if kind := resolve(node); kind.Kind != yaml.MappingNode {
			d.errorf(kind, "type", "%s must be a mapping, not %s", what, kindOf(kind))
			return
		}
		if object, ok := d.value(node).(map[string]any); ok {
			*target = object
		}
	}
}

func (d *document) textMap(what string, target *map[string]string) field {
	return func(node *yaml.Node) {
		if isNull(node) {
			return
		}
		*target = map[string]string{}
		for _, p := range d.pairs(node, what) {
			var text string
			d.text(what+"."+p.key.Value, &text)(p.value)
			(*target)[p.key.Value] = text
		}
	}
}

// expression parses a scalar as an expression template; other scalars than strings are their text.
func (d *document) expression(what string, target **expr.Template) field {
	return func(node *yaml.Node) {
		node = resolve(node)
		if node.Kind != yaml.ScalarNode {
			d.errorf(node, "type", "%s must be a string with an expression such as ${name}, not %s", what, kindOf(node))
			return
		}
		parsed, err := expr.Parse(expr.SourceOf(node, d.file, d.lines))
		if err != nil {
			d.reportExpression(node, err)
			return
		}
		*target = parsed
	}
}

func (d *document) reportExpression(node *yaml.Node, err error) {
	if found, ok := err.(diag.Errors); ok { //nolint:errorlint // Parse documents the bare type
		for _, item := range found {
			d.diags.Errorf(item.Pos, item.Rule, "%s", item.Message)
		}
		return
	}
	d.errorf(node, "expression", "%s", err)
}

// required reports a missing text at the place of its mapping.
func (d *document) required(node *yaml.Node, what, text string) {
	if strings.TrimSpace(text) == "" {
		d.errorf(resolve(node), "required", "%s is required and must not be empty", what)
	}
}

// kindOf names what a node is, in words of YAML.
func kindOf(node *yaml.Node) string {
	switch node = resolve(node); {
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case node.Tag == "!!null":
		return "null"
	case node.Tag == "!!str":
		return "a string"
	default:
		return fmt.Sprintf("%q", node.Value)
	}
}
