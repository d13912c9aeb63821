package yamltree

import (
	"fmt"
	"iter"
	"slices"

	"gopkg.in/yaml.v3"
)

// The bounds of a flat tree. Aliases and merge keys can multiply a small text without limit; the largest published
// definitions have a few thousand nodes. The bound on the nesting also stops at nodes that contain themselves.
const (
	maxNodes   = 200_000
	maxNesting = 200
)

// Unbounded is the rule of the fault that a tree is nested too deeply or has too many nodes. Such a tree is incomplete
// and must not be used.
const Unbounded = "yaml-aliases"

// A Fault is a part of a YAML text that is ambiguous or cannot be used.
type Fault struct {
	// Node is the node that is at fault. It has the line and column.
	Node *yaml.Node
	// Rule is Unbounded, "type" or "duplicate-key".
	Rule string
	// Message describes the fault in one sentence without a final period.
	Message string
}

// Flatten returns a copy of a tree in which aliases and merge keys are resolved, and the faults in the tree. The root
// must not be a document node; Read returns suitable nodes. The list of faults is nil if there are none. A mapping's
// own keys take precedence over merged ones, and the first merged mapping over later ones. Of a repeated key, the first
// value is kept; other keys and merged values that are at fault are left out. Lines and columns are kept; comments and
// anchors are not. If a fault has the rule Unbounded, the copy is incomplete.
func Flatten(root *yaml.Node) (*yaml.Node, []Fault) {
	f := &flattener{}
	return f.node(root, 0), f.faults
}

// A flattener holds the progress and the faults of one call of Flatten.
type flattener struct {
	visited   int
	exhausted bool // a bound is exceeded; no further faults are recorded
	faults    []Fault
}

// faultf records a fault, unless a bound was exceeded before. A fault of the rule Unbounded is therefore the last one.
func (f *flattener) faultf(node *yaml.Node, rule, format string, args ...any) {
	if !f.exhausted {
		f.faults = append(f.faults, Fault{Node: node, Rule: rule, Message: fmt.Sprintf(format, args...)})
	}
	f.exhausted = f.exhausted || rule == Unbounded
}

// spend counts a node with its children and reports whether the tree is still within its bounds. depth is the number of
// nodes above the node. If a bound is exceeded, spend records a fault of the rule Unbounded.
func (f *flattener) spend(node *yaml.Node, depth int) bool {
	f.visited += 1 + len(node.Content)
	if depth > maxNesting {
		f.faultf(node, Unbounded, "nested more than %d levels deep, or an alias or merge that contains itself",
			maxNesting)
	}
	if f.visited > maxNodes {
		f.faultf(node, Unbounded, "the file has more than %d nodes after its aliases and merges are resolved", maxNodes)
	}
	return !f.exhausted
}

// node returns the flat copy of a node, and records the faults below it. depth is the number of nodes above it. The
// copy has no content if a bound is exceeded.
func (f *flattener) node(node *yaml.Node, depth int) *yaml.Node {
	node = resolve(node)
	flat := &yaml.Node{
		Kind: node.Kind, Style: node.Style, Tag: node.Tag, Value: node.Value, Line: node.Line, Column: node.Column,
	}
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

// A pair is a key of a mapping and its value.
type pair struct{ key, value *yaml.Node }

// pairs returns the keys and values of a mapping, first its own and then those that it merges. depth is the number of
// nodes above the mapping. pairs records faults for keys that are not scalars or that are repeated, and leaves these
// keys out. See inherited for the faults of merged mappings.
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
			f.faultf(key, "duplicate-key", "key %q is set twice", key.Value)
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

// inherited returns the pairs of the mapping, or of each mapping of the list, that is the value of a merge key. depth
// is the number of nodes above that value. inherited records faults for values that are not mappings and for keys that
// are not strings, and leaves them out. It returns nil if a bound is exceeded.
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
				// YAML readers lose null as a merged key, and turn numbers into strings.
				f.faultf(p.key, "type", "a key that is merged must be a string, not %s", Kind(p.key))
				continue
			}
			all = append(all, p)
		}
	}
	return all
}

// resolve returns the node that an alias refers to, and any other node itself.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias // which is never an alias itself
	}
	return node
}

// Kind describes a node for an error message: "a mapping", "a list", "null" or "a string". For any other scalar, such
// as a number, it returns the quoted text. The node must not be an alias.
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

// IsNull reports whether a node is a null scalar.
func IsNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" }

// Pairs yields the keys and values of a mapping in a flat tree. It yields nothing if the node is nil or not a mapping.
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

// Get returns the node of a key of a mapping in a flat tree, and that of its value. Both are nil if the mapping does
// not have the key, and if the node is nil or not a mapping.
func Get(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	for key, value := range Pairs(mapping) {
		if key.Value == name {
			return key, value
		}
	}
	return nil, nil
}

// Set sets a key of a mapping in place. An existing key keeps its position; a new one is appended. The mapping must be
// flat; it is changed to block style, because values of many lines are unreadable in flow style.
func Set(mapping *yaml.Node, name string, value *yaml.Node) {
	mapping.Style &^= yaml.FlowStyle
	if key, _ := Get(mapping, name); key != nil {
		mapping.Content[slices.Index(mapping.Content, key)+1] = value
		return
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, value)
}
