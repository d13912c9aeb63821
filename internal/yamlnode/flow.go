package yamlnode

import "gopkg.in/yaml.v3"

// flow reads a mapping in braces or a sequence in brackets that ends in the same line.
func (p *parser) flow() *yaml.Node {
	if p.depth >= maxDepth {
		return nil
	}
	p.depth++
	defer func() { p.depth-- }()
	node, closing := p.node(yaml.SequenceNode, "!!seq", p.pos), byte(']')
	if p.at('{') {
		node.Kind, node.Tag, closing = yaml.MappingNode, "!!map", '}'
	}
	node.Style = yaml.FlowStyle
	first := len(p.stack)
	p.pos++
	for {
		p.spaces()
		if p.at(closing) {
			break
		}
		if closing == '}' && !p.flowKey() {
			return nil
		}
		value := p.flowValue(closing == '}')
		if value == nil {
			return nil
		}
		p.stack = append(p.stack, value)
		p.spaces()
		if p.at(',') {
			p.pos++
		} else if !p.at(closing) {
			return nil
		}
	}
	p.pos++
	node.Content = p.take(first)
	return node
}

// flowKey reads a key with its colon and puts it on the stack.
func (p *parser) flowKey() bool {
	begin := p.pos
	key := p.scalar(true)
	if key == nil {
		return false
	}
	p.spaces()
	if !p.at(':') || p.pos-begin > maxKey {
		return false
	}
	p.pos++
	p.spaces()
	p.stack = append(p.stack, key)
	return true
}

// flowValue reads a value. That of a key may be left out; it is null then, where the comma or brace stands.
func (p *parser) flowValue(ofKey bool) *yaml.Node {
	if p.pos == len(p.text) {
		return nil
	}
	switch p.text[p.pos] {
	case '[', '{':
		return p.flow()
	case ',', '}':
		if ofKey {
			return p.node(yaml.ScalarNode, "!!null", p.pos)
		}
	}
	return p.scalar(true)
}
