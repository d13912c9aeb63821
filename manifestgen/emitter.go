package manifestgen

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
)

// emitter writes the usual trees as the YAML library does, byte for byte, at a small part of its cost. It gives up on what is
// unusual.
type emitter struct {
	out     strings.Builder
	unusual bool
}

// emit returns the text of a tree, and false when it gave up.
func emit(tree map[string]any) (string, bool) {
	if len(tree) == 0 {
		return "", false
	}
	e := &emitter{}
	e.out.Grow(room(tree, 0))
	e.mapping(tree, 0)
	return e.out.String(), !e.unusual
}

// room estimates the bytes of a value's text, so that a large one is not copied while it grows.
func room(v any, indent int) int {
	const around = 4 // the signs and the line break around a scalar
	size := around
	switch item := v.(type) {
	case string:
		size += len(item)
	case []any:
		for _, element := range item {
			size += indent + step + room(element, indent+step)
		}
	case map[string]any:
		for key, element := range item {
			size += indent + len(key) + room(element, indent+step)
		}
	default:
		const number = 12
		size += number
	}
	return size
}

// step is the indentation of a level in blanks; deepest bounds it.
const (
	step    = 2
	deepest = 100 * step
)

// mapping writes a mapping that is not empty; the indentation of its first line is written already.
func (e *emitter) mapping(mapping map[string]any, indent int) {
	e.unusual = e.unusual || indent > deepest
	if e.unusual {
		return
	}
	for n, key := range ordered(mapping) {
		e.indent(n, indent)
		e.key(key)
		element := mapping[key]
		switch item := element.(type) {
		case map[string]any:
			if len(item) > 0 {
				e.out.WriteString(":\n")
				e.indent(1, indent+step)
				e.mapping(item, indent+step)
				continue
			}
		case []any:
			if len(item) > 0 {
				e.out.WriteString(":\n")
				e.indent(1, indent+step)
				e.sequence(item, indent+step)
				continue
			}
		}
		e.out.WriteString(": ")
		e.scalar(element, indent+step)
	}
}

// sequence writes a list that is not empty in the same way.
func (e *emitter) sequence(list []any, indent int) {
	e.unusual = e.unusual || indent > deepest
	if e.unusual {
		return
	}
	for n, element := range list {
		e.indent(n, indent)
		e.out.WriteString("- ")
		switch item := element.(type) {
		case map[string]any:
			if len(item) > 0 {
				e.mapping(item, indent+step)
				continue
			}
		case []any:
			if len(item) > 0 {
				e.sequence(item, indent+step)
				continue
			}
		}
		e.scalar(element, indent+step)
	}
}

// indent begins a line, unless it is the first one of a collection.
func (e *emitter) indent(n, indent int) {
	const blanks = "                "
	for ; n > 0 && indent > 0; indent -= len(blanks) {
		e.out.WriteString(blanks[:min(indent, len(blanks))])
	}
}

// key writes a key. Long ones and those of several lines have a form of their own.
func (e *emitter) key(key string) {
	const longest = 100 // bytes
	if len(key) > longest || key == mergeKey || strings.Contains(key, "\n") {
		e.unusual = true
		return
	}
	e.text(key, 0)
}

// scalar writes a scalar or an empty collection and ends its line.
func (e *emitter) scalar(v any, indent int) {
	switch item := v.(type) {
	case nil:
		e.out.WriteString("null")
	case bool:
		e.out.WriteString(strconv.FormatBool(item))
	case string:
		e.text(item, indent)
	case int64, uint64:
		e.out.WriteString(value.Text(item))
	case float64:
		e.unusual = e.unusual || math.IsNaN(item) || math.IsInf(item, 0)
		e.out.WriteString(decimal(item))
	case []any:
		e.out.WriteString("[]")
	case map[string]any:
		e.out.WriteString("{}")
	default:
		e.unusual = true
	}
	e.out.WriteByte('\n')
}

// text writes a string in the style that it has in every manifest. Where this style cannot be plain, the library takes quotes.
func (e *emitter) text(s string, indent int) {
	if bare(s) {
		e.out.WriteString(s)
		return
	}
	if !usual(s) {
		e.unusual = true
		return
	}
	switch style := styleOf(s); {
	case strings.Contains(s, " \n"): // in blocks the library puts them in quotes
		e.unusual = true
	case style == yaml.LiteralStyle:
		e.literal(s, indent)
	case style == yaml.DoubleQuotedStyle:
		e.quoted(s)
	case strings.Contains(s, ": ") || strings.Contains(s, " #") || strings.HasSuffix(s, ":") || strings.HasSuffix(s, " "):
		e.out.WriteString("'" + strings.ReplaceAll(s, "'", "''") + "'")
	default:
		e.out.WriteString(s)
	}
}

// literal writes a text as a block; the end of its last line is the caller's.
func (e *emitter) literal(s string, indent int) {
	body, ends := strings.CutSuffix(s, "\n")
	if e.out.WriteByte('|'); !ends {
		e.out.WriteByte('-')
	}
	for line := range strings.SplitSeq(body, "\n") {
		e.out.WriteByte('\n')
		if line != "" {
			e.indent(1, indent)
			e.out.WriteString(line)
		}
	}
}

func (e *emitter) quoted(s string) {
	e.out.WriteByte('"')
	for at := strings.IndexAny(s, "\"\\\n"); at >= 0; at = strings.IndexAny(s, "\"\\\n") {
		e.out.WriteString(s[:at])
		e.out.WriteByte('\\')
		if s[at] == '\n' {
			e.out.WriteByte('n')
		} else {
			e.out.WriteByte(s[at])
		}
		s = s[at+1:]
	}
	e.out.WriteString(s)
	e.out.WriteByte('"')
}

// bare tells whether a text certainly is written as it is: it begins like no other type, is no word of YAML, and has printable
// characters of ASCII only, no colon and no # that would end it. False says nothing.
func bare(s string) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	if !beginsPlain(s) || isWord(s) {
		return false
	}
	i, data := 0, []byte(s) // which copies nothing, because nothing is changed
	for ; i+8 <= len(data); i += 8 {
		// Eight bytes at once: the highest bit of a byte is set where it is a blank or below, a colon, or above a tilde.
		x := binary.LittleEndian.Uint64(data[i:])
		colons := x ^ ones*':'
		if (((x-ones*'!')|(colons-ones))&^x|(x+ones)|x)&high != 0 && !bareBytes(s, i, i+8) {
			return false
		}
	}
	return bareBytes(s, i, len(s))
}

// bareBytes tells whether the bytes from one index to another may stand in such a text.
func bareBytes(s string, from, to int) bool {
	for i := from; i < to; i++ {
		switch c := s[i]; {
		case c < ' ' || c > '~':
			return false
		case c == ':' && (i+1 == len(s) || s[i+1] == ' '), c == ' ' && (i+1 == len(s) || s[i+1] == '#'):
			return false
		}
	}
	return true
}

// usual tells whether a text has no characters that the library escapes, but for quotes, backslashes and line breaks.
func usual(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < ' ' || c > '~') && c != '\n' {
			return c >= utf8.RuneSelf && usualRunes(s[i:])
		}
	}
	return true
}

func usualRunes(s string) bool {
	const last = 0xFFFF // beyond it the library escapes
	for _, r := range s {
		if r != '\n' && (r == utf8.RuneError || r > last || !unicode.IsPrint(r)) {
			return false
		}
	}
	return true
}
