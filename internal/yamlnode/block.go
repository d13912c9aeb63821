package yamlnode

import "gopkg.in/yaml.v3"

// block reads a node of the block style, whose first token is at pos in the given column. It lies within a collection in column
// parent, -1 for none. Afterwards pos is at the next token outside of it.
func (p *parser) block(parent, column int) *yaml.Node {
	if p.depth >= maxDepth {
		return nil
	}
	p.depth++
	defer func() { p.depth-- }()
	switch p.text[p.pos] {
	case '|', '>', '[', '{':
		return p.inline(parent)
	}
	if p.dash() {
		return p.sequence(column, false)
	}
	begin := p.pos
	scalar := p.scalar(false)
	if scalar == nil {
		return nil
	}
	p.spaces()
	if p.colon() {
		if p.pos-begin > maxKey {
			return nil
		}
		return p.mapping(column, scalar)
	}
	if !p.rest(parent) {
		return nil
	}
	return scalar
}

// dash tells whether the token at pos begins an element of a sequence.
func (p *parser) dash() bool {
	return p.at('-') && p.blank(p.pos+1)
}

// colon tells whether the token at pos is that between a key and its value.
func (p *parser) colon() bool {
	return p.at(':') && p.blank(p.pos+1)
}

// mapping reads a mapping behind its first key.
func (p *parser) mapping(column int, key *yaml.Node) *yaml.Node {
	mapping := p.node(yaml.MappingNode, "!!map", p.pos)
	mapping.Line, mapping.Column = key.Line, key.Column
	first := len(p.stack)
	for key != nil {
		value := p.value(column)
		if value == nil {
			return nil
		}
		p.stack = append(p.stack, key, value)
		switch {
		case p.column > column:
			return nil
		case p.column < column:
			mapping.Content = p.take(first)
			return mapping
		}
		key = p.key()
	}
	return nil
}

// key reads a key up to its colon.
func (p *parser) key() *yaml.Node {
	begin := p.pos
	key := p.scalar(false)
	if key == nil {
		return nil
	}
	p.spaces()
	if !p.colon() || p.pos-begin > maxKey {
		return nil
	}
	return key
}

// value reads the value of a key in a column, from the colon on.
func (p *parser) value(column int) *yaml.Node {
	p.pos++
	line, after := p.line, p.pos
	p.spaces()
	if !p.lineEnds() {
		return p.inline(column)
	}
	place := p.columnOf(after)
	if !p.rest(maxColumn) {
		return nil
	}
	switch {
	case p.column > column:
		return p.block(column, p.column)
	case p.column == column && p.dash():
		return p.sequence(column, true)
	}
	return p.null(line, place)
}

// lineEnds tells whether nothing but a comment follows in the line.
func (p *parser) lineEnds() bool {
	return p.pos == len(p.text) || p.at('\n') || p.at('#')
}

// null returns the value that is left out at a place.
func (p *parser) null(line, column int) *yaml.Node {
	node := p.node(yaml.ScalarNode, "!!null", p.pos)
	node.Line, node.Column = line, column
	return node
}

// sequence reads a sequence from its first dash on. Without an indentation of its own it stands in the column of the keys of the
// mapping that it is a value in, and ends before the next key.
func (p *parser) sequence(column int, unindented bool) *yaml.Node {
	sequence := p.node(yaml.SequenceNode, "!!seq", p.pos)
	first := len(p.stack)
	for {
		element := p.element(column)
		if element == nil {
			return nil
		}
		p.stack = append(p.stack, element)
		switch {
		case p.column == column && p.dash():
		case p.column < column, p.column == column && unindented:
			sequence.Content = p.take(first)
			return sequence
		default:
			return nil
		}
	}
}

// element reads an element of a sequence in a column, from its dash on.
func (p *parser) element(column int) *yaml.Node {
	p.pos++
	line, after := p.line, p.pos
	p.spaces()
	if !p.lineEnds() {
		return p.block(column, p.pos-p.start)
	}
	place := p.columnOf(after)
	if !p.rest(maxColumn) {
		return nil
	}
	if p.column > column {
		return p.block(column, p.column)
	}
	return p.null(line, place)
}

// inline reads a value that is no block collection and no key, within a collection in column parent, and goes to the token
// behind it.
func (p *parser) inline(parent int) *yaml.Node {
	var node *yaml.Node
	switch p.text[p.pos] {
	case '|', '>':
		node = p.blockScalar(parent)
	case '[', '{':
		node = p.flow()
	default:
		node = p.scalar(false)
	}
	if node == nil || !p.rest(parent) {
		return nil
	}
	return node
}
