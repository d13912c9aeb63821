package expr

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hil/ast"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
)

// A Source is a text that may contain expressions ${...}, with the position of the text in its file and the information
// that is needed to translate positions in the text to positions in the file. The zero Source is an empty text at an
// unknown position. A Source with only Text is valid; its errors have no position.
type Source struct {
	Text string
	// Pos is the position of the first character of the text. If its line is 0, positions in the text are not known
	// and the whole file is reported.
	Pos diag.Pos
	// Indent is the number of columns before each line of the text except the first, as in a block scalar.
	Indent int
	// Folded means that the line breaks of the file cannot be reconstructed. Pos is reported for every position then.
	Folded bool

	// columns contains the column of each character of the text. It is set only for a quoted scalar on one line, whose
	// characters may be written as escapes.
	columns []int
}

var (
	// nodeProperties matches the anchor and the tag before a scalar, with the blanks after them.
	nodeProperties = regexp.MustCompile(`^(?:[&!]\S*\s+)*`)
	// singleQuoted and doubleQuoted match one character, or its escape sequence, in a quoted scalar.
	singleQuoted = regexp.MustCompile(`^(?:''|[^'])`)
	doubleQuoted = regexp.MustCompile(`^(?:\\x.{2}|\\u.{4}|\\U.{8}|\\.|[^"\\])`)
)

// SourceOf returns the text of a YAML scalar, which must not be nil, with its position. file is the name of the file in
// positions; the file is not read. lines are the lines of the whole file without line breaks; they show how the scalar
// is indented and escaped, which the node does not record.
//
// A scalar other than a literal block scalar (|) is Folded if its text spans several lines of the file: every
// position in it is reported as that of its start. If lines is nil, the columns in a literal block scalar do not
// include its indentation, and any other scalar that contains more than line breaks is Folded.
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

// blockSource returns the Source of a literal (|) or folded (>) YAML scalar, whose text starts on the line after its
// header. file is the name of the file in positions. lines are the lines of the whole file, from which the indentation
// of the text is determined. A folded scalar is marked as Folded, because its line breaks cannot be reconstructed,
// unless its text is a single line that lines contain unchanged.
//
// lines may be nil. The columns in a literal scalar then do not include its indentation, and a folded scalar is marked
// as Folded if its text consists of more than line breaks.
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

// quotedColumns returns the column of each character of the value of a quoted YAML scalar. text is the rest of the
// line from the opening quote (' or "), which is in the given column; anything after the closing quote is ignored. An
// escape sequence is one character, and the quotes have no column. The result is empty and not nil for an empty
// scalar. It is nil if text is empty or if the scalar continues on the next line. The exception is a line that ends
// with an escaped line break: the result then contains the columns of the characters before it, so it is incomplete
// if it has fewer elements than the value has characters.
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

// line returns the line with this number, counted from 1, without a carriage return at its end. It returns "" if the
// number is less than 1 or greater than the number of lines.
func line(lines []string, number int) string {
	if number < 1 || number > len(lines) {
		return ""
	}
	return strings.TrimSuffix(lines[number-1], "\r")
}

// afterColumn returns the part of a line from a column on, counted in characters from 1, including the character in
// that column. It returns "" if the line is shorter or the column is less than 1.
func afterColumn(line string, column int) string {
	for at := range line {
		if column--; column == 0 {
			return line[at:]
		}
	}
	return ""
}

// at translates p, a position in the text as HIL reports it, to a position in the file, as At does for a line and a
// column. A position after the final line break of the text, at which HIL reports an unexpected end, becomes the end of
// the last line that is not empty.
func (s Source) at(p ast.Pos) diag.Pos {
	if p.Column == 1 && p.Line > 1 && s.offset(p.Line, 1) >= utf8.RuneCountInString(s.Text) {
		// A block scalar ends with a line break, so HIL reports an unexpected end on the line after it. The end of the
		// last line of the text is reported instead.
		lines := strings.Split(strings.TrimRight(s.Text, "\n"), "\n")
		return s.At(len(lines), utf8.RuneCountInString(lines[len(lines)-1])+1)
	}
	return s.At(p.Line, p.Column)
}

// At translates a line and a column of the text, both counted from 1, to a position in the file. The column counts
// characters, not bytes. At returns the position of the start of the text (Pos) if the source is Folded, if positions
// in the text are not known because the line of Pos is 0, or if line is less than 1. The column must not be less than
// 1. In a quoted scalar, a position after the end of the text becomes the column after the last character. Otherwise
// positions beyond the end of the text are not checked.
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

// offset returns the number of characters (not bytes) of the text before a line and column, both counted from 1; a
// line break is one character. For a position beyond the end of its line or of the text, it also counts one character
// for each missing column and for each missing line break. offset never fails.
func (s Source) offset(line, column int) int {
	offset, rest := 0, s.Text
	for range line - 1 {
		before, after, _ := strings.Cut(rest, "\n")
		offset += utf8.RuneCountInString(before) + 1
		rest = after
	}
	return offset + column - 1
}
