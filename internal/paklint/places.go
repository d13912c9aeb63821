package paklint

import (
	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
	"service-adapter/internal/yamltree"
)

// places finds the places of keys and values in a YAML file, starting from a place that the parser told.
type places struct {
	file  string
	nodes map[diag.Pos]*yaml.Node // the zero place is that of the root
}

// readPlaces parses a file; false when it is no YAML mapping.
func readPlaces(file, text string) (*places, bool) {
	first, _, err := yamltree.Read(text)
	if err != nil || first.Kind != yaml.MappingNode {
		return nil, false
	}
	flat, _ := yamltree.Flatten(first)
	p := &places{file: file, nodes: map[diag.Pos]*yaml.Node{root: flat}}
	p.add(flat)
	return p, true
}

// add notes a node before its children: where a mapping begins with a key, the place is that of the mapping.
func (p *places) add(node *yaml.Node) {
	if pos := p.pos(node); p.nodes[pos] == nil {
		p.nodes[pos] = node
	}
	for _, child := range node.Content {
		p.add(child)
	}
}

func (p *places) pos(node *yaml.Node) diag.Pos {
	return diag.Pos{File: p.file, Line: node.Line, Column: node.Column}
}

// get returns the value at a path of keys below the mapping at a place, or nil.
func (p *places) get(pos diag.Pos, path ...string) *yaml.Node {
	node := p.nodes[pos]
	for _, name := range path {
		_, node = yamltree.Get(node, name)
	}
	return node
}

// value returns the place of that value, or the place that is nearest to it.
func (p *places) value(pos diag.Pos, path ...string) diag.Pos {
	for end := len(path); end >= 0; end-- {
		if node := p.get(pos, path[:end]...); node != nil {
			return p.pos(node)
		}
	}
	return pos
}

// key is the same for the last key itself.
func (p *places) key(pos diag.Pos, path ...string) diag.Pos {
	last := len(path) - 1
	if key, _ := yamltree.Get(p.get(pos, path[:last]...), path[last]); key != nil {
		return p.pos(key)
	}
	return p.value(pos, path[:last]...)
}
