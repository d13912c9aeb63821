package brokerpak

import (
	"errors"
	"io"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
	"service-adapter/internal/yamltree"
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
	first, second, err := yamltree.Read(d.Text)
	switch {
	case errors.Is(err, io.EOF):
		err = errors.New("the document is empty")
	case err == nil && second != nil:
		err = errors.New("only one YAML document is allowed")
	}
	if err != nil {
		line, message := syntaxFault(strings.Split(d.Text, "\n"), err)
		diags.Errorf(d.At(line, 0), "yaml-syntax", "not valid YAML: %s", message)
		return nil, diags
	}
	root, faults := yamltree.Flatten(first)
	for _, fault := range faults {
		diags.Errorf(d.At(fault.Node.Line, fault.Node.Column), fault.Rule, "%s", fault.Message)
		if fault.Rule == yamltree.Unbounded {
			return nil, diags
		}
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
