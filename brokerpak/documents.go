package brokerpak

import (
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
)

// ambiguous are plain scalars that YAML 1.1 readers (the broker, the BOSH library), YAML 1.2 readers and the Director's reader
// take for different things: y and on, octal and base-60 numbers, digit groups, exponents, dates; and numbers that JSON lacks.
var ambiguous = regexp.MustCompile(
	`^(?i:y|n|yes|no|on|off)$|^[-+]?0[0-9_,]+$|^[-+]?0o[0-7]+$|^[-+]?[0-9]+([_,][0-9]+)+(\.[0-9_,]*)?$|` +
		`^[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?$|^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?$|` +
		`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$|^[-+]?\.(?i:inf|nan)$`)

// CheckYAML reports what is no YAML, and what readers of YAML disagree about, with its place in the pak.
func (d Document) CheckYAML() *diag.List {
	_, diags := d.Tree()
	return diags
}

// Tree parses the text, which must be exactly one YAML document, and does what CheckYAML does. The tree is the root of the document
// with aliases and merges followed; it is nil where the text is not one document or cannot be followed, which is among the errors then.
func (d Document) Tree() (root *yaml.Node, diags *diag.List) {
	diags = &diag.List{}
	root, second := parse(d.Text, "not valid YAML: the document is empty", func(line, column int, rule, message string) {
		diags.Errorf(d.At(line, column), rule, "%s", message)
	})
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

// isAmbiguous tells whether readers take a plain scalar for different things. Words have at most three letters, numbers begin as such.
func isAmbiguous(text string) bool {
	return (len(text) <= 3 || strings.IndexByte("+-.0123456789", text[0]) >= 0) && ambiguous.MatchString(text)
}

func (d Document) checkScalars(node *yaml.Node, diags *diag.List) {
	if node.Kind == yaml.ScalarNode && node.Style == 0 && isAmbiguous(node.Value) {
		diags.Errorf(d.At(node.Line, node.Column), "yaml-ambiguous", "%s means different things to different YAML readers; "+
			"write \"%s\" in quotes, or true or false, or a plain decimal number", node.Value, node.Value)
	}
	for _, child := range node.Content {
		d.checkScalars(child, diags)
	}
}
