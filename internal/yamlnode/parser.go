package yamlnode

import (
	"math"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

const (
	// maxDepth bounds the nesting. The library allows 10,000 levels.
	maxDepth = 100
	// maxKey is the longest text of a key, in bytes. The library allows 1,024 characters up to the colon.
	maxKey = 1000
	// maxSlab is how many nodes are allocated at once. They fill the 20 kB that Go allocates for them.
	maxSlab = 134
)

// parser reads one text. Its methods that return a node return nil to decline the whole text.
type parser struct {
	text  string
	pos   int  // of the next byte
	line  int  // the line that pos is in, from 1
	start int  // where that line begins
	ascii bool // every character is one byte
	depth int

	// column is where the token at pos stands after next: at the beginning of a line, with as many spaces before it. It is -1
	// at the end of the text.
	column int

	measured, measuredColumn int // the last place whose column was counted, and that column from 1

	nodes    []yaml.Node  // allocated and free
	slab     int          // the number of nodes to allocate next
	pointers []*yaml.Node // the same for the contents of nodes
	stack    []*yaml.Node // the contents so far of the collections that are open
	scratch  []byte
}

// parse returns the document of a text, or nil when the text is not certainly one that it reads as the library does.
func parse(text string) *yaml.Node {
	ascii, ok := printable(text)
	if !ok {
		return nil
	}
	const bytesPerNode, maxStack = 16, 4096 // fewer bytes than most texts have for a node; 32 kB
	estimate := 8 + len(text)/bytesPerNode
	p := &parser{
		text: text, line: 1, ascii: ascii, measuredColumn: 1,
		slab: min(estimate, maxSlab), stack: make([]*yaml.Node, 0, min(estimate, maxStack)),
	}
	if !p.next() || p.column < 0 {
		return nil
	}
	document := p.node(yaml.DocumentNode, "", p.pos)
	switch {
	case p.marker() && text[p.pos] == '-':
		p.pos += len("---")
		if !p.rest(maxColumn) || p.column < 0 {
			return nil
		}
	case p.marker():
		return nil
	}
	root := p.block(-1, p.column)
	if root == nil || p.column >= 0 {
		return nil
	}
	p.stack = append(p.stack, root)
	document.Content = p.take(0)
	return document
}

// maxColumn is beyond every column.
const maxColumn = math.MaxInt

// printable tells whether a text has only characters that cannot be taken for a line break or refused, and whether all of them
// are ASCII.
func printable(text string) (ascii, ok bool) {
	const ones, high = 0x0101010101010101, 0x8080808080808080 // in each of eight bytes
	for i := 0; i < len(text); i++ {
		for len(text)-i >= 8 {
			t := text[i : i+8]
			eight := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
				uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
			// The high bit is set in some byte when one is below a space, a delete character or not ASCII.
			if ((eight-ones*' ')|((eight^ones*0x7f)-ones)|eight)&high != 0 {
				break
			}
			i += 8
		}
		if i == len(text) {
			break
		}
		switch c := text[i]; {
		case c >= ' ' && c <= '~', c == '\n', c == '\t':
		case c < utf8.RuneSelf:
			return false, false
		default:
			return false, printableUnicode(text[i:])
		}
	}
	return true, true
}

func printableUnicode(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	for _, c := range text {
		switch {
		case c < ' ' && c != '\n' && c != '\t', c >= 0x7f && c <= 0x9f: // control characters; the next line is one
			return false
		case c == 0x2028, c == 0x2029, c == 0xfeff, c == 0xfffe, c == 0xffff: // line breaks, byte order mark, no characters
			return false
		}
	}
	return true
}

// next goes to the next token that begins a line and notes its column. It starts at the beginning of a line, or behind a token,
// and is false when something follows that token in its line.
func (p *parser) next() bool {
	fresh := p.pos == p.start
	for {
		p.spaces()
		if p.pos == len(p.text) {
			p.column = -1
			return true
		}
		switch p.text[p.pos] {
		case '\n':
			p.newLine()
			fresh = true
		case '#':
			if p.pos > p.start && p.text[p.pos-1] != ' ' {
				return false
			}
			p.toLineEnd()
		case '\t':
			return false
		default:
			p.column = p.pos - p.start
			return fresh
		}
	}
}

// rest ends a value like next. What follows must belong to a collection in column limit, or to one around it: deeper it would
// continue the value. It must not be the marker of another document.
func (p *parser) rest(limit int) bool {
	return p.next() && p.column <= limit && !p.marker()
}

// marker tells whether the token at pos is the marker of the beginning or the end of a document.
func (p *parser) marker() bool {
	if p.column != 0 || p.pos != p.start {
		return false
	}
	line := p.text[p.start:]
	return (strings.HasPrefix(line, "---") || strings.HasPrefix(line, "...")) && p.blank(p.start+len("---"))
}

func (p *parser) spaces() {
	for p.pos < len(p.text) && p.text[p.pos] == ' ' {
		p.pos++
	}
}

func (p *parser) newLine() {
	p.pos++
	p.line++
	p.start = p.pos
}

func (p *parser) toLineEnd() {
	if length := strings.IndexByte(p.text[p.pos:], '\n'); length >= 0 {
		p.pos += length
	} else {
		p.pos = len(p.text)
	}
}

// at tells whether the next byte is c.
func (p *parser) at(c byte) bool {
	return p.pos < len(p.text) && p.text[p.pos] == c
}

// blank tells whether there is a blank, a line break or the end of the text at an offset.
func (p *parser) blank(offset int) bool {
	if offset >= len(p.text) {
		return true
	}
	c := p.text[offset]
	return c == ' ' || c == '\n' || c == '\t'
}

// node returns a new node for what begins at an offset in the current line.
func (p *parser) node(kind yaml.Kind, tag string, offset int) *yaml.Node {
	if len(p.nodes) == 0 {
		p.nodes = make([]yaml.Node, p.slab)
		p.slab = min(2*p.slab, maxSlab)
	}
	node := &p.nodes[0]
	p.nodes = p.nodes[1:]
	node.Kind, node.Tag, node.Line, node.Column = kind, tag, p.line, p.columnOf(offset)
	return node
}

// columnOf is the column of an offset in the current line, in characters from 1.
func (p *parser) columnOf(offset int) int {
	if p.ascii {
		return offset - p.start + 1
	}
	if p.measured < p.start || p.measured > offset {
		p.measured, p.measuredColumn = p.start, 1
	}
	p.measuredColumn += utf8.RuneCountInString(p.text[p.measured:offset])
	p.measured = offset
	return p.measuredColumn
}

// take removes the nodes of the stack from an index on and returns them as the content of a node, nil for none.
func (p *parser) take(from int) []*yaml.Node {
	count := len(p.stack) - from
	if count == 0 {
		return nil
	}
	const slab = 512 // pointers, 4 kB
	var content []*yaml.Node
	if count > slab/4 {
		content = make([]*yaml.Node, count)
	} else {
		if len(p.pointers) < count {
			p.pointers = make([]*yaml.Node, min(slab, 4*p.slab))
		}
		content = p.pointers[:count:count]
		p.pointers = p.pointers[count:]
	}
	copy(content, p.stack[from:])
	p.stack = p.stack[:from]
	return content
}
