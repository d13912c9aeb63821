// Package yamltree reads YAML into trees of nodes that are easy to walk, and writes it: nodes keep their places, and aliases and
// merges are followed. It is the only place that understands those two.
package yamltree

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// Read returns the root of the first document of a text and that of the second one, which is nil where there is none. Aliases and
// merges stand in them as in the text. The error is io.EOF for a text without a document, else that of the YAML library.
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
	case !errors.Is(after, io.EOF): // what follows is no YAML, but there is more
		second = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}
	}
	return document.Content[0], second, nil
}

// Encode writes a node, or what can become one, as YAML that is indented by two blanks.
func Encode(of any) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := errors.Join(encoder.Encode(of), encoder.Close())
	return out.Bytes(), err
}

// SyntaxError keeps of a message of a YAML library what cannot show a value.
func SyntaxError(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.HasPrefix(text, "unknown anchor") {
		return "no valid YAML: a text that begins with * must be quoted"
	}
	if line := regexp.MustCompile(`\bline (\d+)`).FindStringSubmatch(text); line != nil {
		// The library names the line where it noticed.
		return "no valid YAML near line " + line[1]
	}
	return "no valid YAML"
}
