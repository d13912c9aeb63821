package yamlnode

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// blockScalar reads a literal or folded block within a collection in column parent, up to the beginning of the line behind it.
func (p *parser) blockScalar(parent int) *yaml.Node {
	node := p.node(yaml.ScalarNode, "!!str", p.pos)
	node.Style = yaml.LiteralStyle
	if p.at('>') {
		node.Style = yaml.FoldedStyle
	}
	p.pos++
	chomping := byte(0)
	if p.at('-') || p.at('+') {
		chomping = p.text[p.pos]
		p.pos++
	}
	behind := p.pos
	p.spaces()
	if p.at('#') && p.pos > behind {
		p.toLineEnd()
	}
	if !p.at('\n') {
		return nil
	}
	p.newLine()
	indent, empty, ok := p.indentation(max(parent+1, 1))
	switch {
	case !ok, indent == 0 && chomping == '+':
		return nil
	case indent == 0:
		return node
	}
	node.Value, ok = p.lines(indent, empty, node.Style == yaml.FoldedStyle, chomping)
	if !ok {
		return nil
	}
	return node
}

// indentation finds how far the lines of a block are indented, 0 for a block without any, and goes to the first one behind the
// empty lines, which it counts.
func (p *parser) indentation(least int) (indent, empty int, ok bool) {
	longest := 0
	for {
		p.spaces()
		indent = p.pos - p.start
		switch {
		case p.at('\n'):
			longest = max(longest, indent)
			empty++
			p.newLine()
			continue
		case p.at('\t'):
			return 0, 0, false
		}
		p.pos = p.start
		if indent < least || p.start+indent == len(p.text) {
			return 0, 0, true
		}
		return indent, empty, longest <= indent
	}
}

// lines joins the lines of a block from the first one that is not empty; so many empty ones stood before it.
func (p *parser) lines(indent, empty int, folded bool, chomping byte) (string, bool) {
	p.scratch = p.scratch[:0]
	var broken, indented bool // of the last line: whether a line break ends it, and a blank begins it
	for {
		for p.pos < len(p.text) && p.pos < p.start+indent && p.text[p.pos] == ' ' {
			p.pos++
		}
		if p.at('\n') {
			empty++
			p.newLine()
			continue
		}
		if p.pos == len(p.text) || p.pos < p.start+indent {
			break
		}
		begin := p.pos
		p.toLineEnd()
		line := p.text[begin:p.pos]
		blank := line[0] == ' ' || line[0] == '\t'
		switch {
		case folded && broken && !indented && !blank:
			if empty == 0 {
				p.scratch = append(p.scratch, ' ')
			}
		case broken:
			p.scratch = append(p.scratch, '\n')
		}
		for ; empty > 0; empty-- {
			p.scratch = append(p.scratch, '\n')
		}
		p.scratch = append(p.scratch, line...)
		indented, broken = blank, p.at('\n')
		if broken {
			p.newLine()
		}
	}
	if p.at('\t') {
		return "", false
	}
	if p.pos < len(p.text) {
		p.pos = p.start
	}
	if broken && chomping != '-' {
		p.scratch = append(p.scratch, '\n')
	}
	if chomping == '+' {
		p.scratch = append(p.scratch, strings.Repeat("\n", empty)...)
	}
	return string(p.scratch), true
}
