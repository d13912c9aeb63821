package manifestgen

import (
	"errors"
	"io"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
)

// ambiguous are plain scalars that YAML 1.1 readers (the broker, the BOSH library), YAML 1.2 readers and the Director's reader
// take for different things: y and on, octal and base-60 numbers, digit groups, dates.
var ambiguous = regexp.MustCompile(
	`^(?i:y|n|yes|no|on|off)$|^[-+]?0[0-7_]+$|^0o[0-7]+$|^[-+]?[0-9]+(_[0-9]+)+$|^[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?$|` +
		`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?$|^[-+]?[0-9]+[eE][-+]?[0-9]+$`)

// checkYAML refuses what readers of YAML disagree about, with its place in the template.
func checkYAML(document brokerpak.Document) error {
	diags := &diag.List{}
	decoder := yaml.NewDecoder(strings.NewReader(document.Text))
	var root, second yaml.Node
	if err := decoder.Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			diags.Errorf(document.Pos, "yaml-syntax", "the document is empty")
		} else {
			diags.Errorf(document.Pos, "yaml-syntax", "not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		}
		return diags.Err()
	}
	if err := decoder.Decode(&second); err == nil {
		diags.Errorf(document.Pos, "yaml-syntax", "only one YAML document is allowed")
	}
	lintNode(&root, document.Pos, diags)
	return diags.Err()
}

func lintNode(node *yaml.Node, start diag.Pos, diags *diag.List) {
	pos := diag.Pos{File: start.File, Line: start.Line + node.Line - 1, Column: node.Column}
	if node.Kind == yaml.ScalarNode && node.Style == 0 && ambiguous.MatchString(node.Value) {
		diags.Errorf(pos, "yaml-ambiguous", "%s means different things to different YAML readers; write \"%s\" in quotes, or true or "+
			"false, or a plain decimal number", node.Value, node.Value)
	}
	if node.Kind == yaml.MappingNode {
		seen := map[string]bool{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			if key.Tag != "!!merge" && key.Kind == yaml.ScalarNode && seen[key.Value] {
				diags.Errorf(diag.Pos{File: start.File, Line: start.Line + key.Line - 1, Column: key.Column},
					"duplicate-key", "key %q is there twice", key.Value)
			}
			seen[key.Value] = true
		}
	}
	for _, child := range node.Content {
		lintNode(child, start, diags)
	}
}
