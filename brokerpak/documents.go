package brokerpak

import (
	"errors"
	"io"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
	"service-adapter/internal/yamlnode"
)

// ambiguous are plain scalars that YAML 1.1 readers (the broker, the BOSH library), YAML 1.2 readers and the Director's reader
// take for different things: y and on, octal and base-60 numbers, digit groups, exponents, dates; and numbers that JSON lacks.
var ambiguous = regexp.MustCompile(
	`^(?i:y|n|yes|no|on|off)$|^[-+]?0[0-9_,]+$|^[-+]?0o[0-7]+$|^[-+]?[0-9]+([_,][0-9]+)+(\.[0-9_,]*)?$|` +
		`^[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?$|^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?$|` +
		`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$|^[-+]?\.(?i:inf|nan)$`)

// isAmbiguous looks at the beginning first: most texts are long and begin with a letter.
func isAmbiguous(text string) bool {
	const longestWord = 4 // bytes; in no case of its letters is a word longer
	if text == "" || !strings.Contains("+-.0123456789", text[:1]) && (len(text) > longestWord || !strings.Contains("yYnNoO", text[:1])) {
		return false
	}
	return ambiguous.MatchString(text)
}

// CheckYAML reports what is no YAML, and what readers of YAML disagree about, with its place in the pak.
func (d Document) CheckYAML() *diag.List {
	_, diags := d.Tree()
	return diags
}

// Tree is Node and CheckYAML in one. The document is nil where the text is not exactly one YAML document, which is among the
// errors then. Its nodes belong to the caller and have no comments.
func (d Document) Tree() (document *yaml.Node, diags *diag.List) {
	diags = &diag.List{}
	document, err := d.Node()
	if err != nil {
		line, message := syntaxFault(strings.Split(d.Text, "\n"), err)
		diags.Errorf(d.At(line, 0), "yaml-syntax", "not valid YAML: %s", message)
		return nil, diags
	}
	d.checkNode(document, diags)
	return document, diags
}

// Node parses the text, which must be exactly one YAML document; its root is the first content of the node. There are no
// comments.
func (d Document) Node() (*yaml.Node, error) {
	decoder := yamlnode.NewDecoder(d.Text)
	document, err := decoder.Decode()
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the document is empty")
	case err != nil:
		return nil, err
	}
	if _, err := decoder.Decode(); err == nil {
		return nil, errors.New("only one YAML document is allowed")
	}
	return document, nil
}

func (d Document) checkNode(node *yaml.Node, diags *diag.List) {
	if node.Kind == yaml.ScalarNode && node.Style == 0 && isAmbiguous(node.Value) {
		diags.Errorf(d.At(node.Line, node.Column), "yaml-ambiguous", "%s means different things to different YAML readers; "+
			"write \"%s\" in quotes, or true or false, or a plain decimal number", node.Value, node.Value)
	}
	if node.Kind == yaml.MappingNode {
		seen := make(map[string]bool, len(node.Content)/2)
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			if key.Tag != "!!merge" && key.Kind == yaml.ScalarNode && seen[key.Value] {
				diags.Errorf(d.At(key.Line, key.Column), "duplicate-key", "key %q is there twice", key.Value)
			}
			seen[key.Value] = true
		}
	}
	for _, child := range node.Content {
		d.checkNode(child, diags)
	}
}
