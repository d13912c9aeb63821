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

// A Fault is a part of a YAML text that is ambiguous or cannot be used, such as a repeated key. It contains the node
// with its line and column, the rule that it violates, which is Unbounded, "type" or "duplicate-key", and a message.
// Flatten returns it.
type Fault struct {
	// Node is the node that is at fault. It has the line and column.
	Node *yaml.Node
	// Rule is Unbounded, "type" or "duplicate-key".
	Rule string
	// Message describes the fault in one sentence without a final period.
	Message string
}

// Flatten returns a copy of a tree in which aliases and merge keys are resolved, and the faults in the tree, or nil if
// there are none. The root must not be nil or a document node; Read returns suitable nodes.
//
// A mapping's own keys take precedence over merged ones, and the first merged mapping over later ones. Of a repeated
// key, the first value is kept; other keys and merged values that are at fault are left out. Lines and columns are
// kept; comments and anchors are not.
//
// The faults, each with its Rule, are:
//
//   - "duplicate-key": a key that the mapping itself repeats.
//   - "type": a key that is not a scalar, a value of a merge key that is neither a mapping nor a list of mappings, or a
//     merged key that is not a string.
//   - Unbounded: a tree of more than 200 levels or 200,000 nodes after resolving, such as an alias that contains
//     itself. It is the last fault, and the copy is incomplete then.
func Flatten(root *yaml.Node) (*yaml.Node, []Fault) {
	f := &flattener{}
	return f.node(root, 0), f.faults
}

// A flattener holds the progress of one call of Flatten: the number of nodes so far, whether a bound was exceeded, and
// the faults so far. The zero value is ready to use for one tree.
type flattener struct {
	visited   int
	exhausted bool // a bound is exceeded; no further faults are recorded
	faults    []Fault
}

// faultf records a fault of a node with a rule, Unbounded, "type" or "duplicate-key", and a message, which format and
// args form. It does nothing if a bound was exceeded before. A fault of the rule Unbounded records that a bound is
// exceeded, and is therefore the last one.
func (f *flattener) faultf(node *yaml.Node, rule, format string, args ...any) {
	if !f.exhausted {
		f.faults = append(f.faults, Fault{Node: node, Rule: rule, Message: fmt.Sprintf(format, args...)})
	}
	f.exhausted = f.exhausted || rule == Unbounded
}

// spend adds a node and each of its children to the number of counted nodes, even if they have been counted before,
// and reports whether the tree is still within its bounds: at most 200 nodes above a node, and at most 200,000
// counted nodes. depth is the number of nodes above the node. If a bound is exceeded, spend records a fault of the
// rule Unbounded; from then on it returns false for every node.
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

// node returns the flat copy of a node, in which aliases and merge keys are resolved, and records the faults in and
// below it. depth is the number of nodes above it. An alias is replaced by a copy of its target. Once a bound is
// exceeded, which is recorded as a fault as well, the copy of that node and the copies of all nodes that are visited
// later have no content.
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

// A pair is a key of a mapping and its value. The key is not an alias, but the value may be one. The zero value, with
// nil nodes, is not valid.
type pair struct{ key, value *yaml.Node }

// pairs returns the keys and values of a mapping: first its own, and then those of the mappings that its merge keys <<
// name, unless an earlier key has the same text. The value of a merge key is a mapping or a list of mappings, of which
// the first ones take precedence. The values in the result are not yet flat. depth is the number of nodes above the
// mapping. The result is nil if there are no pairs.
//
// pairs records a fault for each key that is not a scalar and for each further key with the same text in one mapping,
// also in the merged mappings. It also records a fault for a value of a merge key that is neither a mapping nor a list,
// for each element of such a list that is not a mapping, and for each merged key that is not a string. These are left
// out; of a repeated key, the first stays. If a bound is exceeded in a merged mapping, which is recorded as a fault as
// well, the result is incomplete.
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

// inherited returns the pairs that a merge key << adds to a mapping. merge is the value of the merge key, a mapping or
// a list of mappings, which may be aliases; several pairs may have the same key, of which the first counts. depth is
// the number of nodes above that value. inherited records faults for values that are not mappings and for keys that are
// not strings, and leaves them out. It returns nil if there are no pairs. If a bound is exceeded, which is recorded as
// a fault as well, the result is nil or incomplete.
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
// as the number 12 or a boolean, it returns its text in quotation marks. The node must not be nil or an alias.
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

// IsNull reports whether a node is a null scalar, such as null, ~ or an empty value. The node must not be nil. An alias
// to a null is not one.
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

// Get returns the node of the key whose text is name in a mapping of a flat tree, and that of its value. The type of
// the key does not matter: "1" also finds the number 1. Both results are nil if the mapping does not have the key, and
// if the node is nil or not a mapping.
func Get(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	for key, value := range Pairs(mapping) {
		if key.Value == name {
			return key, value
		}
	}
	return nil, nil
}

// Set sets the value of the key name of a mapping in place, to the node value, which must not be nil. An existing key
// keeps its position; a new one is appended. mapping must be a mapping node of a flat tree; it is changed to block
// style, because values of many lines are unreadable in flow style.
func Set(mapping *yaml.Node, name string, value *yaml.Node) {
	mapping.Style &^= yaml.FlowStyle
	if key, _ := Get(mapping, name); key != nil {
		mapping.Content[slices.Index(mapping.Content, key)+1] = value
		return
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, value)
}
