package pakdoc

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// block is a YAML mapping with comments in the making. The zero value is an empty one.
type block struct {
	node    yaml.Node
	pending string // comments for the key that comes next
}

// comment writes a line before the key that is added next. A comment after the last key belongs to the end of the block.
func (b *block) comment(line string) {
	if b.pending != "" {
		b.pending += "\n"
	}
	indent := len(line) - len(strings.TrimLeft(line, " "))
	b.pending += "# " + line[:indent] + oneLine(line)
}

// add adds a key and a value of package value, a list of texts, or an int.
func (b *block) add(key string, item any) *block {
	var node yaml.Node
	if err := node.Encode(item); err != nil {
		node = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"} // only what is no value cannot be encoded
	}
	if len(node.Content) > 0 && node.Content[0].Kind == yaml.ScalarNode && node.Kind == yaml.SequenceNode {
		node.Style = yaml.FlowStyle
	}
	b.put(key, &node)
	return b
}

func (b *block) addBlock(key string, nested *block) { b.put(key, nested.finished()) }

func (b *block) addList(key string, items []*block) {
	node := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, item := range items {
		node.Content = append(node.Content, item.finished())
	}
	b.put(key, node)
}

func (b *block) put(key string, item *yaml.Node) {
	name := &yaml.Node{}
	name.SetString(key)
	name.HeadComment, b.pending = b.pending, ""
	b.node.Content = append(b.node.Content, name, item)
}

// finished returns the mapping.
func (b *block) finished() *yaml.Node {
	b.node.Kind, b.node.Tag = yaml.MappingNode, "!!map"
	if len(b.node.Content) == 0 {
		b.node.Style = yaml.FlowStyle
		b.node.HeadComment = b.pending
	} else if b.pending != "" {
		b.node.Content[len(b.node.Content)-2].FootComment = b.pending
	}
	b.pending = ""
	return &b.node
}
