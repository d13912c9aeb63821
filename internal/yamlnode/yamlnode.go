// Package yamlnode reads YAML into the nodes of gopkg.in/yaml.v3, several times faster than that library where a text keeps to
// the plain part of YAML that brokerpaks and manifests are written in.
//
// A parser of its own reads that part: block mappings and sequences, scalars on one line, literal and folded blocks, flow
// collections on one line and comments. Whatever else a text holds -- anchors, tags, merges, scalars of several lines, tabs
// in the indentation, a second document, an error -- it gives the whole text to the library, whose nodes and errors they are
// then. Where the parser does not decline, its nodes are those of the library in every field but the comments, which are left
// out; FuzzParse holds it to that.
package yamlnode

import (
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// Parse returns the first document of a text: a DocumentNode with one child, as yaml.Decoder gives it, but without comments.
// The error is io.EOF for a text without a document, or that of the library.
func Parse(text string) (*yaml.Node, error) {
	return NewDecoder(text).Decode()
}

// Decoder gives the documents of a text one after the other.
type Decoder struct {
	text    string
	begun   bool
	library *yaml.Decoder // nil where the text is one document that was read without it
}

// NewDecoder returns a decoder for a text, of which the nodes keep parts.
func NewDecoder(text string) *Decoder {
	return &Decoder{text: text}
}

// Decode returns the next document like Parse the first one; io.EOF after the last.
func (d *Decoder) Decode() (*yaml.Node, error) {
	if !d.begun {
		d.begun = true
		if document := parse(d.text); document != nil {
			return document, nil
		}
		d.library = yaml.NewDecoder(strings.NewReader(d.text))
	}
	if d.library == nil {
		return nil, io.EOF
	}
	var document yaml.Node
	if err := d.library.Decode(&document); err != nil {
		return nil, err
	}
	return &document, nil
}
