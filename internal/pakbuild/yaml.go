package pakbuild

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/yamltree"
)

// parseFlat parses the first document of a text and resolves its aliases and merges, which not all readers of built paks
// need to understand. Places are kept, comments are not.
func parseFlat(text []byte) (*yaml.Node, error) {
	first, _, err := yamltree.Read(string(text))
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the file is empty")
	case err != nil:
		return nil, err
	}
	root, faults := yamltree.Flatten(first)
	if len(faults) > 0 {
		return nil, fmt.Errorf("line %d: %s", faults[0].Node.Line, faults[0].Message)
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("the file must hold a mapping")
	}
	restyle(root)
	return root, nil
}

// restyle chooses a style for blocks, which their indentation would not survive otherwise.
func restyle(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		node.Style = textStyle(node.Value)
	}
	for _, child := range node.Content {
		restyle(child)
	}
}

// get returns the value of a mapping's key, nil where it has none or where the node is no mapping.
func get(mapping *yaml.Node, key string) *yaml.Node {
	_, value := yamltree.Get(mapping, key)
	return value
}

// remove deletes a key.
func remove(mapping *yaml.Node, key string) {
	take(mapping, func(found string) bool { return found == key })
}

// take removes keys of what may be a mapping, and returns them.
func take(mapping *yaml.Node, which func(key string) bool) (taken []*yaml.Node) {
	for i := 0; mapping.Kind == yaml.MappingNode && i < len(mapping.Content); {
		if key := mapping.Content[i]; which(key.Value) {
			taken = append(taken, key)
			mapping.Content = slices.Delete(mapping.Content, i, i+2)
		} else {
			i += 2
		}
	}
	return taken
}

// textNode is a string.
func textNode(text string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if strings.ContainsAny(text, "\n\r") {
		node.Style = textStyle(text)
	}
	return node
}

// textStyle is the style of a text of several lines: a block, unless its first or last characters, or line breaks of other
// kinds, could be read as something else.
func textStyle(text string) yaml.Style {
	plain := utf8.ValidString(text) && !strings.ContainsAny(text, "\r\u0085\u2028\u2029\ufeff")
	if first := strings.IndexFunc(text, func(r rune) bool { return r != '\n' }); !plain || first != 0 || text[0] == ' ' || text[0] == '\t' {
		return yaml.DoubleQuotedStyle
	}
	return yaml.LiteralStyle
}

// encode writes a flat tree and makes sure that it reads as the same.
func encode(root *yaml.Node) ([]byte, error) {
	text, err := yamltree.Encode(root)
	if err != nil {
		return nil, err
	}
	var again yaml.Node
	if err := yaml.Unmarshal(text, &again); err != nil {
		return nil, fmt.Errorf("reading what was written: %w", err)
	}
	if !same(root, again.Content[0]) {
		return nil, errors.New("the file holds a text that cannot be written as YAML")
	}
	return text, nil
}

func same(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.ShortTag() == b.ShortTag() && a.Value == b.Value && slices.EqualFunc(a.Content, b.Content, same)
}
