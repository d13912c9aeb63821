package yamltree

import (
	"fmt"
	"iter"
	"slices"

	"gopkg.in/yaml.v3"
)

// The bounds of a flat tree. Aliases and merges can multiply a small text without end; the largest published definitions have a
// few thousand nodes. The bound on the depth also ends those that contain themselves.
const (
	maxNodes   = 200_000
	maxNesting = 200
)

// Unbounded is the rule of a fault after which a tree is of no use: it is deeper or larger than the bounds.
const Unbounded = "yaml-aliases"

// Fault is something in a text that readers disagree about or cannot use.
type Fault struct {
	// Node is where it stands.
	Node *yaml.Node
	// Rule is Unbounded, "type" or "duplicate-key".
	Rule    string
	Message string
}

// Flatten returns a copy of a tree in which aliases and merges are followed. A key of a mapping itself wins over merged ones, the first
// merged mapping over later ones. Keys that are faults are left out. Places are kept, comments are not.
func Flatten(root *yaml.Node) (*yaml.Node, []Fault) {
	f := &flattener{}
	return f.node(root, 0), f.faults
}

type flattener struct {
	visited   int
	exhausted bool
	faults    []Fault
}

func (f *flattener) faultf(node *yaml.Node, rule, format string, args ...any) {
	if !f.exhausted {
		f.faults = append(f.faults, Fault{Node: node, Rule: rule, Message: fmt.Sprintf(format, args...)})
	}
	f.exhausted = f.exhausted || rule == Unbounded
}

// spend counts nodes and tells whether the tree is still within its bounds.
func (f *flattener) spend(node *yaml.Node, depth int) bool {
	f.visited += 1 + len(node.Content)
	if depth > maxNesting {
		f.faultf(node, Unbounded, "nested more than %d levels deep, or an alias or merge that contains itself", maxNesting)
	}
	if f.visited > maxNodes {
		f.faultf(node, Unbounded, "the file has more than %d nodes with its aliases and merges followed", maxNodes)
	}
	return !f.exhausted
}

func (f *flattener) node(node *yaml.Node, depth int) *yaml.Node {
	node = resolve(node)
	flat := &yaml.Node{Kind: node.Kind, Style: node.Style, Tag: node.Tag, Value: node.Value, Line: node.Line, Column: node.Column}
	if !f.spend(node, depth) {
		return flat
	}
	switch node.Kind {
	case yaml.MappingNode:
		for _, p := range f.pairs(node, depth) {
			flat.Content = append(flat.Content, f.node(p.key, depth+1), f.node(p.value, depth+1))
		}
	case yaml.SequenceNode:
		for _, element := range node.Content {
			flat.Content = append(flat.Content, f.node(element, depth+1))
		}
	}
	return flat
}

type pair struct{ key, value *yaml.Node }

// pairs returns the keys and values of a mapping: first its own, then those that it inherits.
func (f *flattener) pairs(mapping *yaml.Node, depth int) []pair {
	var own []pair
	var merges []*yaml.Node
	seen := map[string]bool{}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, item := resolve(mapping.Content[i]), mapping.Content[i+1]
		switch {
		case key.ShortTag() == "!!merge":
			merges = append(merges, item)
		case key.Kind != yaml.ScalarNode:
			f.faultf(key, "type", "a key must be a scalar, not %s", Kind(key))
		case seen[key.Value]:
			f.faultf(key, "duplicate-key", "key %q is there twice", key.Value)
		default:
			seen[key.Value] = true
			own = append(own, pair{key, item})
		}
	}
	for _, merge := range merges {
		for _, inherited := range f.inherited(merge, depth+1) {
			if !seen[inherited.key.Value] {
				seen[inherited.key.Value] = true
				own = append(own, inherited)
			}
		}
	}
	return own
}

// inherited returns what a mapping, or each mapping of a list, gives to the one that merges it.
func (f *flattener) inherited(merge *yaml.Node, depth int) []pair {
	sources := []*yaml.Node{merge}
	if list := resolve(merge); list.Kind == yaml.SequenceNode {
		sources = list.Content
	}
	var all []pair
	for _, source := range sources {
		mapping := resolve(source)
		if mapping.Kind != yaml.MappingNode {
			f.faultf(source, "type", "the value of << must be a mapping, not %s", Kind(mapping))
			continue
		}
		if !f.spend(mapping, depth) {
			return nil
		}
		for _, p := range f.pairs(mapping, depth) {
			if p.key.ShortTag() != "!!str" {
				// Readers lose null where it is merged, and make texts of numbers.
				f.faultf(p.key, "type", "a key that is merged must be a string, not %s", Kind(p.key))
				continue
			}
			all = append(all, p)
		}
	}
	return all
}

func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias // never an alias itself
	}
	return node
}

// Kind names what a node is, in words of YAML: "a mapping", "a list", "null", "a string", or the scalar in quotes.
func Kind(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case node.ShortTag() == "!!null":
		return "null"
	case node.ShortTag() == "!!str":
		return "a string"
	default:
		return fmt.Sprintf("%q", node.Value)
	}
}

// IsNull tells whether a node is a null.
func IsNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" }

// Pairs yields the keys and values of a mapping of a flat tree; none where the node is no mapping or nil.
func Pairs(mapping *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		if mapping == nil || mapping.Kind != yaml.MappingNode {
			return
		}
		for pair := range slices.Chunk(mapping.Content, 2) {
			if !yield(pair[0], pair[1]) {
				return
			}
		}
	}
}

// Get returns a key of a mapping of a flat tree and its value; nil where it has none, and where the node is no mapping or nil.
func Get(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	for key, value := range Pairs(mapping) {
		if key.Value == name {
			return key, value
		}
	}
	return nil, nil
}

// Set sets a key of a mapping, at its place or at the end, and writes the mapping as a block: a text of many lines is unreadable elsewhere.
func Set(mapping *yaml.Node, name string, value *yaml.Node) {
	mapping.Style &^= yaml.FlowStyle
	if key, _ := Get(mapping, name); key != nil {
		mapping.Content[slices.Index(mapping.Content, key)+1] = value
		return
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, value)
}
