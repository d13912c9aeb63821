package expr

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hil/ast"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
)

// Source is a text that may hold ${...} and where it stands in a file.
type Source struct {
	Text string
	// Pos is the place of the first character of the text. With a zero line every place in the text is the whole file.
	Pos diag.Pos
	// Indent is the number of columns before every line of the text but the first, as in a block scalar.
	Indent int
	// Folded says that the line breaks of the file are lost; every place in the text is then Pos.
	Folded bool

	// columns, when set, holds the column of each character of the text: a quoted scalar of one line with escapes.
	columns []int
}

var (
	// nodeProperties stand before a scalar: an anchor, a tag and the blanks behind them.
	nodeProperties = regexp.MustCompile(`^(?:[&!]\S*\s+)*`)
	// singleQuoted and doubleQuoted match how one character is written in a quoted scalar.
	singleQuoted = regexp.MustCompile(`^(?:''|[^'])`)
	doubleQuoted = regexp.MustCompile(`^(?:\\x.{2}|\\u.{4}|\\U.{8}|\\.|[^"\\])`)
)

// SourceOf returns the text of a YAML scalar with its place. The lines are those of the whole file; they tell how the scalar is
// indented and escaped, which the node does not.
func SourceOf(node *yaml.Node, file string, lines []string) Source {
	if node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return blockSource(node, file, lines)
	}
	source := Source{Text: node.Value, Pos: diag.Pos{File: file, Line: node.Line, Column: node.Column}}
	rest := afterColumn(line(lines, node.Line), node.Column)
	properties := nodeProperties.FindString(rest)
	rest = rest[len(properties):]
	source.Pos.Column += utf8.RuneCountInString(properties)

	if node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 {
		source.Folded = !strings.HasPrefix(rest, node.Value)
		return source
	}
	source.columns = quotedColumns(rest, source.Pos.Column)
	source.Pos.Column++
	source.Folded = len(source.columns) != utf8.RuneCountInString(node.Value)
	return source
}

// blockSource handles literal and folded scalars, whose text starts on the line after their header.
func blockSource(node *yaml.Node, file string, lines []string) Source {
	source := Source{Text: node.Value, Pos: diag.Pos{File: file, Line: node.Line + 1, Column: 1}}
	text := strings.TrimRight(node.Value, "\n")
	blank := len(text) - len(strings.TrimLeft(text, "\n"))
	first, _, several := strings.Cut(text[blank:], "\n")
	raw := line(lines, source.Pos.Line+blank)
	if node.Style&yaml.LiteralStyle == 0 {
		// A folded scalar of one line has no line break to lose.
		source.Folded = several || blank > 0 || !strings.HasSuffix(raw, first)
		source.Indent = len(raw) - len(strings.TrimLeft(raw, " "))
	} else if indent, ok := strings.CutSuffix(raw, first); ok {
		source.Indent = len(indent)
	}
	source.Pos.Column += source.Indent
	return source
}

// quotedColumns returns the column of each character of the quoted scalar that the text begins with, which starts in the
// given column. It returns nil when the scalar goes on in the next line.
func quotedColumns(text string, column int) []int {
	character := singleQuoted
	if strings.HasPrefix(text, `"`) {
		character = doubleQuoted
	}
	columns := []int{}
	for text != "" {
		written := text[:1] // the quote before the first character
		if len(columns) > 0 {
			written = character.FindString(text)
		}
		if written == "" {
			return columns[1:]
		}
		columns = append(columns, column)
		column += utf8.RuneCountInString(written)
		text = text[len(written):]
	}
	return nil
}

// line returns a line, counted from 1, or "" when there is no such line.
func line(lines []string, number int) string {
	if number < 1 || number > len(lines) {
		return ""
	}
	return strings.TrimSuffix(lines[number-1], "\r")
}

// afterColumn returns the part of a line from a column, counted in characters from 1.
func afterColumn(line string, column int) string {
	for at := range line {
		if column--; column == 0 {
			return line[at:]
		}
	}
	return ""
}

// at translates a place in the text, as HIL counts it, to a place in the file.
func (s Source) at(p ast.Pos) diag.Pos {
	if p.Column == 1 && p.Line > 1 && s.offset(p.Line, 1) >= utf8.RuneCountInString(s.Text) {
		// The end of a block scalar is in the next line; what lacks there lacks at the end of its last line.
		lines := strings.Split(strings.TrimRight(s.Text, "\n"), "\n")
		return s.At(len(lines), utf8.RuneCountInString(lines[len(lines)-1])+1)
	}
	return s.At(p.Line, p.Column)
}

// At is the place of a line and a column of the text, both counted from 1, in the file.
func (s Source) At(line, column int) diag.Pos {
	pos := s.Pos
	switch {
	case s.Folded || pos.Line == 0 || line < 1:
	case s.columns != nil:
		if offset := s.offset(line, column); offset >= 0 && offset < len(s.columns) {
			pos.Column = s.columns[offset]
		} else if len(s.columns) > 0 {
			pos.Column = s.columns[len(s.columns)-1] + 1
		}
	case line == 1:
		pos.Column += column - 1
	default:
		pos.Line += line - 1
		pos.Column = column + s.Indent
	}
	return pos
}

// offset returns how many characters of the text stand before a place.
func (s Source) offset(line, column int) int {
	offset, rest := 0, s.Text
	for range line - 1 {
		before, after, _ := strings.Cut(rest, "\n")
		offset += utf8.RuneCountInString(before) + 1
		rest = after
	}
	return offset + column - 1
}
