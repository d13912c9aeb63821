package pakbuild

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// maxNodes and maxNesting bound what aliases and merges may multiply a file to, as where paks are read.
const (
	maxNodes   = 200_000
	maxNesting = 200
)

// parseFlat parses the first document of a text and resolves its aliases and merges, which not all readers of built paks
// need to understand. Places are kept, comments are not. A key of a mapping wins over merged ones.
func parseFlat(text []byte) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return nil, errors.New("the file is empty")
	}
	f := &flattener{}
	root := f.node(document.Content[0], 0)
	if f.err != nil {
		return nil, f.err
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("the file must hold a mapping")
	}
	return root, nil
}

type flattener struct {
	visited int
	err     error
}

func (f *flattener) node(node *yaml.Node, depth int) *yaml.Node {
	node = resolve(node)
	flat := &yaml.Node{Kind: node.Kind, Style: node.Style, Tag: node.Tag, Value: node.Value, Line: node.Line, Column: node.Column}
	f.visited += 1 + len(node.Content)
	if depth > maxNesting || f.visited > maxNodes {
		f.err = fmt.Errorf("line %d: the file is too deep or too large with its aliases and merges followed", node.Line)
	}
	if f.err != nil {
		return flat
	}
	switch node.Kind {
	case yaml.MappingNode:
		for _, pair := range f.pairs(node, depth) {
			flat.Content = append(flat.Content, f.node(pair[0], depth+1), f.node(pair[1], depth+1))
		}
	case yaml.SequenceNode:
		for _, element := range node.Content {
			flat.Content = append(flat.Content, f.node(element, depth+1))
		}
	case yaml.ScalarNode:
		if flat.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			flat.Style = textStyle(flat.Value)
		}
	}
	return flat
}

// pairs returns keys and values of a mapping with merges applied: first its own keys, then those of each merged mapping.
func (f *flattener) pairs(node *yaml.Node, depth int) [][2]*yaml.Node {
	mapping := resolve(node)
	f.visited += 1 + len(mapping.Content)
	if depth > maxNesting || f.visited > maxNodes {
		f.err = fmt.Errorf("line %d: the file is too deep or too large with its aliases and merges followed", node.Line)
		return nil
	}
	if mapping.Kind != yaml.MappingNode {
		f.err = fmt.Errorf("line %d: the value of << must be a mapping", node.Line)
		return nil
	}
	var pairs [][2]*yaml.Node
	var merges []*yaml.Node
	seen := map[string]bool{}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, item := resolve(mapping.Content[i]), mapping.Content[i+1]
		if key.Tag == "!!merge" {
			merges = append(merges, item)
			continue
		}
		seen[key.Value] = true
		pairs = append(pairs, [2]*yaml.Node{key, item})
	}
	for _, merge := range merges {
		sources := []*yaml.Node{merge}
		if list := resolve(merge); list.Kind == yaml.SequenceNode {
			sources = list.Content
		}
		for _, source := range sources {
			for _, inherited := range f.pairs(source, depth+1) {
				if inherited[0].ShortTag() != "!!str" {
					// Readers lose null where it is merged, and make texts of numbers.
					f.err = fmt.Errorf("line %d: a key that is merged must be a text", inherited[0].Line)
					return nil
				}
				if !seen[inherited[0].Value] {
					seen[inherited[0].Value] = true
					pairs = append(pairs, inherited)
				}
			}
		}
	}
	return pairs
}

func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias // never an alias itself
	}
	return node
}

// get returns the value of a mapping's key, nil where it has none or where the node is no mapping.
func get(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// rename gives a key another name and value, at the same place.
func rename(mapping *yaml.Node, from, to string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == from {
			mapping.Style &^= yaml.FlowStyle // a text of many lines is unreadable there
			mapping.Content[i].Value, mapping.Content[i+1] = to, value
		}
	}
}

// remove deletes a key.
func remove(mapping *yaml.Node, key string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content = append(mapping.Content[:i], mapping.Content[i+2:]...)
			return
		}
	}
}

// set replaces the value of a key, or adds the key.
func set(mapping *yaml.Node, key string, value *yaml.Node) {
	remove(mapping, key)
	mapping.Style &^= yaml.FlowStyle
	mapping.Content = append(mapping.Content, textNode(key), value)
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
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(root), encoder.Close()); err != nil {
		return nil, err
	}
	var again yaml.Node
	if err := yaml.Unmarshal(out.Bytes(), &again); err != nil {
		return nil, fmt.Errorf("reading what was written: %w", err)
	}
	if !same(root, again.Content[0]) {
		return nil, errors.New("the file holds a text that cannot be written as YAML")
	}
	return out.Bytes(), nil
}

func same(a, b *yaml.Node) bool {
	if a.Kind != b.Kind || a.ShortTag() != b.ShortTag() || a.Value != b.Value || len(a.Content) != len(b.Content) {
		return false
	}
	for i := range a.Content {
		if !same(a.Content[i], b.Content[i]) {
			return false
		}
	}
	return true
}
