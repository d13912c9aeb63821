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

// document decodes one YAML file node by node, so that every fault keeps its place and none hides another.
type document struct {
	file     string
	lines    []string
	diags    *diag.List
	mistyped map[diag.Pos]bool // where something of the wrong type stands
}

// places tells where a mapping and the values of its keys stand.
type places struct {
	document *document
	self     diag.Pos
	values   map[string]*yaml.Node
}

// at is the place of a key's value, or of the whole mapping when it has no such key.
func (p places) at(key string) diag.Pos {
	if node := p.values[key]; node != nil {
		return p.document.pos(node)
	}
	return p.self
}

// has tells whether a key has a value other than null.
func (p places) has(key string) bool {
	node := p.values[key]
	return node != nil && !yamltree.IsNull(node)
}

// filled tells whether a key has a value other than null, an empty text and an empty list.
func (p places) filled(key string) bool {
	node := p.values[key]
	return p.has(key) && (node.Kind == yaml.MappingNode || node.Value != "" || len(node.Content) > 0)
}

// libraryPrefix is how messages of the YAML library begin. Its line is where the construct begins that is at fault, or the
// one before it.
var libraryPrefix = regexp.MustCompile(`^yaml: (line \d+: )?`)

// parseDocument returns the root of the first document of a text, or nil when a diagnostic was added. Other brokers read no
// further documents either.
func parseDocument(file, text string, diags *diag.List) (*document, *yaml.Node) {
	doc := &document{file: file, lines: strings.Split(text, "\n"), diags: diags, mistyped: map[diag.Pos]bool{}}
	root, second := parse(text, "the file is empty", func(line, column int, rule, message string) {
		doc.failf(diag.Pos{File: file, Line: line, Column: column}, rule, "%s", message)
	})
	if root != nil && second != nil && !yamltree.IsNull(second) {
		diags.Warnf(doc.pos(second), "yaml-documents", "the file holds more than one YAML document; only the first is read")
	}
	return doc, root
}

// parse returns the root of the first document of a text, with aliases and merges followed, and that of the second one as it stands. The
// root is nil where it cannot be followed, which is among what is reported then; empty says that there is none.
func parse(text, empty string, report func(line, column int, rule, message string)) (root, second *yaml.Node) {
	first, second, err := yamltree.Read(text)
	if err != nil {
		line, message := 0, empty
		if !errors.Is(err, io.EOF) {
			line, message = syntaxFault(strings.Split(text, "\n"), err)
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

// syntaxFault finds the line that causes an error of the YAML library: the last one of a beginning of the text that gives the
// same error, while without this line it does not. For other errors, and in very long texts, the line is 0.
func syntaxFault(lines []string, err error) (line int, message string) {
	prefix := libraryPrefix.FindString(err.Error())
	const searched = 50_000 // lines; each try parses the text again
	if prefix == "" || len(lines) > searched {
		return 0, "not valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")
	}
	low, high := 0, len(lines)
	for high-low > 1 {
		middle := (low + high) / 2
		var root yaml.Node
		again := yaml.NewDecoder(strings.NewReader(strings.Join(lines[:middle], "\n") + "\n")).Decode(&root)
		if again != nil && again.Error() == err.Error() {
			high = middle
		} else {
			low = middle
		}
	}
	return high, "not valid YAML: " + strings.TrimPrefix(err.Error(), prefix)
}

func (d *document) pos(node *yaml.Node) diag.Pos {
	return diag.Pos{File: d.file, Line: node.Line, Column: node.Column}
}

func (d *document) errorf(node *yaml.Node, rule, format string, args ...any) {
	d.failf(d.pos(node), rule, format, args...)
}

// failf adds an error, unless it follows from another one: what has the wrong type would seem missing or wrong once more.
func (d *document) failf(pos diag.Pos, rule, format string, args ...any) {
	if d.mistyped[pos] {
		return
	}
	d.mistyped[pos] = rule == "type"
	d.diags.Errorf(pos, rule, format, args...)
}

// pairs yields the keys and values of a mapping. What is no mapping is reported; null has no keys.
func (d *document) pairs(node *yaml.Node, what string) iter.Seq2[*yaml.Node, *yaml.Node] {
	if node.Kind != yaml.MappingNode && !yamltree.IsNull(node) {
		d.errorf(node, "type", "%s must be a mapping, not %s", what, yamltree.Kind(node))
	}
	return yamltree.Pairs(node)
}

// sequence calls item for each element of a list. Null is an empty list.
func (d *document) sequence(node *yaml.Node, what string, item func(node *yaml.Node)) {
	if yamltree.IsNull(node) {
		return
	}
	if node.Kind != yaml.SequenceNode {
		d.errorf(node, "type", "%s must be a list, not %s", what, yamltree.Kind(node))
		return
	}
	for _, element := range node.Content {
		item(element)
	}
}
