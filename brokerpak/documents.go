package brokerpak

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
)

// A Document is a text of the pak with its position: a file, or a part of a definition. The zero Document is an empty
// text at an unknown position.
type Document expr.Source

// At returns the position in the pak's file of a line and column of the text, both counted from 1. It returns the start
// of the text if the line is 0, or if positions in the text are not known; see expr.Source.Folded.
func (d Document) At(line, column int) diag.Pos { return expr.Source(d).At(line, column) }

// AtByte returns the position in the pak's file of a byte of the text, whose offset counts from 0. It is that of the
// start of the text if positions in the text are not known. AtByte panics if the offset is negative or greater than the
// length of the text.
func (d Document) AtByte(offset int) diag.Pos {
	before := d.Text[:offset]
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return d.At(strings.Count(before, "\n")+1, column)
}

// ambiguous matches plain scalars that have different values for YAML 1.1 readers (the broker, the BOSH library),
// YAML 1.2 readers and the Director's reader: y and on, octal and base-60 numbers, digit groups, exponents and dates.
// It also matches numbers that JSON cannot represent.
var ambiguous = regexp.MustCompile(
	`^(?i:y|n|yes|no|on|off)$|^[-+]?0[0-9_,]+$|^[-+]?0o[0-7]+$|^[-+]?[0-9]+([_,][0-9]+)+(\.[0-9_,]*)?$|` +
		`^[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?$|^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?$|` +
		`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$|^[-+]?\.(?i:inf|nan)$`)

// CheckYAML returns the diagnostics of Tree, all of which are errors: that the text is not exactly one valid YAML
// document, that its aliases expand to an excessively large tree, that a key or a merged value is faulty, or that YAML
// readers interpret a scalar differently. The list is empty, and not nil, if the text has no such problem. Positions
// are those in the pak's file.
func (d Document) CheckYAML() *diag.List {
	_, diags := d.Tree()
	return diags
}

// Tree parses the text, which must be exactly one YAML document, and returns its root node with aliases and merge keys
// resolved. The root is nil if the text is not exactly one valid YAML document, or if its aliases expand to an
// excessively large tree; diags contains the reason. The root is returned in spite of other errors in diags: scalars
// that YAML readers interpret differently, which stay in the tree, and repeated keys, keys that are not scalars and
// merged values that are not mappings, which are left out of it. diags is never nil, and empty if there are no errors.
func (d Document) Tree() (root *yaml.Node, diags *diag.List) {
	diags = &diag.List{}
	report := func(line, column int, rule, message string) {
		diags.Errorf(d.At(line, column), rule, "%s", message)
	}
	root, second := parseYAML(d.Text, "not valid YAML: the document is empty", report)
	switch {
	case root == nil:
		return nil, diags
	case second != nil:
		diags.Errorf(d.At(0, 0), "yaml-syntax", "not valid YAML: only one YAML document is allowed")
		return nil, diags
	}
	d.checkScalars(root, diags)
	return root, diags
}

// isAmbiguous reports whether YAML readers interpret the text of a plain scalar differently, or as a number that JSON
// cannot represent; see the expression ambiguous. The check before the regular expression is for speed: ambiguous words
// have at most three letters, and ambiguous numbers begin like numbers.
func isAmbiguous(text string) bool {
	return (len(text) <= 3 || strings.IndexByte("+-.0123456789", text[0]) >= 0) && ambiguous.MatchString(text)
}

// checkScalars adds an error to diags for every ambiguous plain scalar in the tree below a node, including keys.
func (d Document) checkScalars(node *yaml.Node, diags *diag.List) {
	if node.Kind == yaml.ScalarNode && node.Style == 0 && isAmbiguous(node.Value) {
		diags.Errorf(d.At(node.Line, node.Column), "yaml-ambiguous",
			"%s means different things to different YAML readers; "+
				"write \"%s\" in quotes, or true or false, or a plain decimal number", node.Value, node.Value)
	}
	for _, child := range node.Content {
		d.checkScalars(child, diags)
	}
}
