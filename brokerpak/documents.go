package brokerpak

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
)

// A Document is a text of the pak together with its position: the content of a file, such as an OpenTofu file, or a
// part of a service definition, such as a block scalar. The position lets errors in the text name the line and column
// in the file of the pak. The zero Document is an empty text at an unknown position.
type Document expr.Source

// At translates a line and column of the text, both counted from 1, to the position in the file of the pak that
// contains the text. The column counts characters, not bytes, and must not be less than 1; AtByte accepts an offset in
// bytes. At returns the position of the start of the text if the line is less than 1, or if positions in the text are
// not known, for example because a folded scalar joined its lines. In a quoted scalar, a position after the end of the
// text becomes the column after the last character. Otherwise the line and column are not checked; they may be beyond
// the end of the text.
func (d Document) At(line, column int) diag.Pos { return expr.Source(d).At(line, column) }

// AtByte returns the position, in the file of the pak that contains the text, of the byte with this offset in the text,
// which counts from 0. It returns the position of the start of the text if positions in the text are not known. AtByte
// panics if the offset is negative or greater than the length of the text in bytes.
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

// CheckYAML parses the text as YAML and returns the errors in it, with their positions in the file of the pak. These
// are:
//   - The text is not exactly one valid YAML document.
//   - It is nested too deeply (200 levels) or has too many nodes (200,000) after aliases are resolved.
//   - A key is repeated or is not a scalar.
//   - A merged value is not a mapping or has a key that is not a string.
//   - YAML readers interpret a plain scalar differently, such as yes or 012, or JSON cannot represent it, such as .inf.
//
// The list is never nil, and is empty if the text has no such error.
func (d Document) CheckYAML() *diag.List {
	_, diags := d.Tree()
	return diags
}

// Tree parses the text, which must be exactly one YAML document, and returns its root node, in which aliases and merge
// keys are resolved. diags contains the errors, with their positions in the file of the pak; it is never nil, and is
// empty if there are none.
//
// The root is nil if the text is not exactly one valid YAML document, or if it is nested too deeply (200 levels) or
// has too many nodes (200,000) after aliases are resolved. The other errors do not prevent a root:
//   - A plain scalar that YAML readers interpret differently, such as yes or 012, or that JSON cannot represent, such
//     as .inf, stays in the tree.
//   - Of a repeated key, the first value stays in the tree.
//   - A key that is not a scalar, a merged value that is not a mapping and a merged key that is not a string are left
//     out of the tree.
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

// isAmbiguous reports whether YAML readers interpret the text of a plain scalar (one without quotes) differently: words
// such as y and on, octal and base-60 numbers, digit groups, exponents and dates. It also returns true for numbers that
// JSON cannot represent, such as .inf, and false for the empty text. The check before the regular expression is for
// speed: ambiguous words have at most three letters, and ambiguous numbers begin like numbers.
func isAmbiguous(text string) bool {
	return (len(text) <= 3 || strings.IndexByte("+-.0123456789", text[0]) >= 0) && ambiguous.MatchString(text)
}

// checkScalars adds an error to diags for every ambiguous plain scalar (see isAmbiguous) in the tree whose root is
// node, including the node itself and the keys of mappings. A scalar with a tag, as in !!str yes, is not ambiguous. The
// position of the error is that of the scalar in the file of the pak. The nodes must be those of the text of d.
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
