package paklint

import (
	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
	"service-adapter/internal/yamltree"
)

// places finds the places of keys and values in a YAML file, starting from a place that the parser told.
type places struct {
	file  string
	root  *yaml.Node
	nodes map[[2]int]*yaml.Node
}

// readPlaces parses a file; false when it is no YAML mapping.
func readPlaces(file, text string) (*places, bool) {
	first, _, err := yamltree.Read(text)
	if err != nil || first.Kind != yaml.MappingNode {
		return nil, false
	}
	root, _ := yamltree.Flatten(first)
	p := &places{file: file, root: root, nodes: map[[2]int]*yaml.Node{}}
	p.add(p.root)
	return p, true
}

// add notes a node before its children: where a mapping begins with a key, the place is that of the mapping.
func (p *places) add(node *yaml.Node) {
	place := [2]int{node.Line, node.Column}
	if _, taken := p.nodes[place]; !taken {
		p.nodes[place] = node
	}
	for _, child := range node.Content {
		p.add(child)
	}
}

func (p *places) pos(node *yaml.Node) diag.Pos {
	return diag.Pos{File: p.file, Line: node.Line, Column: node.Column}
}

// node returns the node at a place of the file, or nil.
func (p *places) node(pos diag.Pos) *yaml.Node {
	if pos.File != p.file {
		return nil
	}
	return p.nodes[[2]int{pos.Line, pos.Column}]
}

// value returns the place of the value at a path of keys below the mapping at a place, or the place that is nearest to it. A
// zero place is the root of the file.
func (p *places) value(pos diag.Pos, path ...string) diag.Pos {
	_, at := p.find(pos, path...)
	return at
}

// key is the same for the last key itself.
func (p *places) key(pos diag.Pos, path ...string) diag.Pos {
	_, at := p.find(pos, path[:len(path)-1]...)
	if parent := p.node(at); parent != nil {
		if key, _ := yamltree.Get(parent, path[len(path)-1]); key != nil {
			return p.pos(key)
		}
	}
	return at
}

// get returns the value at a path of keys, or nil.
func (p *places) get(pos diag.Pos, path ...string) *yaml.Node {
	node, _ := p.find(pos, path...)
	return node
}

func (p *places) find(pos diag.Pos, path ...string) (*yaml.Node, diag.Pos) {
	node := p.node(pos)
	if pos == (diag.Pos{}) {
		node, pos = p.root, p.pos(p.root)
	}
	for _, name := range path {
		if node == nil {
			return nil, pos
		}
		_, value := yamltree.Get(node, name)
		if value == nil {
			return nil, pos
		}
		node, pos = value, p.pos(value)
	}
	return node, pos
}
