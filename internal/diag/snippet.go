package diag

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Source returns the text of a file that diagnostics name; false when it is not known.
type Source func(file string) (text string, ok bool)

// snippet is the line that a diagnostic is about and the part of it that is meant, in characters from 0.
type snippet struct {
	line       string
	start, end int
	offset     int // bytes before the line
}

// maxSnippet bounds the characters of a line that are shown; definitions hold images in one line.
const maxSnippet = 160

// find returns the snippet of a place; false when the place is a whole file or its text is not known.
func (s Source) find(pos Pos) (snippet, bool) {
	if s == nil || pos.Line < 1 {
		return snippet{}, false
	}
	text, ok := s(pos.File)
	lines := strings.SplitAfter(text, "\n")
	if !ok || pos.Line > len(lines) {
		return snippet{}, false
	}
	found := snippet{line: strings.TrimRight(lines[pos.Line-1], "\r\n"), offset: len(strings.Join(lines[:pos.Line-1], ""))}
	found.start = min(max(pos.Column-1, 0), utf8.RuneCountInString(found.line))
	found.end = found.start + extent([]rune(found.line)[found.start:])
	return found, true
}

// extent is the length of the word, the quoted text, the expression or the BOSH variable that a line begins with.
func extent(line []rune) int {
	if len(line) == 0 {
		return 0
	}
	for open, end := range map[string]string{`"`: `"`, `'`: `'`, "${": "}", "((": "))"} {
		rest, ok := strings.CutPrefix(string(line), open)
		if !ok {
			continue
		}
		if length := strings.Index(rest, end); length >= 0 {
			return utf8.RuneCountInString(open + rest[:length] + end)
		}
	}
	length := 0
	for length < len(line) && (unicode.IsLetter(line[length]) || unicode.IsDigit(line[length]) || strings.ContainsRune("_-./", line[length])) {
		length++
	}
	return max(length, 1)
}

// byteAt returns the number of bytes before a character of the file.
func (s snippet) byteAt(character int) int {
	return s.offset + len(string([]rune(s.line)[:character]))
}

// shown returns the line as it can be printed, cut around the part that is meant, and that part in it. What would act on a
// terminal is replaced.
func (s snippet) shown() (line string, start, end int) {
	characters := []rune(s.line)
	from := 0
	if s.start > maxSnippet/2 && len(characters) > maxSnippet {
		from = s.start - maxSnippet/2
	}
	characters = characters[from:min(len(characters), from+maxSnippet)]
	for i, character := range characters {
		if character != '\t' && !unicode.IsPrint(character) {
			characters[i] = unicode.ReplacementChar
		}
	}
	return string(characters), s.start - from, min(s.end-from, len(characters))
}
