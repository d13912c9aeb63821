// Package yamltree reads YAML into trees of nodes that are easy to walk, and writes YAML. A flat tree is one in which
// Flatten has resolved all aliases and merge keys (<<); its nodes keep their lines and columns. No other package
// handles aliases and merge keys.
package yamltree

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// Read returns the root nodes of the first and the second document of a YAML text. second is nil if the text has only
// one document; if the text after the first document is not valid YAML, it is an empty string node, so that callers
// still notice it. Further documents are not read. Aliases and merge keys are not resolved. The error is io.EOF if the
// text contains no document, because it is empty or contains only comments; any other error is that of the YAML
// library, and may quote values (see SyntaxError). Both nodes are nil then.
func Read(text string) (first, second *yaml.Node, err error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, nil, err
	}
	var next yaml.Node
	switch after := decoder.Decode(&next); {
	case after == nil:
		second = next.Content[0]
	case !errors.Is(after, io.EOF): // further text, which is not valid YAML
		second = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}
	}
	return document.Content[0], second, nil
}

// Encode returns a node, or any value that the YAML library can encode, as YAML with an indentation of two spaces. It
// returns an error if the library does, for example because a value's own method for encoding fails; the text is
// incomplete then. It panics for a Go type that the library does not support, such as a function.
func Encode(of any) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := errors.Join(encoder.Encode(of), encoder.Close())
	return out.Bytes(), err
}

// SyntaxError returns a description of an error of the YAML library, which must not be nil, without the values that its
// message may quote. It is "not valid YAML near line 3" if the library names a line, a hint to quote the text if an
// alias has no anchor, and "not valid YAML" otherwise.
func SyntaxError(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.HasPrefix(text, "unknown anchor") {
		return "not valid YAML: a text that begins with * must be quoted"
	}
	if line := regexp.MustCompile(`\bline (\d+)`).FindStringSubmatch(text); line != nil {
		// The library names the line at which it noticed the error, which may be after the cause.
		return "not valid YAML near line " + line[1]
	}
	return "not valid YAML"
}
