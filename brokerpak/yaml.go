package brokerpak

import (
	"errors"
	"io"
	"iter"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
	"service-adapter/internal/yamltree"
)

// A document decodes one YAML file node by node. Decoding continues after an error, so that one run reports every
// error with its position.
type document struct {
	file       string
	lines      []string
	diags      *diag.List
	typeErrors map[diag.Pos]bool // the positions at which a value of the wrong type was reported
}

// A mappingNode is a decoded YAML mapping, with the nodes of those of its keys that the format defines. It answers
// whether a key was set and at which position, for checks after decoding.
type mappingNode struct {
	document *document
	pos      diag.Pos // of the mapping
	values   map[string]*yaml.Node
}

// posOf returns the position of the value of a key. If the mapping does not have the key, it returns the position of
// the mapping.
func (m mappingNode) posOf(key string) diag.Pos {
	if node := m.values[key]; node != nil {
		return m.document.pos(node)
	}
	return m.pos
}

// has reports whether the mapping has the key with a value other than null.
func (m mappingNode) has(key string) bool {
	node := m.values[key]
	return node != nil && !yamltree.IsNull(node)
}

// nonEmpty reports whether the mapping has the key with a value other than null, an empty string and an empty list.
// An empty mapping counts as a value.
func (m mappingNode) nonEmpty(key string) bool {
	node := m.values[key]
	return m.has(key) && (node.Kind == yaml.MappingNode || node.Value != "" || len(node.Content) > 0)
}

// libraryPrefix matches the beginning of an error message of the YAML library. The line in it is not used, because it
// is the line at which the faulty construct begins, or the one before.
var libraryPrefix = regexp.MustCompile(`^yaml: (line \d+: )?`)

// parseDocument parses the first YAML document of a file and returns a decoder for it and the root node. The decoder is
// never nil and reports to diags; file is the name for messages. Further documents are reported as a warning, because
// other brokers ignore them. The root is nil if the text is empty or not valid YAML, or if its aliases expand to an
// excessively large tree. parseDocument has then reported the reason as an error.
func parseDocument(file, text string, diags *diag.List) (*document, *yaml.Node) {
	doc := &document{file: file, lines: strings.Split(text, "\n"), diags: diags, typeErrors: map[diag.Pos]bool{}}
	root, second := parseYAML(text, "the file is empty", func(line, column int, rule, message string) {
		doc.failf(diag.Pos{File: file, Line: line, Column: column}, rule, "%s", message)
	})
	if root != nil && second != nil && !yamltree.IsNull(second) {
		diags.Warnf(doc.pos(second), "yaml-documents",
			"the file contains more than one YAML document; only the first is read")
	}
	return doc, root
}

// parseYAML returns the root of the first YAML document of a text, with aliases and merge keys resolved, and the
// unresolved root of the second one, which is nil if the text has only one, and an empty string node if the rest of the
// text is not valid YAML. It calls report for every error, with line and column counted from 1 and 0 where they are not
// known. The root is nil if the text is not valid YAML, if its aliases expand to an excessively large tree, or if the
// text is empty; the parameter empty is the message for the last case.
func parseYAML(text, empty string, report func(line, column int, rule, message string)) (root, second *yaml.Node) {
	first, second, err := yamltree.Read(text)
	if err != nil {
		line, message := 0, empty
		if !errors.Is(err, io.EOF) {
			line, message = syntaxError(strings.Split(text, "\n"), err)
		}
		report(line, 0, "yaml-syntax", message)
		return nil, nil
	}
	root, faults := yamltree.Flatten(first)
	for _, fault := range faults {
		report(fault.Node.Line, fault.Node.Column, fault.Rule, fault.Message)
		if fault.Rule == yamltree.Unbounded {
			return nil, nil
		}
	}
	return root, second
}

// syntaxError locates err, an error of the YAML library for a text with these lines, and returns its line, counted from
// 1, and a message. The line is the last one of the shortest prefix of the text that causes the same error, found by
// bisection. It is 0 if the error does not come from the parser, or if the text is very long.
func syntaxError(lines []string, err error) (line int, message string) {
	prefix := libraryPrefix.FindString(err.Error())
	const maxLines = 50_000 // each step of the bisection parses the text again
	if prefix == "" || len(lines) > maxLines {
		return 0, "not valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")
	}
	low, high := 0, len(lines)
	for high-low > 1 {
		middle := (low + high) / 2
		var root yaml.Node
		prefixErr := yaml.NewDecoder(strings.NewReader(strings.Join(lines[:middle], "\n") + "\n")).Decode(&root)
		if prefixErr != nil && prefixErr.Error() == err.Error() {
			high = middle
		} else {
			low = middle
		}
	}
	return high, "not valid YAML: " + strings.TrimPrefix(err.Error(), prefix)
}

// pos returns the position of a node in the file.
func (d *document) pos(node *yaml.Node) diag.Pos {
	return diag.Pos{File: d.file, Line: node.Line, Column: node.Column}
}

// errorf adds an error at the position of a node to the diagnostics. See failf for rule, format and args, and for
// errors that are left out.
func (d *document) errorf(node *yaml.Node, rule, format string, args ...any) {
	d.failf(d.pos(node), rule, format, args...)
}

// failf adds an error at a position to the diagnostics, unless an error of the rule "type" was already reported there:
// a value of the wrong type would otherwise also be reported as missing or invalid. rule is the name of the violated
// rule in the diagnostic; format and args are those of fmt.Sprintf.
func (d *document) failf(pos diag.Pos, rule, format string, args ...any) {
	if d.typeErrors[pos] {
		return
	}
	d.typeErrors[pos] = rule == "type"
	d.diags.Errorf(pos, rule, format, args...)
}

// pairs returns a sequence of the keys and values of a mapping. A node of any other kind has none; pairs itself, before
// the sequence is used, reports it as an error, except null. The parameter label names the node in the error.
func (d *document) pairs(node *yaml.Node, label string) iter.Seq2[*yaml.Node, *yaml.Node] {
	if node.Kind != yaml.MappingNode && !yamltree.IsNull(node) {
		d.errorf(node, "type", "%s must be a mapping, not %s", label, yamltree.Kind(node))
	}
	return yamltree.Pairs(node)
}

// sequence calls item for each element of a list. A node of any other kind is reported as an error, except null,
// which is an empty list. The parameter label names the node in the error.
func (d *document) sequence(node *yaml.Node, label string, item func(node *yaml.Node)) {
	if yamltree.IsNull(node) {
		return
	}
	if node.Kind != yaml.SequenceNode {
		d.errorf(node, "type", "%s must be a list, not %s", label, yamltree.Kind(node))
		return
	}
	for _, element := range node.Content {
		item(element)
	}
}
