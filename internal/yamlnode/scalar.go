package yamlnode

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// scalar reads a plain or quoted scalar that ends in its line; inFlow tells whether it stands within a flow collection.
func (p *parser) scalar(inFlow bool) *yaml.Node {
	switch {
	case p.at('"'):
		return p.doubleQuoted()
	case p.at('\''):
		return p.singleQuoted()
	default:
		return p.plain(inFlow)
	}
}

// plain reads a plain scalar up to the blanks behind it.
func (p *parser) plain(inFlow bool) *yaml.Node {
	if p.pos == len(p.text) || strings.IndexByte("?:,[]{}#&*!|>'\"%@`\t\n", p.text[p.pos]) >= 0 || p.dash() {
		return nil
	}
	// All bytes that matter but the brackets are below 64.
	const indicators uint64 = 1<<'\n' | 1<<'\t' | 1<<':' | 1<<',' | 1<<'?' | 1<<'#'
	text, begin := p.text, p.pos
	end := begin
scan:
	for ; end < len(text); end++ {
		switch c := text[end]; {
		case 'a' <= c && c <= 'z':
		case c < 64 && indicators>>c&1 != 0:
			switch {
			case c == '\t', inFlow && c == '?':
				return nil
			case c == '\n', c == ':' && p.blank(end+1), c == '#' && text[end-1] == ' ', inFlow && c == ',':
				break scan
			}
		case inFlow && (c|0x20 == '{' || c|0x20 == '}'):
			break scan
		}
	}
	for text[end-1] == ' ' {
		end--
	}
	value := text[begin:end]
	if value == "<<" {
		return nil
	}
	node := p.node(yaml.ScalarNode, tagOf(value), begin)
	node.Value, p.pos = value, end
	return node
}

// tagOf is the tag of a plain scalar that is not empty and no merge.
func tagOf(value string) string {
	switch c := value[0]; c {
	case 'y', 'Y', 'n', 'N', 't', 'T', 'f', 'F', 'o', 'O', '~':
		switch value {
		case "true", "True", "TRUE", "false", "False", "FALSE":
			return "!!bool"
		case "~", "null", "Null", "NULL":
			return "!!null"
		}
	case '+', '-', '.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if isDecimal(value) {
			return "!!int"
		}
		return (&yaml.Node{Kind: yaml.ScalarNode, Value: value}).ShortTag()
	}
	return "!!str"
}

// isDecimal tells whether a text is an ordinary integer without a sign.
func isDecimal(text string) bool {
	const safe = 18 // digits, of a number below 1<<63
	if len(text) > safe || text[0] == '0' && len(text) > 1 {
		return false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}

func (p *parser) singleQuoted() *yaml.Node {
	node := p.node(yaml.ScalarNode, "!!str", p.pos)
	node.Style = yaml.SingleQuotedStyle
	p.pos++
	begin, doubled := p.pos, false
	for ; p.pos < len(p.text) && p.text[p.pos] != '\n'; p.pos++ {
		if p.text[p.pos] != '\'' {
			continue
		}
		if p.pos+1 < len(p.text) && p.text[p.pos+1] == '\'' {
			doubled = true
			p.pos++
			continue
		}
		node.Value = p.text[begin:p.pos]
		if doubled {
			node.Value = strings.ReplaceAll(node.Value, "''", "'")
		}
		p.pos++
		return node
	}
	return nil
}

func (p *parser) doubleQuoted() *yaml.Node {
	node := p.node(yaml.ScalarNode, "!!str", p.pos)
	node.Style = yaml.DoubleQuotedStyle
	p.pos++
	begin := p.pos // of what is not yet in scratch
	p.scratch = p.scratch[:0]
	for p.pos < len(p.text) && p.text[p.pos] != '\n' {
		switch p.text[p.pos] {
		case '"':
			node.Value = p.text[begin:p.pos]
			if len(p.scratch) > 0 {
				node.Value = string(append(p.scratch, node.Value...))
			}
			p.pos++
			return node
		case '\\':
			p.scratch = append(p.scratch, p.text[begin:p.pos]...)
			if !p.escape() {
				return nil
			}
			begin = p.pos
		default:
			p.pos++
		}
	}
	return nil
}

// escape adds the character of an escape sequence to scratch; false for one that is left to the library.
func (p *parser) escape() bool {
	if p.pos+1 == len(p.text) {
		return false
	}
	const letters, characters = `0abtnvfre "'\`, "\x00\a\b\t\n\v\f\r\x1b \"'\\"
	letter := p.text[p.pos+1]
	p.pos += 2
	if i := strings.IndexByte(letters, letter); i >= 0 {
		p.scratch = append(p.scratch, characters[i])
		return true
	}
	var digits int
	switch letter {
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		return false
	}
	if p.pos+digits > len(p.text) {
		return false
	}
	code, err := strconv.ParseUint(p.text[p.pos:p.pos+digits], 16, 31)
	if err != nil || !utf8.ValidRune(rune(code)) {
		return false
	}
	p.scratch = utf8.AppendRune(p.scratch, rune(code))
	p.pos += digits
	return true
}
