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

// A document decodes one YAML file of a pak node by node and adds the errors to a list of diagnostics. Decoding
// continues after an error, so that one run reports every error with its position. parseDocument creates a document.
// The zero document can only describe keys, for JSON Schemas and documentation; it cannot decode a node.
type document struct {
	file       string
	lines      []string
	diags      *diag.List
	typeErrors map[diag.Pos]bool // the positions at which a value of the wrong type was reported
}

// A mappingNode is a decoded YAML mapping with the nodes of its values, for checks after decoding: its methods report
// whether a key is present and return the position of its value. It contains only keys that the format defines. It has
// no keys if the node was not a mapping.
type mappingNode struct {
	document *document
	pos      diag.Pos // of the mapping
	values   map[string]*yaml.Node
}

// posOf returns the position of the value of a key, even if the value is null. If the mapping does not have the key, or
// if the format does not define the key, posOf returns the position of the mapping.
func (m mappingNode) posOf(key string) diag.Pos {
	if node := m.values[key]; node != nil {
		return m.document.pos(node)
	}
	return m.pos
}

// has reports whether the mapping has the key with a value other than null. It returns false for a key that the format
// does not define.
func (m mappingNode) has(key string) bool {
	node := m.values[key]
	return node != nil && !yamltree.IsNull(node)
}

// nonEmpty reports whether the mapping has the key with a value other than null, an empty string and an empty list. An
// empty mapping counts as a value. It returns false for a key that the format does not define.
func (m mappingNode) nonEmpty(key string) bool {
	node := m.values[key]
	return m.has(key) && (node.Kind == yaml.MappingNode || node.Value != "" || len(node.Content) > 0)
}

// libraryPrefix matches the beginning of an error message of the YAML library. The line in it is not used, because it
// is the line at which the faulty construct begins, or the one before.
var libraryPrefix = regexp.MustCompile(`^yaml: (line \d+: )?`)

// parseDocument parses the first YAML document of a file and returns a decoder for it and the root node, in which
// aliases and merge keys are resolved. text is the content of the file, and file its name in positions; the file is not
// read. The decoder is never nil and adds its errors to diags.
//
// The root is nil, and parseDocument adds an error to diags, if the text is empty or has only comments, is not valid
// YAML, is nested too deeply (200 levels), or has too many nodes (200,000) after aliases are resolved. Other errors do
// not prevent a root: of a repeated key, the first value stays in it, and keys that are not scalars, merged values that
// are not mappings and merged keys that are not strings are left out. Further text after the first document, unless it
// is null, is a warning, because other brokers ignore it.
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

// parseYAML parses a text and returns the roots of its first and second YAML document. In the first, aliases and merge
// keys are resolved; the second is as written, nil if the text has only one document, and an empty string node if the
// rest of the text is not valid YAML.
//
// parseYAML calls report for every error in the first document, with line and column counted from 1, or 0 if they are
// not known, and the rule that the error violates, such as "yaml-syntax". Both roots are nil if the text is not valid
// YAML, if it contains no document, which is reported with the parameter empty as the message, or if it is nested too
// deeply (200 levels) or has too many nodes (200,000) after aliases are resolved. Other errors are a repeated key, of
// which the first value stays in the root, and keys that are not scalars, merged values that are not mappings and
// merged keys that are not strings, which are left out.
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

// syntaxError determines where the YAML library failed and returns the line, counted from 1, and a message that begins
// with "not valid YAML: ". lines are the lines of the text, and err is the error of the library, which must not be nil.
// syntaxError finds the line by bisection: it is the last one of the shortest prefix of the text that causes the same
// error. The line is 0 if err does not come from the parser of the library, or if the text has more than 50,000 lines.
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

// pos returns the position of a node, which must not be nil: the name of the document's file, and the line and column
// of the node, counted from 1.
func (d *document) pos(node *yaml.Node) diag.Pos {
	return diag.Pos{File: d.file, Line: node.Line, Column: node.Column}
}

// errorf adds an error at the position of a node to the diagnostics of d, unless an error of the rule "type" was
// already added at that position; see failf. rule is the name of the violated rule, such as "required". The message is
// formatted as by fmt.Sprintf.
func (d *document) errorf(node *yaml.Node, rule, format string, args ...any) {
	d.failf(d.pos(node), rule, format, args...)
}

// failf adds an error at a position to the diagnostics of d. It does nothing if an error of the rule "type" was
// already added at the same position, because a value of the wrong type would otherwise also be reported as missing
// or invalid. rule is the name of the violated rule, such as "required", or "type" for a value of the wrong type. The
// message is formatted as by fmt.Sprintf. A diag.Hint among args is a part of the message like any other argument,
// and also becomes the hint of the diagnostic.
func (d *document) failf(pos diag.Pos, rule, format string, args ...any) {
	if d.typeErrors[pos] {
		return
	}
	d.typeErrors[pos] = rule == "type"
	d.diags.Errorf(pos, rule, format, args...)
}

// pairs returns a sequence of the nodes of the keys and values of a YAML mapping, in the order of the file. A node of
// any other kind has none. It is an error unless it is null: pairs adds it to the diagnostics of d at once, even if the
// sequence is never used. The label names the node in the message.
func (d *document) pairs(node *yaml.Node, label string) iter.Seq2[*yaml.Node, *yaml.Node] {
	if node.Kind != yaml.MappingNode && !yamltree.IsNull(node) {
		d.errorf(node, "type", "%s must be a mapping, not %s", label, yamltree.Kind(node))
	}
	return yamltree.Pairs(node)
}

// sequence calls item for each element of a YAML list, in its order. Null is an empty list. A node of any other kind is
// added as an error to the diagnostics of d, and item is not called. The label names the node in the message.
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
